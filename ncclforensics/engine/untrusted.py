"""Reads parquet and frames from untrusted files: no error in them ends this process.

polars aborts on some damaged files, and a small file may expand to fill all memory. So
a separate process reads them, with limits on memory and time. What it returns conforms
to the schemas and has plausible numbers only.
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
# frames that others are joined to, by this column: a duplicate would duplicate rows
KEYS = {"sources": "source", "templates": "template"}
# names of columns with ranks or rank counts, which determine the size of other frames
COUNTS = re.compile(r"(?:^|_)n?ranks?$|^world_size$|^members$")


def apart(
    read: Callable[[Item], Made], items: Sequence[Item]
) -> Iterator[Made | Exception]:
    """Yield the result of `read` for each item, or its exception, in order.

    Each call runs in a worker process. An item yields LostError if it ended its
    process or exceeded the time limit (that of a pickle of MAX_SHARE_BYTES). Memory is
    capped at MAX_SHARE_BYTES.
    """
    return pool.apart(partial(_bounded, read, MAX_SHARE_BYTES), items)


def _bounded(read: Callable[[Item], Made], most: int, item: Item) -> Made:
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDERR)  # drops Rust's panic messages
    with ceiling(most), deadline(most):
        return read(item)


def why(error: Exception) -> str:
    """Describe an exception of `apart` or of a reader in words."""
    if isinstance(error, pool.LostError):
        most = f"more than {MAX_SHARE_BYTES >> 30} GiB in memory"
        return f"damaged, or {most}: the process that read it {error}"
    return str(error) or type(error).__name__


@contextmanager
def unpanicked() -> Iterator[None]:
    """Convert a polars panic, which is not an Exception subclass, to ValueError."""
    try:
        yield
    except PanicException as error:
        raise ValueError(str(error)) from None


def parquet(file: str | Path) -> pl.DataFrame:
    """Read a parquet file; its name is not a glob. Raises ValueError or PolarsError."""
    with unpanicked():
        return pl.read_parquet(file, glob=False)


def is_known(name: str) -> bool:
    """Whether a frame of this name has a schema, or holds a message's captures."""
    return name in tables.SCHEMAS or name.startswith(MESSAGE)


def conformed(part: Mapping[str, pl.DataFrame]) -> Frames:
    """Return the frames with known names, conformed to their schemas.

    Raises ValueError or PolarsError on content that our parsers never produce.
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
    """Raise ValueError on a rank, count or time that every parser would reject."""
    sized = {"size"} if "members" in frame.columns else set()
    for column, dtype in frame.schema.items():
        is_count = COUNTS.search(column) or column in sized
        if is_count and dtype in (pl.Int64(), pl.List(pl.Int64())):
            numbers = frame[column]
            flat = numbers.explode() if isinstance(dtype, pl.List) else numbers
            if (flat > MAX_RANK).any():
                raise ValueError(f"it holds an impossible {column}")
        if dtype == tables.TIME:
            told = frame[column].to_physical()
            if not told.drop_nulls().is_between(MIN_TIME, MAX_TIME).all():
                raise ValueError(f"it holds an impossible {column}")
