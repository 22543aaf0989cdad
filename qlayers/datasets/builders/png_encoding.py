"""Encodes pictures while others are being read and written."""

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

# Half the work of the usual level 6, and files at most a tenth larger.
_COMPRESSION = 4
_PICTURES_PER_JOB = 32
_THREADS = max(2, min(8, os.cpu_count() or 2))


def encode_png(image: npt.NDArray[np.uint8] | bytes) -> bytes:
    """A PNG file of an image (height, width, 1 or 3); encoded ones stay as they are."""
    from PIL import Image

    if isinstance(image, bytes):
        return image
    stream = io.BytesIO()
    shown = image[..., 0] if image.shape[-1] == 1 else image
    Image.fromarray(shown).save(stream, "PNG", compress_level=_COMPRESSION)
    return stream.getvalue()


def _encode_all(images: Sequence[Any]) -> list[bytes]:
    return [encode_png(image) for image in images]


def encoded_ahead(chunks: Iterable[Any]) -> Iterator[tuple[Any, list[bytes], Any]]:
    """Replaces images by PNG files, in threads, one chunk ahead of the consumer.

    Args:
        chunks: Image numbers, images and sources.
    """
    waiting: tuple[Any, list[Future[list[bytes]]], Any] | None = None
    with ThreadPoolExecutor(_THREADS) as pool:
        for index, images, sources in chunks:
            jobs = [
                pool.submit(_encode_all, images[first : first + _PICTURES_PER_JOB])
                for first in range(0, len(images), _PICTURES_PER_JOB)
            ]
            if waiting is not None:
                yield _gathered(*waiting)
            waiting = (index, jobs, sources)
        if waiting is not None:
            yield _gathered(*waiting)


def _gathered(
    index: Any, jobs: list[Future[list[bytes]]], sources: Any
) -> tuple[Any, list[bytes], Any]:
    return index, [picture for job in jobs for picture in job.result()], sources
