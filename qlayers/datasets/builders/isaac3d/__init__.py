"""Builder of `isaac3d`."""
