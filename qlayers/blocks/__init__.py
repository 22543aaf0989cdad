"""Building blocks of encoders and decoders that Keras itself does not have."""

from qlayers.blocks.adaptive_instance_normalization import (
    AdaptiveInstanceNormalization,
)
from qlayers.blocks.first_input import FirstInput
from qlayers.blocks.instance_normalization import (
    InstanceNormalization,
)
from qlayers.blocks.learned_constant import LearnedConstant
from qlayers.blocks.space_to_depth import SpaceToDepth
from qlayers.blocks.spatial_broadcast import SpatialBroadcast
from qlayers.blocks.upsampling_conv2d import UpsamplingConv2D

__all__ = [
    "AdaptiveInstanceNormalization",
    "FirstInput",
    "InstanceNormalization",
    "LearnedConstant",
    "SpaceToDepth",
    "SpatialBroadcast",
    "UpsamplingConv2D",
]
