"""Caches parsed evidence that is expensive to parse, for later analyses.

An entry is a dataset. Its key covers what is cheap to obtain: the version of the code,
and the names, kinds, sizes and times of all files. A hit also requires equal file
hashes, so the first analysis of any evidence hashes nothing for the cache, and a
changed file is parsed again. Only parsed frames are cached, never a conclusion. A
broken entry counts as a miss.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics import __version__
from ncclforensics.engine import dataset
from ncclforensics.model.errors import UsageError
from ncclforensics.model.notes import INTERRUPTED
from ncclforensics.parsers import digest
from ncclforensics.parsers.logs import grammar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.model.notes import Note
    from ncclforensics.sources import Source

# bytes of evidence from which reading an entry beats parsing, hashing included
PAYS_BYTES = 32 * 1024**2
# bytes of all entries; the least recently used are evicted first
MOST_BYTES = 2 * 1024**3


def find(root: Path, sources: Sequence[Source], notes: Iterable[Note]) -> Frames | None:
    """Return the cached frames of an earlier run over the same files, or None."""
    if not _pays(sources):
        return None
    entry = root / _key(sources, notes)
    if not entry.is_dir():
        return None
    try:
        frames = dataset.load([str(entry)], is_ours=True)
    except (UsageError, KeyError):
        return None
    known = dict(frames["sources"].select("source", "sha256").iter_rows())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = list(pool.map(digest, sources))
    if [known.get(source.name) for source in sources] != digests or None in digests:
        return None
    with suppress(OSError):
        os.utime(entry)
    return frames


def keep(
    root: Path, sources: Sequence[Source], notes: Iterable[Note], frames: Frames
) -> None:
    """Cache parsed frames if that pays off; never raises, even if the disk is full.

    The frames of an interrupted run, or with a file that could not be hashed, are not
    cached.
    """
    if not _pays(sources) or frames["sources"]["sha256"].has_nulls():
        return
    if (frames["notes"]["stage"] == INTERRUPTED).any():
        return
    entry = root / _key(sources, notes)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".part-", dir=root))
        try:
            dataset.save(frames, str(draft))
            if entry.exists():  # stale: the files have changed since
                entry.rename(draft / "replaced")
            draft.rename(entry)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(entry / "replaced", ignore_errors=True)
        _forget(root)
    except (OSError, UsageError):
        return


def _pays(sources: Sequence[Source]) -> bool:
    return sum(source.bytes for source in sources) >= PAYS_BYTES


def _key(sources: Iterable[Source], notes: Iterable[Note]) -> str:
    """Return the key of an entry: a hash of code, grammars, file metadata and notes."""
    key = hashlib.sha256(f"{__version__} {pl.__version__}".encode())
    package = Path(__file__).parents[1]
    code = [
        file
        for stage in ("model", "engine", "sources", "parsers")
        for file in (package / stage).rglob("*.py")
    ]
    # its frames are built where dumps are read
    code.append(package / "correlate" / "traces" / "call_summary.py")
    for file in sorted([*code, *grammar.grammar_folder().glob("*.toml")]):
        key.update(file.read_bytes())
    for source in sources:
        told = [getattr(source, f) for f in source.__slots__ if f != "path"]
        key.update(repr(told).encode())
    key.update(repr(list(notes)).encode())
    return key.hexdigest()[:32]


def _forget(root: Path) -> None:
    """Evict the least recently used entries, down to MOST_BYTES."""
    left = MOST_BYTES
    entries = [path for path in root.iterdir() if path.is_dir()]
    for entry in sorted(entries, key=lambda path: path.stat().st_mtime, reverse=True):
        left -= sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
        if left < 0:
            shutil.rmtree(entry, ignore_errors=True)
