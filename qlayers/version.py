"""The version, alone in a file so that setup.py can read it without imports."""

__version__ = "0.1.0"
