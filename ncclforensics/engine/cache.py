"""Caches parsed evidence that took long to parse, for analyses with other options.

An entry is a dataset. Its key covers what is cheap to obtain: the version of the code,
and the names, kinds, sizes and times of all files. A hit also requires equal file
hashes, so the first analysis of any evidence hashes nothing for the cache, and a
changed file is parsed again. A broken entry counts as a miss. `answers` keeps whole
analyses.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ncclforensics.engine import dataset, store
from ncclforensics.model.errors import UsageError
from ncclforensics.model.notes import INTERRUPTED
from ncclforensics.parsers import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ncclforensics.model.frames import Frames
    from ncclforensics.model.notes import Note
    from ncclforensics.sources import Source

# parsing that took less is as fast as hashing the files and reading an entry
PAYS_SECONDS = 1.0


def find(root: Path, sources: Sequence[Source], notes: Iterable[Note]) -> Frames | None:
    """Return the cached frames of an earlier run over the same files, or None."""
    entry = store.entry(root, _key(sources, notes))
    if entry is None:
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
    store.used(entry)
    return frames


def keep(
    root: Path,
    sources: Sequence[Source],
    notes: Iterable[Note],
    frames: Frames,
    seconds: float,
) -> None:
    """Cache frames that took `seconds` to parse, if that pays off; never raises."""
    if seconds >= PAYS_SECONDS and is_whole(frames):
        key = _key(sources, notes)
        store.write(root, key, lambda entry: _save(frames, entry))


def is_whole(frames: Frames) -> bool:
    """Whether reading was not interrupted, and every file and share could be read."""
    partly = frames["notes"]["stage"].is_in([INTERRUPTED, dataset.STAGE]).any()
    return not (partly or frames["sources"]["sha256"].has_nulls())


def _save(frames: Frames, entry: Path) -> None:
    dataset.save(frames, str(entry))


def _key(sources: Iterable[Source], notes: Iterable[Note]) -> str:
    """Return the key of an entry: a hash of code, file metadata and notes."""
    key = hashlib.sha256(store.code().encode())
    for source in sources:
        told = [getattr(source, f) for f in source.__slots__ if f != "path"]
        key.update(repr(told).encode())
    key.update(repr(list(notes)).encode())
    return key.hexdigest()[:32]
