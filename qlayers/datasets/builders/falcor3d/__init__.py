"""Builder of `falcor3d`."""
