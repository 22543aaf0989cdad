"""Writes files in the published layouts, filled with rendered images, to measure on."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qlayers import datasets
from qlayers.datasets.factor_space import FactorSpace
from qlayers.datasets.spaces import (
    FALCOR3D,
    ISAAC3D,
    SHAPES3D_VALUES,
    SMALLNORB,
)

_CHUNK = 2048


def rendered(n: int, size: int = 64) -> Iterator[npt.NDArray[np.uint8]]:
    """Chunks of images with the detail of a real dataset, `n` in all."""
    dataset = datasets.load("mini_shapes3d", image_size=size)
    for first in range(0, n, _CHUNK):
        count = min(_CHUNK, n - first)
        yield dataset.sample(count, seed=first, dtype="uint8")[1]


def write_npz(path: Path, n: int) -> None:
    """Streams an uncompressed .npz with one array `images` (n, 64, 64, 3)."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (n, 64, 64, 3)}
    )
    with (
        zipfile.ZipFile(path, "w") as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for images in rendered(n):
            member.write(images.tobytes())


def write_shapes3d(path: Path, n: int) -> None:
    import h5py

    sizes = [len(values) for values in SHAPES3D_VALUES]
    ranks = np.unravel_index(np.arange(n), sizes)
    labels = [values[rank] for values, rank in zip(SHAPES3D_VALUES, ranks, strict=True)]
    with h5py.File(path, "w") as file:
        images = file.create_dataset(
            "images", (n, 64, 64, 3), "u1", chunks=(64, 64, 64, 3), compression="gzip"
        )
        for number, chunk in enumerate(rendered(n)):
            images[number * _CHUNK : number * _CHUNK + len(chunk)] = chunk
        file["labels"] = np.stack(labels, axis=1)


def write_png_archive(
    path: Path, folder: str, labels_name: str, space: FactorSpace, n: int
) -> None:
    """Numbers a pool of 512 different pictures from 0 to n - 1."""
    import tensorflow as tf

    pool = [
        tf.io.encode_png(image).numpy()
        for image in np.concatenate(list(rendered(min(n, 512), size=128)))
    ]
    labels = space.sources_of(np.arange(n)) / (np.array(space.sizes) - 1)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(n):
            name = f"{folder}/images/{number:06d}.png"
            archive.writestr(name, pool[number % len(pool)])
        stream = io.BytesIO()
        np.save(stream, labels)
        archive.writestr(f"{folder}/{labels_name}", stream.getvalue())


def write_dsprites(path: Path, n: int) -> None:
    """A complete sub-grid of moving squares with about `n` images."""
    side = int(np.sqrt(n / 6))
    sizes = (3, 2, 1, side, side)
    classes = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)
    images = np.zeros((len(classes), 64, 64), np.uint8)
    for image, (shape, scale, _, x, y) in zip(images, classes, strict=True):
        left, top = (int(50 * place / side) for place in (x, y))
        image[top : top + 6 + 2 * shape, left : left + 6 + 4 * scale] = 1
    np.savez_compressed(path, imgs=images, latents_classes=classes)


def write_smallnorb(folder: Path, n: int) -> Path:
    """The first `n` images of the grid, split over the training and test files."""
    stems = (
        "smallnorb-5x46789x9x18x6x2x96x96-training",
        "smallnorb-5x01235x9x18x6x2x96x96-testing",
    )
    sources = SMALLNORB.sources_of(np.arange(n))
    for stem, rows in zip(stems, np.array_split(sources, 2), strict=True):
        images = np.concatenate(list(rendered(len(rows), size=96)))[..., 0]
        info = rows[:, 1:].astype(np.int32)
        info[:, 2] *= 2
        stereo = np.repeat(images[:, None], 2, axis=1)
        parts = {"dat": stereo, "cat": rows[:, 0].astype(np.int32), "info": info}
        for part, array in parts.items():
            path = folder / f"{stem}-{part}.mat.gz"
            path.write_bytes(gzip.compress(_norb(array), compresslevel=1))
    return folder / f"{stems[0]}-dat.mat.gz"


def _norb(array: npt.NDArray[Any]) -> bytes:
    magic = 0x1E3D4C55 if array.dtype == np.uint8 else 0x1E3D4C54
    sizes = [*array.shape] + [1] * (3 - array.ndim)
    return struct.pack(f"<{2 + len(sizes)}i", magic, array.ndim, *sizes) + (
        array.tobytes()
    )


def write_cars(path: Path, num_cars: int) -> None:
    from scipy.io import savemat

    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        names = [f"car_{number:03d}_mesh" for number in range(num_cars)]
        members = {"data/cars/list.txt": "\n".join(names).encode()}
        for name in names:
            views = np.concatenate(list(rendered(96, size=128)))
            stream = io.BytesIO()
            cube = views.reshape(4, 24, 128, 128, 3).transpose(2, 3, 4, 1, 0)
            savemat(stream, {"im": cube})
            members[f"data/cars/{name}.mat"] = stream.getvalue()
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def write_all(folder: Path, n: int) -> dict[str, dict[str, Any]]:
    """Writes one file per dataset and returns the arguments with which to load it."""
    write_shapes3d(folder / "3dshapes.h5", n)
    write_npz(folder / "real3d_complicated_shapes_ordered.npz", n)
    write_png_archive(
        folder / "falcor.zip", "Falcor3D_down128", "train-rec.labels", FALCOR3D, n
    )
    write_png_archive(folder / "isaac.zip", "Isaac3D_down128", "labels.npy", ISAAC3D, n)
    write_dsprites(folder / "dsprites.npz", n)
    norb = write_smallnorb(folder, min(n, 1000))
    write_cars(folder / "cars.tar.gz", 8)
    return {
        "shapes3d": {"file": folder / "3dshapes.h5"},
        "mpi3d": {"file": folder / "real3d_complicated_shapes_ordered.npz"},
        "falcor3d": {"file": folder / "falcor.zip"},
        "isaac3d": {"file": folder / "isaac.zip"},
        "dsprites": {"file": folder / "dsprites.npz"},
        "color_dsprites": {"file": folder / "dsprites.npz"},
        "smallnorb": {"file": norb, "include_instance": True},
        "cars3d": {"file": folder / "cars.tar.gz"},
    }
