"""Latents in TensorBoard's embedding projector."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from qlayers.callbacks.step_callback import StepCallback
from qlayers.pixels import image_grid, in_rows, resized

# Limits of the projector's front end.
_MOST_POINTS = 10_000
_LARGEST_SPRITE = 8_192
_THUMBNAIL = 32


class ProjectorFiles(StepCallback):
    """Writes latents with thumbnails and factor values for the projector.

    `log_dir` becomes a run of its own; everything lies in that folder, as the projector
    demands. The latents of the last `keep` writings can be chosen from.

    Args:
        log_dir: Folder for the projector's files, for example `runs/0/projector`.
        images: (points, height, width, channels), in [0, 1] or bytes.
        sources: (points, factors) factor values.
        encode: Function from images to latents (points, latents).
        source_names: Names of the factors.
        codes: Function from images to integer codes, which become columns as well.
        every_n_steps: Training steps between two writings.
        keep: Number of writings to keep.

    Example:
        >>> sources, images = dataset.sample(1_000, seed=0)
        >>> ProjectorFiles("runs/0/projector", images, sources, model.encode,
        ...     dataset.factor_names)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        images: npt.ArrayLike,
        sources: npt.ArrayLike,
        encode: Callable[[Any], Any],
        source_names: Sequence[str],
        codes: Callable[[Any], Any] | None = None,
        every_n_steps: int = 5_000,
        keep: int = 3,
    ) -> None:
        super().__init__(log_dir, every_n_steps)
        self.images = np.asarray(images)
        self.sources = np.asarray(sources)
        self.encode = encode
        self.codes = codes
        self.source_names = [_cell(name) for name in source_names]
        self.keep = keep
        if len(self.images) != len(self.sources):
            raise ValueError(
                "`images` and `sources` must describe the same points; received "
                f"{len(self.images)} and {len(self.sources)}."
            )
        if not 2 <= len(self.images) <= _MOST_POINTS:
            raise ValueError(
                f"The projector takes from 2 to {_MOST_POINTS} points; received "
                f"{len(self.images)}."
            )

    def write(self, step: int, logs: Mapping[str, Any]) -> None:
        import tensorflow as tf
        from tensorboard.plugins import projector

        folder = Path(self.log_dir)
        latents = keras.ops.convert_to_numpy(self.encode(self.images))
        latents = latents.reshape(len(latents), -1)
        # The projector lists only folders that hold an event file.
        tf.summary.scalar("projector/points", len(latents))
        np.savetxt(
            folder / f"latents-{step:09d}.tsv", latents, delimiter="\t", fmt="%.6g"
        )
        self._write_metadata(folder / "metadata.tsv")
        side = self._write_sprite(folder / "sprite.png")
        config = projector.ProjectorConfig()
        for rank, path in enumerate(self._kept(folder), start=1):
            entry = config.embeddings.add()
            # The projector shows the first name first; that is to be the newest.
            entry.tensor_name = f"{rank}-step-{int(path.stem.split('-')[1])}"
            entry.tensor_path = path.name
            entry.metadata_path = "metadata.tsv"
            if side is not None:
                entry.sprite.image_path = "sprite.png"
                entry.sprite.single_image_dim.extend([side, side])
        projector.visualize_embeddings(str(folder), config)

    def _kept(self, folder: Path) -> list[Path]:
        """The newest latents first; older ones are removed."""
        files = sorted(folder.glob("latents-*.tsv"), reverse=True)
        for path in files[self.keep :]:
            path.unlink()
        return files[: self.keep]

    def _write_metadata(self, path: Path) -> None:
        names = list(self.source_names)
        columns = [_column(values) for values in self.sources.T]
        if self.codes is not None:
            codes = keras.ops.convert_to_numpy(self.codes(self.images))
            names += [f"code_{j}" for j in range(codes.shape[1])]
            columns += [_column(values) for values in codes.T]
        if not columns:  # neither factors nor codes: the points have numbers
            columns = [_column(np.arange(len(self.images)))]
        rows = ["\t".join(row) for row in zip(*columns, strict=True)]
        # A single column must not have a header, several must.
        header = ["\t".join(names)] if len(names) > 1 else []
        path.write_text("\n".join([*header, *rows]) + "\n", encoding="utf-8")

    def _write_sprite(self, path: Path) -> int | None:
        """Writes the thumbnails in one square sheet; None if there are no pictures."""
        if self.images.ndim != 4:
            return None
        from PIL import Image

        columns = int(np.ceil(np.sqrt(len(self.images))))
        side = min(_THUMBNAIL, _LARGEST_SPRITE // columns)
        thumbnails = in_rows(resized(self.images, side), columns)
        sheet = image_grid(thumbnails, gap=0)
        # The projector expects a square sheet.
        missing = columns * side - len(sheet)
        sheet = np.pad(sheet, [(0, missing), (0, 0), (0, 0)], constant_values=255)
        Image.fromarray(sheet).save(path)
        return side


def _cell(text: object) -> str:
    return str(text).replace("\t", " ").replace("\n", " ")


def _column(values: npt.NDArray[Any]) -> list[str]:
    if np.issubdtype(values.dtype, np.integer):
        return [str(value) for value in values]
    return [f"{value:.4g}" for value in values]
