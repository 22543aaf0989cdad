"""One run: set-up, training, scoring, pictures."""
