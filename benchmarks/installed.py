"""Compiles the package to bytecode, as pip does where it installs it.

A checkout has none where PYTHONDONTWRITEBYTECODE is set, and every process that a
benchmark starts would compile what it imports.
"""

from __future__ import annotations

import compileall
from pathlib import Path

import ncclforensics


def compiled() -> None:
    """Compile all modules that have changed since they were."""
    compileall.compile_dir(Path(ncclforensics.__file__).parent, quiet=1)
