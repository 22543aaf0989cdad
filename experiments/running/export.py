"""The trained networks as files that need nothing but qlayers."""

from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.files import write_atomically


def export(model: LatentModel, directory: RunDirectory) -> None:
    """Writes `encoder.keras` and `decoder.keras`, which need qlayers alone."""
    write_atomically(directory.path / "encoder.keras", model.encoder.save)
    if model.decoder is not None:
        write_atomically(directory.path / "decoder.keras", model.decoder.save)
