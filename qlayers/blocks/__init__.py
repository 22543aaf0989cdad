"""Building blocks of encoders and decoders that Keras itself does not have."""

from qlayers.blocks.adaptive_instance_normalization import (
    AdaptiveInstanceNormalization as AdaptiveInstanceNormalization,
)
from qlayers.blocks.first_input import FirstInput as FirstInput
from qlayers.blocks.instance_normalization import (
    InstanceNormalization as InstanceNormalization,
)
from qlayers.blocks.learned_constant import LearnedConstant as LearnedConstant
from qlayers.blocks.space_to_depth import SpaceToDepth as SpaceToDepth
from qlayers.blocks.spatial_broadcast import SpatialBroadcast as SpatialBroadcast
from qlayers.blocks.upsampling_conv2d import UpsamplingConv2D as UpsamplingConv2D
