"""Figures of the studies, drawn without a screen."""

import io
from pathlib import Path
from typing import Any

import numpy as np


def new_figure(rows: int, columns: int, size: float = 2.6) -> tuple[Any, np.ndarray]:
    """An empty figure with square axes, drawn without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(
        rows, columns, figsize=(size * columns, size * rows), squeeze=False
    )


def save_png(figure: Any, path: Path) -> None:
    """Saves a Matplotlib figure and closes it.

    A palette of 128 colours makes clouds of points three times smaller.

    Args:
        figure: The figure.
        path: The file; its folder is made.
    """
    import matplotlib.pyplot as plt
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90, bbox_inches="tight")
    plt.close(figure)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(128).save(path, optimize=True)
