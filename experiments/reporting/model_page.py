"""A page of models in memory, without runs on disk."""

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from experiments.reporting.graph_export import NotExportableError
from experiments.reporting.page import fill_page
from experiments.reporting.page_model import page_model
from experiments.reporting.run_payload import best_sources, heat_maps
from models import LatentModel
from qlayers.callbacks.code_statistics import code_frequencies
from qlayers.pixels import to_bytes

_BASES = 4
_COUNTED = 2_000


@dataclass(frozen=True)
class ShownModel:
    """A model to show.

    Attributes:
        name: What the page calls it.
        model: The model.
        scores: Numbers for the table, by heading.
        info: Result of `qlayers.metrics.infomec`, if it was computed.
    """

    name: str
    model: LatentModel
    scores: dict[str, float]
    info: Any = None


def model_page(
    shown: Sequence[ShownModel],
    images: np.ndarray,
    *,
    title: str,
    source_names: Sequence[str] = (),
) -> str:
    """The page of models in memory, as text that is one HTML file.

    Args:
        shown: The models.
        images: Images that they were made for; the first ones become examples.
        title: Title of the page.
        source_names: Names of the factors.

    Example:

    ```python
    page = model_page([ShownModel("QLAE", model, {})], images, title="QLAE")
    Path("qlae.html").write_text(page, encoding="utf-8")
    ```
    """
    payloads = [_payload(entry, images, source_names) for entry in shown]
    return fill_page(
        title=title,
        lead=", ".join(entry.name for entry in shown),
        about="Scores on images of the same dataset, the same for every model.",
        table=_table(shown),
        runs=payloads,
    )


def _payload(
    entry: ShownModel, images: np.ndarray, source_names: Sequence[str]
) -> dict[str, Any]:
    model, reason = entry.model, ""
    kind = model.reconstruction.kind if model.reconstruction is not None else "bce"
    exported = None
    try:
        exported = page_model(model.encoder, model.decoder, kind)
    except NotExportableError as error:
        reason = f"the page does not know {error}"
    results = {} if entry.info is None else {"infomec": entry.info.to_dict()}
    matrices = heat_maps({"results": results}, source_names)
    facts = [f"{name} {value:.2f}" for name, value in entry.scores.items()]
    return {
        "name": entry.name,
        "facts": ", ".join(facts),
        "verdict": "",
        "model": exported,
        "reason": reason,
        "curves": {},
        "matrices": matrices,
        "knows": best_sources(matrices),
        "pictures": _pictures(model, images, _has_codes(exported)),
    }


def _has_codes(exported: dict[str, Any] | None) -> bool:
    return exported is not None and "counts" in exported["latent"]


def _pictures(
    model: LatentModel, images: np.ndarray, has_codes: bool
) -> dict[str, Any]:
    frequencies = None
    if model.quantizer is not None and has_codes:
        codes = model.codes(images[:_COUNTED])
        shares = code_frequencies(codes, model.quantizer.codes_per_latent)
        frequencies = [row.tolist() for row in shares]
    return {
        "side": int(images.shape[1]),
        "latents": 0,
        "values": [],
        "frequencies": frequencies,
        "codes": [],
        "bases": [_uri(image) for image in images[:_BASES]],
        "sprites": [],
        "swaps": None,
    }


def _uri(image: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(to_bytes(image[None])[0]).save(file, "png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _table(shown: Sequence[ShownModel]) -> str:
    names = dict.fromkeys(name for entry in shown for name in entry.scores)
    rows = [
        [entry.name, *(_cell(entry.scores.get(name)) for name in names)]
        for entry in shown
    ]
    head = "".join(
        f'<th scope="col">{html.escape(text)}</th>' for text in ("model", *names)
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"
