"""Speed and memory, each beside a named peer in the same run."""

from experiments.settings.environment import set_defaults

set_defaults()
