"""The trained networks as files that need nothing but qlayers."""

from experiments.storage.run_directory import RunDirectory
from models import LatentModel
from qlayers.files import KerasFile, write_bytes


def export(model: LatentModel, directory: RunDirectory) -> None:
    """Writes `encoder.keras` and `decoder.keras`, which need qlayers alone."""
    for name, network in (("encoder", model.encoder), ("decoder", model.decoder)):
        if network is not None:
            file = KerasFile(f"{name}.keras")
            network.save(file)
            write_bytes(directory.path / f"{name}.keras", file.getbuffer())
