"""Builder of `cars3d`."""
