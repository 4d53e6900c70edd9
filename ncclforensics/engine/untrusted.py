"""Reads parquet and frames from untrusted files: no error in them ends this process.

polars aborts on some files that are damaged, and a small one may unpack to all memory.
So a process of its own reads them, with a limit to its memory and its time; what it
hands on conforms to the schemas, and no number in it asks for more than a job can have.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import polars as pl
from polars.exceptions import PanicException

from ncclforensics.engine import pool
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers.flight_recorder.memory import ceiling
from ncclforensics.parsers.flight_recorder.pickle_probe import deadline
from ncclforensics.parsers.limits import MAX_RANK, MAX_SHARE_BYTES, MAX_TIME, MIN_TIME
from ncclforensics.parsers.logs import captures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

Item = TypeVar("Item")
Made = TypeVar("Made")

STDERR = 2
MESSAGE = "message."
# what other frames are joined to by a column: twice the same would be twice their rows
KEYS = {"sources": "source", "templates": "template"}
# columns of ranks, or of how many there are, which size frames elsewhere
COUNTS = re.compile(r"(?:^|_)n?ranks?$|^world_size$|^members$")


def apart(
    read: Callable[[Item], Made], items: Sequence[Item]
) -> Iterator[Made | Exception]:
    """Yield what `read` makes of each item in a process, or what it raised, in order.

    LostError is for one that ended its process, or took more than MAX_SHARE_BYTES or
    the time that so much of a pickle may take.
    """
    return pool.apart(partial(_bounded, read, MAX_SHARE_BYTES), items)


def _bounded(read: Callable[[Item], Made], most: int, item: Item) -> Made:
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDERR)  # what Rust says as it ends
    with ceiling(most), deadline(most):
        return read(item)


def why(error: Exception) -> str:
    """Return in words what `apart` or a reader raised."""
    if isinstance(error, pool.LostError):
        most = f"more than {MAX_SHARE_BYTES >> 30} GiB in memory"
        return f"damaged, or {most}: the process that read it {error}"
    return str(error) or type(error).__name__


@contextmanager
def unpanicked() -> Iterator[None]:
    """Raise ValueError where polars panics, which is no Exception."""
    try:
        yield
    except PanicException as error:
        raise ValueError(str(error)) from None


def parquet(file: str | Path) -> pl.DataFrame:
    """Read a file, whatever its name looks like. Raises ValueError or PolarsError."""
    with unpanicked():
        return pl.read_parquet(file, glob=False)


def is_known(name: str) -> bool:
    """Whether a frame of this name has a schema, or holds a message's captures."""
    return name in tables.SCHEMAS or name.startswith(MESSAGE)


def conformed(part: Mapping[str, pl.DataFrame]) -> Frames:
    """Return frames of known names as an analysis takes them.

    Raises ValueError or PolarsError on what no parser of ours would have made.
    """
    named = {n: tables.conform(n, f) for n, f in part.items() if n in tables.SCHEMAS}
    if "sources" in named and named["sources"]["source"].has_nulls():
        raise ValueError("it holds a file without a name")
    for name, key in KEYS.items():
        if name in named and named[name][key].is_duplicated().any():
            raise ValueError(f"it holds a {key} twice")
    messages = {
        i: captures.conform(i, frame)
        for n, frame in part.items()
        if n.startswith(MESSAGE) and (i := n.removeprefix(MESSAGE))
    }
    for frame in (*named.values(), *messages.values()):
        check(frame)
    return Frames(named, messages)


def check(frame: pl.DataFrame) -> None:
    """Raise ValueError on a rank, a count or a time that no parser lets through."""
    sized = {"size"} if "members" in frame.columns else set()
    for column, dtype in frame.schema.items():
        is_count = COUNTS.search(column) or column in sized
        if is_count and dtype in (pl.Int64(), pl.List(pl.Int64())):
            numbers = frame[column]
            flat = numbers.explode() if isinstance(dtype, pl.List) else numbers
            if (flat > MAX_RANK).any():
                raise ValueError(f"it holds a {column} that no job has")
        if dtype == tables.TIME:
            told = frame[column].to_physical()
            if not told.drop_nulls().is_between(MIN_TIME, MAX_TIME).all():
                raise ValueError(f"it holds a {column} that no clock shows")
