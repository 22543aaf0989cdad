"""Keras 3 layers for quantized, disentangled latent spaces."""

from qlayers.version import __version__ as __version__
