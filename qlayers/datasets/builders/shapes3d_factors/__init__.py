"""Builder of `shapes3d_factors`."""
