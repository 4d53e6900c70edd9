"""Parsed evidence as parquet: what one host read, for others to analyze.

A dataset is a local folder or one in an object store. `FRAME/SHARE.parquet` holds the
rows of a share in a frame, `message.ID/SHARE.parquet` the captures of a message, and
`shares/SHARE.parquet`, written last, the list of these files. So several hosts can
write in parallel, and an incomplete share is not visible. A share is named after the
hashes of what it read: the same evidence twice is one share. It also lists the hashes
of its own local files, because polars aborts the process on some damaged files: a file
that has changed is not passed to polars.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from ncclforensics.engine import pool, untrusted
from ncclforensics.engine.untrusted import MESSAGE, why
from ncclforensics.model import tables
from ncclforensics.model.errors import UsageError
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.notes import Note
from ncclforensics.sources.compression import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SHARES = "shares"
STAGE = "dataset"
NAMED = re.compile(r"[/\\]([0-9a-f]{16})\.parquet$")
ORDER = "_order"
# columns of the list of a share's frames; there is no hash in an object store
LISTED = {"frame": pl.String(), "rows": pl.Int64(), "sha256": pl.String()}


def save(frames: Frames, root: str) -> str:
    """Write `frames`, as the parsers gave them, as one share of the dataset `root`.

    Returns the name of the share. Raises UsageError if `root` cannot be written.
    """
    share = name(frames)
    named = {
        **{n: frame for n, frame in frames.tables.items() if frame.height},
        **{MESSAGE + i: frame for i, frame in frames.messages.items()},
    }
    try:
        told = [
            (n, part.height, _write(part, f"{root}/{n}/{share}.parquet"))
            for n, part in named.items()
        ]
        listed = pl.DataFrame(told, LISTED, orient="row")
        _write(listed, f"{root}/{SHARES}/{share}.parquet")
    except (OSError, PolarsError) as error:
        raise UsageError(f"{root} cannot be written: {error}") from error
    return share


def name(frames: Frames) -> str:
    """Return the name of a share: 16 hex digits of a hash over its sources' hashes."""
    files = frames["sources"].select("source", "bytes", "sha256").rows()
    return hashlib.sha256(repr(sorted(map(str, files))).encode()).hexdigest()[:16]


def is_one(path: str) -> bool:
    """Whether `path` is a dataset: a folder with shares, or an object store URL."""
    return "://" in path or any((Path(path) / SHARES).glob("*.parquet"))


def load(
    roots: Sequence[str], beside: Frames | None = None, *, is_ours: bool = False
) -> Frames:
    """Load all shares of several datasets, in the order in which one host would read.

    `beside` are frames of evidence that was parsed just now. A share that cannot be
    read yields a note. Trusted datasets (`is_ours`) are read in this process, others
    in processes of their own.

    Raises UsageError if nothing was read, or if two shares hold different files with
    the same name.
    """
    attempt = pool.here if is_ours else untrusted.apart
    parts = [] if beside is None else [beside]
    read: dict[str, str | None] = {}
    for part in parts:
        read.update(part["sources"].select("source", "sha256").iter_rows())
    notes: list[Note] = []
    shares: list[tuple[str, str]] = []
    for root, names in zip(roots, attempt(_shares, roots), strict=True):
        if isinstance(names, Exception):
            raise UsageError(f"{root} cannot be read: {why(names)}") from names
        shares += ((root, share) for share in names)
    for (root, share), found in zip(shares, attempt(_share, shares), strict=True):
        if isinstance(found, Frames):
            parts.append(_fresh(found, read))
        else:
            told = f"share {share} of {root} cannot be read: {why(found)}"
            notes.append(Note(STAGE, told))
    if not read:
        told = "; ".join(note.text for note in notes)
        raise UsageError(told or f"{', '.join(roots)}: there is no share")
    return _ordered(join([Frames({"notes": tables.noted(notes)}), *parts]))


def _fresh(part: Frames, read: dict[str, str | None]) -> Frames:
    """Return a share without the files in `read`, which another share provided.

    Adds its own files to `read`. Raises UsageError if a file in both has changed.
    """
    files = dict(part["sources"].select("source", "sha256").iter_rows())
    again = [file for file in files if file in read]
    for file in again:
        if files[file] != read[file]:
            raise UsageError(
                f"two shares hold a file called {file}: ingest with --as NAME"
            )
    read.update(files)
    return part.without(again) if again else part


def _share(at: tuple[str, str]) -> Frames:
    """Read one share, given (root, share name).

    Raises ValueError or PolarsError on a malformed one.
    """
    root, share = at
    told = _frame(f"{root}/{SHARES}/{share}.parquet", None)
    names = dict(_listed(told).select("frame", "sha256").iter_rows())
    if not _plain(names):
        raise ValueError("it names files elsewhere")
    if lacking := _lacking(names):
        raise ValueError(f"it holds no {lacking}")
    return untrusted.conformed(
        {
            n: _frame(f"{root}/{n}/{share}.parquet", sha256)
            for n, sha256 in names.items()
            if untrusted.is_known(n)
        }
    )


def _listed(told: pl.DataFrame) -> pl.DataFrame:
    """Return the list of a share's frames; columns of other versions become null."""
    return told.select(
        pl.col(c).cast(kind) if c in told.columns else pl.lit(None, kind).alias(c)
        for c, kind in LISTED.items()
    ).drop_nulls("frame")


def _frame(file: str, sha256: str | None) -> pl.DataFrame:
    """Read a file of a share. Raises ValueError if its hash is not `sha256`."""
    if sha256 is not None and "://" not in file and digest(Path(file)) != sha256:
        raise ValueError(f"{file} was changed or damaged")
    return untrusted.parquet(file)


def _shares(root: str) -> list[str]:
    """Return the names of a dataset's shares, sorted."""
    files: list[str]
    if "://" in root:
        listed = pl.scan_parquet(
            f"{root}/{SHARES}/*.parquet",
            include_file_paths="path",
            schema=LISTED,
            missing_columns="insert",
            extra_columns="ignore",
        )
        files = listed.select("path").unique().collect()["path"].to_list()
    else:  # the name of a local folder may look like a glob pattern
        files = [str(file) for file in Path(root, SHARES).glob("*.parquet")]
    return sorted({found[1] for file in files if (found := NAMED.search(file))})


def _lacking(names: Iterable[str]) -> str | None:
    """Return a required frame that a share lacks, None if it is complete."""
    needed = {"sources", *({"templates"} if "entries" in names else ())}
    return min(needed.difference(names), default=None)


def _plain(frames: Iterable[str]) -> bool:
    """Whether no name leads out of the folder: a dataset is untrusted evidence."""
    return all("/" not in frame and ".." not in frame for frame in frames)


def _ordered(frames: Frames) -> Frames:
    """Sort rows by file, as if one process had read all files in order."""
    files = frames["sources"].select("source").sort("source").with_row_index(ORDER)
    found = pl.col("stage") == "sources"  # notes of discovery come first

    def sort(frame: pl.DataFrame) -> pl.DataFrame:
        if "source" not in frame.columns:
            return frame
        by: list[pl.Expr] = [pl.col(ORDER)]
        if "stage" in frame.columns:
            source = pl.col("source").fill_null("")
            by = [~found, pl.when(found).then(source), pl.when(found).then("text"), *by]
        placed = frame.join(files, on="source", how="left", maintain_order="left")
        return placed.sort(by, maintain_order=True).drop(ORDER)

    return frames.each(sort)


def _write(frame: pl.DataFrame, target: str) -> str | None:
    """Write a file atomically: locally by renaming; object stores do so themselves.

    Returns the SHA-256 of a local file, None for one in an object store.
    """
    if "://" in target:
        frame.write_parquet(target)
        return None
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    try:
        frame.write_parquet(draft)
        sha256 = digest(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return sha256
