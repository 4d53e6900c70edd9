"""Parsed evidence as parquet: what one host read, for others to analyze.

A dataset is a folder, here or in an object store: `FRAME/SHARE.parquet` holds what a
share gave to a frame, `message.ID/SHARE.parquet` a message's captures, and
`shares/SHARE.parquet`, which is written last, what it wrote. So several hosts write
side by side, and a share that was broken off is not there. A share is named after what
it read: the same evidence twice is one share. It knows its files' hashes: polars ends
the process on some that are damaged, so what has changed since is not given to it.
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
# what a share tells of each of its frames; no hash of one in a store
LISTED = {"frame": pl.String(), "rows": pl.Int64(), "sha256": pl.String()}


def save(frames: Frames, root: str) -> str:
    """Write `frames`, as the parsers gave them, as one share of the dataset `root`.

    Returns the share's name. Raises UsageError where `root` cannot be written.
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
    """Return what a share of these frames is called: 16 digits of its files' hashes."""
    files = frames["sources"].select("source", "bytes", "sha256").rows()
    return hashlib.sha256(repr(sorted(map(str, files))).encode()).hexdigest()[:16]


def is_one(path: str) -> bool:
    """Say whether `path` is a dataset: a folder with shares, or a store's address."""
    return "://" in path or any((Path(path) / SHARES).glob("*.parquet"))


def load(
    roots: Sequence[str], beside: Frames | None = None, *, is_ours: bool = False
) -> Frames:
    """Read all shares of some datasets, in the order in which one host would have read.

    `beside` are frames of evidence that was parsed just now. A share that cannot be
    read is a note. One that `is_ours`, that nobody else can have written, is read in
    this process.

    Raises UsageError where nothing is read, and where two shares hold different files
    of one name.
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
        raise UsageError(told or f"{', '.join(roots)}: no share is there")
    return _ordered(join([Frames({"notes": tables.noted(notes)}), *parts]))


def _fresh(part: Frames, read: dict[str, str | None]) -> Frames:
    """Return a share without the files that were `read` in another one."""
    files = dict(part["sources"].select("source", "sha256").iter_rows())
    again = [file for file in files if file in read]
    for file in again:
        if files[file] != read[file]:
            raise UsageError(
                f"two shares hold a file called {file}: ingest with --as NAME"
            )
    read.update(files)
    if not again:
        return part
    fresh = ~pl.col("source").is_in(again) | pl.col("source").is_null()

    # calls have their source in their templates, which are put to them where asked for
    def only(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(fresh) if "source" in frame.columns else frame

    named = {n: only(frame) for n, frame in part.tables.items()}
    if "entries" in named:
        named["entries"] = named["entries"].join(
            named["templates"], on="template", how="semi", maintain_order="left"
        )
    return Frames(named, {i: only(frame) for i, frame in part.messages.items()})


def _share(at: tuple[str, str]) -> Frames:
    """Read the share of a name in a dataset.

    Raises ValueError or PolarsError on one that is not as it should be.
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
    """Return what a share says of its frames; of what another version wrote, nulls."""
    return told.select(
        pl.col(c).cast(kind) if c in told.columns else pl.lit(None, kind).alias(c)
        for c, kind in LISTED.items()
    ).drop_nulls("frame")


def _frame(file: str, sha256: str | None) -> pl.DataFrame:
    """Read a file of a share. Raises ValueError where it has changed since."""
    if sha256 is not None and "://" not in file and digest(Path(file)) != sha256:
        raise ValueError(f"{file} is not as it was written")
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
    else:  # a folder here may have a name that looks like a pattern
        files = [str(file) for file in Path(root, SHARES).glob("*.parquet")]
    return sorted({found[1] for file in files if (found := NAMED.search(file))})


def _lacking(names: Iterable[str]) -> str | None:
    """Return what frame the others of a share cannot be read without."""
    needed = {"sources", *({"templates"} if "entries" in names else ())}
    return min(needed.difference(names), default=None)


def _plain(frames: Iterable[str]) -> bool:
    """Refuse names that would lead elsewhere: a dataset is evidence as well."""
    return all("/" not in frame and ".." not in frame for frame in frames)


def _ordered(frames: Frames) -> Frames:
    """Sort rows by file, as if one process had read all files in order."""
    files = frames["sources"].select("source").sort("source").with_row_index(ORDER)
    found = pl.col("stage") == "sources"  # what the search for files noted comes first

    def sort(frame: pl.DataFrame) -> pl.DataFrame:
        if "source" not in frame.columns:
            return frame
        by: list[pl.Expr] = [pl.col(ORDER)]
        if "stage" in frame.columns:
            source = pl.col("source").fill_null("")
            by = [~found, pl.when(found).then(source), pl.when(found).then("text"), *by]
        placed = frame.join(files, on="source", how="left", maintain_order="left")
        return placed.sort(by, maintain_order=True).drop(ORDER)

    return Frames(
        {name: sort(frame) for name, frame in frames.tables.items()},
        {name: sort(frame) for name, frame in frames.messages.items()},
    )


def _write(frame: pl.DataFrame, target: str) -> str | None:
    """Write a file as a whole: here by renaming it, in a store by its nature.

    Returns its SHA-256 where it lies here.
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
