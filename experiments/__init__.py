"""The laboratory: commands that train, evaluate, sweep and report."""

from experiments.settings.environment import set_defaults

set_defaults()
