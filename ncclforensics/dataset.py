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
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ncclforensics import tables
from ncclforensics.errors import UsageError
from ncclforensics.frames import Frames, join
from ncclforensics.parsers import captures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


SHARES = "shares"
MESSAGE = "message."
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


def load(roots: Sequence[str], beside: Frames | None = None) -> Frames:
    """Read all shares of some datasets, in the order in which one host would have read.

    `beside` are frames of evidence that was parsed just now.

    Raises UsageError where one cannot be read, and where two shares hold different
    files of one name.
    """
    parts = [] if beside is None else [beside]
    read: dict[str, str | None] = {}
    if beside is not None:
        read.update(beside["sources"].select("source", "sha256").iter_rows())
    try:
        for root in roots:
            parts += (_share(root, *share, read) for share in _shares(root))
    except (OSError, ValueError, PolarsError, PanicException) as error:
        raise UsageError(f"{', '.join(roots)} cannot be read: {error}") from error
    return _ordered(join(parts))


def _share(
    root: str,
    share: str,
    names: Mapping[str, str | None],
    read: dict[str, str | None],
) -> Frames:
    """Read one share, without the files that were `read` in another one."""
    if lacking := _lacking(names):
        raise ValueError(f"share {share} holds no {lacking}")
    part = {
        n: _frame(f"{root}/{n}/{share}.parquet", sha256) for n, sha256 in names.items()
    }
    part["sources"] = tables.conform("sources", part["sources"])
    if part["sources"]["source"].has_nulls():
        raise ValueError(f"share {share} holds a file without a name")
    files = dict(part["sources"].select("source", "sha256").iter_rows())
    again = [file for file in files if file in read]
    for file in again:
        if files[file] != read[file]:
            raise UsageError(
                f"two shares hold a file called {file}: ingest with --as NAME"
            )
    read.update(files)
    fresh = ~pl.col("source").is_in(again) | pl.col("source").is_null()
    # calls have their source in their templates, which are put to them where asked for
    new = {
        n: frame.filter(fresh) if again and "source" in frame.columns else frame
        for n, frame in part.items()
    }
    if again and "entries" in new:
        new["entries"] = new["entries"].join(
            new["templates"], on="template", how="semi", maintain_order="left"
        )
    known = {n: f for n, f in new.items() if n in tables.SCHEMAS}
    messages = {
        n.removeprefix(MESSAGE): f for n, f in new.items() if n.startswith(MESSAGE)
    }
    return Frames(
        {n: tables.conform(n, frame) for n, frame in known.items()},
        {i: captures.conform(i, frame) for i, frame in messages.items()},
    )


def _frame(file: str, sha256: str | None) -> pl.DataFrame:
    """Read a file of a share. Raises ValueError where it has changed since."""
    if sha256 is not None and "://" not in file and _hash(Path(file)) != sha256:
        raise ValueError(
            f"{file} is not as it was written; without the file of that name "
            f"in {SHARES} the others are read"
        )
    return pl.read_parquet(file, glob=False)


def _shares(root: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return each share's name and the hashes of its frames, sorted."""
    files: str | list[Path] = f"{root}/{SHARES}/*.parquet"
    if "://" not in root:  # a folder here may have a name that looks like a pattern
        files = sorted(Path(root, SHARES).glob("*.parquet"))
    listed = pl.scan_parquet(
        files,
        include_file_paths="path",
        glob="://" in root,
        schema=LISTED,
        missing_columns="insert",
        extra_columns="ignore",
    ).collect()
    stem = pl.col("path").str.replace_all(r"\\", "/", literal=True)
    stem = stem.str.extract(r"([0-9a-f]{16})\.parquet$")
    told = listed.select(stem.alias("share"), "frame", "sha256").sort(pl.all())
    shares: dict[str, dict[str, str | None]] = {}
    for share, frame, sha256 in told.drop_nulls(["share", "frame"]).rows():
        shares.setdefault(share, {})[frame] = sha256
    return [(share, frames) for share, frames in shares.items() if _plain(frames)]


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
        sha256 = _hash(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return sha256


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
