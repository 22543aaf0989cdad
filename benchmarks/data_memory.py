"""Peak memory of preparing the largest published files.

    python -m benchmarks.data_memory           # 20,000 images each
    python -m benchmarks.data_memory --whole   # files of the published size

Writes an .npz in the layout of MPI3D (460,800 images, 5.7 GB when whole) and a zip
archive in the layout of Isaac3D (737,280 pictures). For each, a process of its own
reads the file from end to end and prepares its first 20,000 images, by which time the
shuffle buffer has overflowed to disk and memory no longer grows with their number.
The table shows that process's peak resident memory beside that of one that only imports
the libraries.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import sample_files, timing
from qlayers.datasets.spaces import ISAAC3D, MPI3D_COMPLEX

_SAMPLE = 20_000
_CHILD = """
import resource, sys
from pathlib import Path
import tensorflow_datasets as tfds
from qlayers.datasets.file_datasets import builder_class
from qlayers.datasets.readers import NpzRows, PngArchive

name, file, folder, limit = sys.argv[1:]
builder_class = builder_class("mpi3d" if name == "nothing" else name)
if name == "mpi3d":
    for _ in NpzRows(file, "images").chunks(512):
        pass
if name == "isaac3d":
    with PngArchive(file, builder_class.FOLDER, builder_class.LABELS_NAME) as archive:
        for number in range(len(archive)):
            archive.png(number)
if name != "nothing":
    builder = builder_class(data_dir=folder)
    builder.source_file = file
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(
            max_examples_per_split=int(limit),
            compute_stats=tfds.download.ComputeStatsMode.SKIP,
        )
    )
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _peak_megabytes(name: str, file: Path, folder: str) -> int:
    command = [sys.executable, "-c", _CHILD, name, str(file), folder, str(_SAMPLE)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.rsplit("peak", 1)[1]) // 1024


def run(whole: bool = False) -> list[timing.Row]:
    """Measures both layouts."""
    rows: list[timing.Row] = []
    with tempfile.TemporaryDirectory() as folder:
        base = _peak_megabytes("nothing", Path(folder), folder)
        for name, space in (("mpi3d", MPI3D_COMPLEX), ("isaac3d", ISAAC3D)):
            count = space.num_combinations if whole else _SAMPLE
            file = Path(folder) / f"{name}.file"
            if name == "mpi3d":
                sample_files.write_npz(file, count)
            else:
                sample_files.write_png_archive(
                    file, "Isaac3D_down128", "labels.npy", space, count
                )
            rows.append(
                {
                    "case": f"prepare {name} from {count} images",
                    "file_mb": file.stat().st_size >> 20,
                    "peak_mb": _peak_megabytes(name, file, folder),
                    "imports_alone_mb": base,
                }
            )
            file.unlink()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="published sizes")
    timing.print_table("Peak memory", run(parser.parse_args().whole))


if __name__ == "__main__":
    main()
