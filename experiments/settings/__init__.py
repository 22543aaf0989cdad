"""What a run is: its config, flags, hyperparameters and recipes."""
