"""Keeps parsed evidence that was expensive: a second analysis does not parse it again.

An entry is a dataset under a key of what is cheap to ask: the tool that read, and the
names, kinds, sizes and times of all files. It counts only if the files' hashes are the
same as well, so the first analysis of any evidence hashes nothing for it, and a file
that changed is read. Only parsed frames are kept, never a conclusion; whatever is wrong
with an entry, it is as if there were none.
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

# bytes of evidence from which on reading an entry beats parsing, hashes included
PAYS_BYTES = 32 * 1024**2
# bytes of all entries together; the ones not used for the longest time go first
MOST_BYTES = 2 * 1024**3


def find(root: Path, sources: Sequence[Source], notes: Iterable[Note]) -> Frames | None:
    """Return the frames of an earlier run over the same files, or None."""
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
    """Keep what was parsed, if that pays and the disk allows; raises nothing."""
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
            if entry.exists():  # of files that have changed since
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
    """Return what names an entry: who read, and what is known of the files unread."""
    key = hashlib.sha256(f"{__version__} {pl.__version__}".encode())
    package = Path(__file__).parents[1]
    code = [
        file
        for stage in ("model", "engine", "sources", "parsers")
        for file in (package / stage).rglob("*.py")
    ]
    # made where dumps are read
    code.append(package / "correlate" / "traces" / "call_summary.py")
    for file in sorted([*code, *grammar.grammar_folder().glob("*.toml")]):
        key.update(file.read_bytes())
    for source in sources:
        told = [getattr(source, f) for f in source.__slots__ if f != "path"]
        key.update(repr(told).encode())
    key.update(repr(list(notes)).encode())
    return key.hexdigest()[:32]


def _forget(root: Path) -> None:
    """Remove what was not used for the longest time, down to MOST_BYTES."""
    left = MOST_BYTES
    entries = [path for path in root.iterdir() if path.is_dir()]
    for entry in sorted(entries, key=lambda path: path.stat().st_mtime, reverse=True):
        left -= sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
        if left < 0:
            shutil.rmtree(entry, ignore_errors=True)
