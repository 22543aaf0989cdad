"""Peak memory of preparing the largest published files.

    python -m benchmarks.data_memory           # 20,000 images each, a minute
    python -m benchmarks.data_memory --whole   # files of the published size

Writes an .npz in the layout of MPI3D (460,800 images and 5.7 GB when whole) and a zip
archive in the layout of Isaac3D (737,280 pictures), prepares each in a process of its
own and reports that process's peak resident memory, beside that of a process that only
imports the libraries.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import sample_files
from qlayers.datasets.spaces import ISAAC3D, MPI3D_COMPLEX

_SAMPLE = 20_000
_CHILD = """
import resource, sys
from qlayers.datasets.file_datasets import _builder_class, open_file_dataset
name, file, folder, partial = sys.argv[1:]
if name != "nothing":
    open_file_dataset(
        name, name, file=file, data_dir=folder, allow_partial=partial == "True"
    )
else:
    _builder_class("mpi3d")
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _peak_megabytes(name: str, file: Path, folder: str, partial: bool) -> int:
    command = [sys.executable, "-c", _CHILD, name, str(file), folder, str(partial)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.rsplit("peak", 1)[1]) // 1024


def run(whole: bool = False) -> list[dict[str, Any]]:
    """Measures both layouts."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = _peak_megabytes("nothing", Path(folder), folder, False)
        for name, space in (("mpi3d", MPI3D_COMPLEX), ("isaac3d", ISAAC3D)):
            count = space.num_combinations if whole else _SAMPLE
            file = Path(folder) / name
            if name == "mpi3d":
                sample_files.write_npz(file, count)
            else:
                sample_files.write_png_archive(
                    file, "Isaac3D_down128", "labels.npy", space, count
                )
            rows.append(
                {
                    "layout": name,
                    "images": count,
                    "file MB": file.stat().st_size >> 20,
                    "peak MB": _peak_megabytes(name, file, folder, not whole),
                    "imports alone MB": base,
                }
            )
            file.unlink()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="published sizes")
    for row in run(parser.parse_args().whole):
        print(row)


if __name__ == "__main__":
    main()
