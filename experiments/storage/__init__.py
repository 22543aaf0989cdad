"""What a run leaves on disk, and how it gets there whole."""
