"""What a run is: its config, flags, hyperparameters and recipes."""

from experiments.settings.extensions import load_extensions

# Before flags list the methods and datasets that there are.
load_extensions()
