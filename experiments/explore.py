"""Opens a page in which trained models run, from weights that ship with the project.

    python -m experiments.explore
    python -m experiments.explore --models=qlae-mini_shapes3d-32,published

writes one HTML file and opens it in a browser, if there is one. Nothing is trained.

`published` is a folder of `models.save_pretrained`. Its card must say for which images
the model was made; scores are shown if it has them:

    models.save_pretrained(
        model,
        "published",
        {
            "method": "qlae",
            "dataset": "mini_shapes3d",
            "image_size": 32,
            "scores": {"infomec/modularity": 0.82, "psnr/psnr": 28.8},
        },
    )
"""

import webbrowser
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from experiments.settings.command_line import launch
from experiments.settings.scores import COLUMNS

if TYPE_CHECKING:
    import numpy as np

    from experiments.reporting.model_page import ShownModel

_MODELS = flags.DEFINE_list(
    "models",
    ["qlae-mini_shapes3d-32", "ae-mini_shapes3d-32"],
    "Names of shipped models ('all' for every one), or folders with a card that has "
    "`method`, `dataset` and `image_size`.",
)
_OUTPUT = flags.DEFINE_string("output", "runs/explore.html", "The file to write.")
_OPEN = flags.DEFINE_bool("open", True, "Open the page in a browser.")
_COUNTED = flags.DEFINE_integer(
    "images", 2_000, "Images that the heat map is computed on.", lower_bound=100
)
_NEEDED = ("method", "dataset", "image_size")
_SCORES = (
    "infomec/modularity",
    "infomec/explicitness",
    "infomec/compactness",
    "psnr/psnr",
)


def main(arguments: Sequence[str]) -> None:
    import models
    from experiments.reporting.model_page import model_page
    from qlayers import datasets
    from qlayers.files import write_text

    names = _MODELS.value if _MODELS.value != ["all"] else models.pretrained_names()
    cards = {name: models.read_card(name) for name in names}
    data, size = _shared_data(cards)
    dataset = datasets.load(data, image_size=size)
    sources, images = dataset.evaluation_set(_COUNTED.value)
    titles = _titles(cards)
    shown = [
        _shown(name, titles[name], card, sources, images)
        for name, card in cards.items()
    ]
    page = model_page(
        shown,
        images,
        title=f"{', '.join(titles.values())} on {data}",
        source_names=dataset.factor_names,
    )
    path = Path(_OUTPUT.value).expanduser().resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    print(f"Open {path} in a browser: the models run in it, without a network.")
    if _OPEN.value:
        _open(path)


def _shared_data(cards: Mapping[str, Mapping[str, Any]]) -> tuple[str, int]:
    """Dataset and image size of all models; a page has one set of images."""
    for name, card in cards.items():
        _check_card(name, card)
    found = {(card["dataset"], card["image_size"]) for card in cards.values()}
    if len(found) != 1:
        raise ValueError(
            "The models of a page must be made for the same images; received "
            + ", ".join(f"{name} at {size}x{size}" for name, size in sorted(found))
            + "."
        )
    return found.pop()


def _check_card(name: str, card: Mapping[str, Any]) -> None:
    missing = [key for key in _NEEDED if key not in card]
    if missing:
        raise ValueError(
            f"The card of {name} lacks {', '.join(missing)}. Write them into its "
            "card.json, or give them to `models.save_pretrained`."
        )


def _titles(cards: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the page calls each model: its method, or its name where that is shared."""
    counts = Counter(card["method"] for card in cards.values())
    return {
        name: card["method"] if counts[card["method"]] == 1 else name
        for name, card in cards.items()
    }


def _shown(
    name: str,
    title: str,
    card: Mapping[str, Any],
    sources: "np.ndarray",
    images: "np.ndarray",
) -> "ShownModel":
    import models
    from experiments.reporting.model_page import ShownModel
    from experiments.running.latents import latents_of
    from qlayers import metrics

    print(f"loading {name}", flush=True)
    model = models.load_pretrained(name)
    # The heat map is of what the card's scores were taken on, by the same protocol.
    scored = card.get("scored_on", {})
    latents, discrete = latents_of(model, images, scored.get("scored_as", "auto"))
    info = metrics.infomec(
        sources,
        latents,
        discrete_latents=discrete,
        protocol=scored.get("protocol", "paper"),
    )
    known = card.get("scores", {})
    scores = {COLUMNS[s]: known[s] for s in _SCORES if known.get(s) is not None}
    return ShownModel(title, model, scores, info)


def _open(path: Path) -> None:
    """Opens the page where there is a browser; the path was printed before."""
    try:
        opened = webbrowser.open(path.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        print("No browser was found here.")


if __name__ == "__main__":
    launch(main)
