"""What the settings of a run may be, where they are one of a few words."""

from typing import Literal, get_args

from experiments.settings.names import NETWORKS

Selection = Literal["infom", "straight_through_gap", "last"]
Strategy = Literal["none", "mirrored", "multiworker"]
Precision = Literal["none", "float16", "bfloat16"]
Jit = Literal["auto", "on", "off"]
Metrics = Literal["fast", "standard", "all"]
Protocol = Literal["paper", "standalone", "tripod"]

PROFILES = ("paper", "cpu")
ENGINES = ("local", "ray")
# Field of `RunConfig` -> what it may be.
CHOICES: dict[str, tuple[str, ...]] = {
    "network": NETWORKS,
    "select": get_args(Selection),
    "strategy": get_args(Strategy),
    "mixed_precision": get_args(Precision),
    "jit": get_args(Jit),
    "metrics": get_args(Metrics),
    "protocol": get_args(Protocol),
}
