"""Writes tiny files in the exact layouts of the published ones."""

import gzip
import io
import itertools
import struct
import tarfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from scipy.io import savemat


def pictures(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def write_shapes3d(path: Path, n: int = 6) -> np.ndarray:
    values = list(
        itertools.islice(
            itertools.product(
                *[[k / 10 for k in range(10)]] * 3,
                np.linspace(0.75, 1.25, 8),
                [0.0, 1.0, 2.0, 3.0],
                np.linspace(-30.0, 30.0, 15),
            ),
            n,
        )
    )
    images = pictures(n, 64, 64, 3)
    with h5py.File(path, "w") as file:
        file["images"] = images
        file["labels"] = np.array(values)
    return images


def write_npz(path: Path, key: str = "images", n: int = 6) -> np.ndarray:
    images = pictures(n, 64, 64, 3)
    np.savez(path, **{key: images})
    return images


def png_bytes(picture: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def write_png_archive(
    path: Path,
    folder: str,
    labels_name: str,
    sizes: tuple[int, ...],
    images: np.ndarray,
    skip: int | None = None,
    labels: np.ndarray | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> None:
    grid = np.stack(np.unravel_index(np.arange(len(images)), sizes), axis=1)
    if labels is None:
        labels = grid / (np.array(sizes) - 1)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for index, image in enumerate(images):
            if index != skip:
                name = f"{folder}/images/{index:06d}.png"
                archive.writestr(name, png_bytes(image))
        stream = io.BytesIO()
        np.save(stream, labels)
        archive.writestr(f"{folder}/{labels_name}", stream.getvalue())


def write_dsprites_hdf5(path: Path, n: int = 6) -> np.ndarray:
    images = pictures(n, 64, 64) % 2
    classes = np.stack(np.unravel_index(np.arange(n), (1, 3, 6, 40, 32, 32)), axis=1)
    with h5py.File(path, "w") as file:
        file["imgs"] = images
        file["latents/classes"] = classes
        file["latents/values"] = classes.astype(float)
    return images


def norb_bytes(array: np.ndarray) -> bytes:
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[str(array.dtype)]
    dims = [*array.shape] + [1] * max(0, 3 - array.ndim)
    header = struct.pack(f"<2i{len(dims)}i", magic, array.ndim, *dims)
    return header + array.tobytes()


def write_smallnorb(folder: Path, sources: dict[str, np.ndarray]) -> dict:
    """Sources per file stem: category, toy, elevation, azimuth, lighting."""
    written = {}
    for stem, rows in sources.items():
        images = pictures(len(rows), 2, 96, 96, seed=len(written))
        info = rows[:, 1:].astype(np.int32)
        info[:, 2] *= 2
        for part, array in (
            ("dat", images),
            ("cat", rows[:, 0].astype(np.int32)),
            ("info", info),
        ):
            content = gzip.compress(norb_bytes(array), compresslevel=1)
            (folder / f"{stem}-{part}.mat.gz").write_bytes(content)
        written[stem] = images
    return written


def write_cars(path: Path, num_cars: int = 2, missing: int = 0) -> np.ndarray:
    """Returns pictures (cars, 128, 128, 3, 24, 4) in the order of list.txt."""
    ramp = np.linspace(0, 255, 128).astype(np.uint8)
    shades = np.arange(num_cars * 24 * 4).reshape(num_cars, 1, 1, 1, 24, 4)
    cars = (ramp[None, :, None, None, None, None] // 2 + shades).astype(np.uint8)
    cars = np.broadcast_to(cars, (num_cars, 128, 128, 3, 24, 4))
    names = [f"car_{number:03d}_mesh" for number in range(num_cars, 0, -1)]
    with tarfile.open(path, "w:gz") as archive:
        members = {"data/cars/list.txt": "\n".join(names).encode()}
        # The archive's own order differs from that of the list.
        for name, car in sorted(zip(names, cars, strict=True), key=lambda p: p[0]):
            stream = io.BytesIO()
            savemat(stream, {"im": car, "mask": car[..., 0, :, :]})
            members[f"data/cars/{name}.mat"] = stream.getvalue()
        for name in list(members)[: len(members) - missing]:
            entry = tarfile.TarInfo(name)
            entry.size = len(members[name])
            archive.addfile(entry, io.BytesIO(members[name]))
    return cars
