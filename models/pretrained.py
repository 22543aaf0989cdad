"""Trained models by name, from a folder or from an address."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import keras

import models.factor_model
import models.info_gan  # noqa: F401, registers its class for `load_model`
from models.build import build
from models.latent_model import LatentModel

SHIPPED = Path(__file__).resolve().parent / "pretrained_models"
MODEL_FILE = "model.keras"
CARD_FILE = "card.json"
_ADDRESS = re.compile(r"^(https?|file)://")
_DIGEST = re.compile(r"^(sha256:)?([0-9a-f]{64})$")


def load_pretrained(
    source: str | os.PathLike[str], checksum: str | None = None
) -> LatentModel:
    """Loads a trained model, ready for `encode`, `codes`, `decode` and `reconstruct`.

    Files are `.keras` archives, read in Keras's safe mode: they hold settings and
    weights and no code.

    Args:
        source: A name of `pretrained_names()`; a folder that `save_pretrained` or
            `experiments.train` wrote; a `.keras` file; or the address of one, which is
            kept in Keras's cache once it is downloaded.
        checksum: SHA-256 of the file, `"sha256:..."`. An address needs one; folders
            with a card have theirs in it.

    Example:

    ```python
    model = models.load_pretrained("qlae-mini_shapes3d-32")
    codes = model.codes(images)
    ```
    """
    text = os.fspath(source)
    if _ADDRESS.match(text):
        return _load_file(_download(text, checksum))
    path = SHIPPED / text if text in pretrained_names() else Path(text).expanduser()
    if path.is_dir():
        return _load_folder(path, checksum)
    if path.is_file():
        if checksum is not None:
            _check_file(path, checksum)
        return _load_file(path)
    raise ValueError(
        f"There is no model {text!r}. Name a folder, a .keras file, an address, or one "
        f"of: {', '.join(pretrained_names())}."
    )


def pretrained_names() -> list[str]:
    """Names of the models that come with the project, sorted.

    Example:
        >>> "qlae-mini_shapes3d-32" in pretrained_names()
        True
    """
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CARD_FILE}"))


def read_card(source: str | os.PathLike[str]) -> dict[str, Any]:
    """What is known about a trained model: data, recipe, scores, licence, checksum.

    Every card has a `checksum`; the rest is what its author gave to `save_pretrained`.
    `experiments.explore` needs `method`, `dataset` and `image_size`, and shows the
    `scores`.

    Args:
        source: A name of `pretrained_names()`, or a folder that `save_pretrained`
            wrote.

    Example:
        >>> read_card("qlae-mini_shapes3d-32")["dataset"]
        'mini_shapes3d'
    """
    text = os.fspath(source)
    folder = SHIPPED / text if text in pretrained_names() else Path(text).expanduser()
    file = folder / CARD_FILE
    if not file.is_file():
        raise ValueError(
            f"There is no {file}. Models that have a card: "
            f"{', '.join(pretrained_names())}."
        )
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not readable JSON: {error}.") from error
    if not isinstance(card, dict) or "checksum" not in card:
        raise ValueError(f"{file} is not a model's card: it has no `checksum`.")
    return card


def file_checksum(path: Path) -> str:
    """SHA-256 of a file, as cards and `load_pretrained` write it."""
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _load_folder(folder: Path, checksum: str | None) -> LatentModel:
    if (folder / CARD_FILE).is_file():
        _check_file(folder / MODEL_FILE, read_card(folder)["checksum"])
    if (folder / MODEL_FILE).is_file():
        if checksum is not None:
            _check_file(folder / MODEL_FILE, checksum)
        return _load_file(folder / MODEL_FILE)
    if (folder / "encoder.keras").is_file() and (folder / "config.json").is_file():
        return _load_run(folder)
    raise ValueError(
        f"{folder} holds no model: neither {MODEL_FILE} nor a finished run of "
        "`experiments.train`."
    )


def _load_run(folder: Path) -> LatentModel:
    """The model of a run: built from its settings, with the weights it exported."""
    record = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arguments = record.get("model", {}).get("build_arguments")
    if arguments is None:
        raise ValueError(f"{folder}/config.json does not say how its model is built.")
    model = build(**arguments)
    model.encoder.load_weights(folder / "encoder.keras")
    if model.decoder is not None:
        model.decoder.load_weights(folder / "decoder.keras")
    return model


def _load_file(path: Path) -> LatentModel:
    model = keras.saving.load_model(path, compile=False, safe_mode=True)
    if not isinstance(model, LatentModel):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, not a model of `models.build`. "
            "Load it with `keras.models.load_model`."
        )
    return model


def _download(address: str, checksum: str | None) -> Path:
    if checksum is None:
        raise ValueError(
            "A file from elsewhere needs a checksum, so that you get what its author "
            f"published: load_pretrained({address!r}, checksum='sha256:...')."
        )
    digest = _digest(checksum)
    return Path(
        keras.utils.get_file(
            f"{digest}.keras",
            address,
            cache_dir=os.environ.get("KERAS_HOME"),
            cache_subdir="qlayers",
            file_hash=digest,
            hash_algorithm="sha256",
        )
    )


def _digest(checksum: str) -> str:
    match = _DIGEST.match(checksum.strip().lower())
    if match is None:
        raise ValueError(
            f"A checksum is `sha256:` and 64 hexadecimal digits, received {checksum!r}."
        )
    return match[2]


def _check_file(path: Path, checksum: str) -> None:
    if not path.is_file():
        raise ValueError(f"There is no {path}.")
    found = file_checksum(path)
    if _digest(found) != _digest(checksum):
        raise ValueError(
            f"{path} is not the published file: its checksum is {found}, expected "
            f"{checksum}."
        )
