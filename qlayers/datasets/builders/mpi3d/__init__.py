"""Builder of `mpi3d`."""
