"""The error for files that are not what they should be."""

from pathlib import Path


class DatasetFileError(ValueError):
    """A dataset file is missing, damaged or something else altogether.

    Args:
        path: The file.
        problem: What is wrong with it: what was found and what was expected.
        remedy: What to do about it.
    """

    def __init__(
        self,
        path: str | Path,
        problem: str,
        remedy: str = "Delete it and download it again.",
    ) -> None:
        super().__init__(f"{path}: {problem} {remedy}")
        self.path = Path(path)
