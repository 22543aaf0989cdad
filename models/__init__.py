"""The models of the five papers, assembled from qlayers with the functional API."""

from models.assembly import Assembly as Assembly
from models.assembly import assemble as assemble
from models.build import build as build
from models.factor_model import FactorModel as FactorModel
from models.info_gan import InfoGan as InfoGan
from models.inspection import swap_latents as swap_latents
from models.inspection import traversal_values as traversal_values
from models.inspection import traverse as traverse
from models.latent_model import LatentModel as LatentModel
from models.method import Method as Method
from models.method import Paper as Paper
from models.networks.choice import Networks as Networks
from models.reconstruction import Reconstruction as Reconstruction
from models.registry import METHODS as METHODS
from models.registry import register as register
from models.supervision import Supervision as Supervision
