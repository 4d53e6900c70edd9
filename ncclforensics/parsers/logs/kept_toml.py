"""TOML that is parsed once, and kept as JSON beside the bytecode of this package.

Python's parser takes a tenth of a second for all grammars, which each process would
spend anew; as JSON they take milliseconds. What is kept is named by a hash of what was
parsed, so it is never that of other files. Where nobody may write, all is parsed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Content = dict[str, Any]

PREFIX = "grammars-"


def contents(files: Sequence[Path], parse: Callable[[Path], Content]) -> list[Content]:
    """Return what `parse` does of each of some files, in order; it is asked once.

    Raises what `parse` raises, of a file that cannot be read as well.
    """
    folder = Path(importlib.util.cache_from_source(__file__)).parent
    try:
        data = [
            f"{f.name} {f.stat().st_size}\n".encode() + f.read_bytes() for f in files
        ]
    except OSError:
        return [parse(file) for file in files]
    name = PREFIX + hashlib.sha256(b"".join(data)).hexdigest()[:32] + ".json"
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(
            (folder / name).read_bytes(), type=list[dict[str, Any]]
        )
    parsed = [parse(file) for file in files]
    if not sys.dont_write_bytecode:
        with suppress(OSError):
            _keep(parsed, folder, name)
    return parsed


def _keep(parsed: list[Content], folder: Path, name: str) -> None:
    told = msgspec.json.encode(parsed)
    if msgspec.json.decode(told) != parsed:  # JSON has no dates
        return
    folder.mkdir(exist_ok=True)
    draft = folder / f"{name}.{os.getpid()}"
    draft.write_bytes(told)
    draft.replace(folder / name)  # whole at once: other processes may look
    for other in folder.glob(f"{PREFIX}*.json"):
        if other.name != name:
            other.unlink(missing_ok=True)
