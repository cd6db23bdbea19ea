"""bvsi: discover PDEs, with honest uncertainty, from noisy full-field data."""

from bvsi._version import __version__

__all__ = ["__version__"]
