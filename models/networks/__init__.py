"""Encoders and decoders of the papers, as functional models.

Every function takes image shape, number of latents (or outputs) and a `width`
multiplier, and returns an untrained `keras.Model`. Images come in as [0, 1].
"""

from models.networks.additive import additive_decoder as additive_decoder
from models.networks.dalle import dalle_decoder as dalle_decoder
from models.networks.dalle import dalle_encoder as dalle_encoder
from models.networks.locatello import locatello_decoder as locatello_decoder
from models.networks.locatello import locatello_encoder as locatello_encoder
from models.networks.mlp import mlp_encoder as mlp_encoder
from models.networks.residual import residual_decoder as residual_decoder
from models.networks.residual import residual_encoder as residual_encoder
from models.networks.residual import residual_inner_layers as residual_inner_layers
from models.networks.resnet import balls_decoder as balls_decoder
from models.networks.resnet import resnet_encoder as resnet_encoder
from models.networks.spatial_broadcast import (
    spatial_broadcast_decoder as spatial_broadcast_decoder,
)
from models.networks.style import style_decoder as style_decoder
from models.networks.style import style_encoder as style_encoder
from models.networks.style import style_inner_layers as style_inner_layers
