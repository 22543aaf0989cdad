"""The models of the five papers, assembled from qlayers with the functional API."""

from models.assembly import Assembly, assemble
from models.build import build
from models.factor_model import FactorModel
from models.info_gan import InfoGan
from models.inspection import (
    intervene,
    latent_ranges,
    swap_latents,
    traversal_values,
    traverse,
)
from models.latent_model import LatentModel
from models.method import Method, Paper
from models.networks.choice import Networks
from models.pretrained import load_pretrained, pretrained_names, read_card
from models.publication import save_pretrained
from models.reconstruction import Reconstruction
from models.registry import METHODS, register
from models.supervision import Supervision

__all__ = [
    "METHODS",
    "Assembly",
    "FactorModel",
    "InfoGan",
    "LatentModel",
    "Method",
    "Networks",
    "Paper",
    "Reconstruction",
    "Supervision",
    "assemble",
    "build",
    "intervene",
    "latent_ranges",
    "load_pretrained",
    "pretrained_names",
    "read_card",
    "register",
    "save_pretrained",
    "swap_latents",
    "traversal_values",
    "traverse",
]
