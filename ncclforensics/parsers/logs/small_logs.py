"""Scans many small logs as one: what a scan costs once, it costs once for all of them.

Their bytes are put behind each other and searched in one pass; the lines with a needle
are then told apart by the log that they stand in. What is kept of a log is what `scan`
keeps of it alone. That is known only of a plain log: it is no record or paste, all its
bytes are UTF-8, and so few of its lines have a needle that all of them are kept. One
that is not plain is left to `scan`.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import accumulate, chain, groupby, pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from ncclforensics.model.plans import collected
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import (
    broken_lines,
    pastes,
    record_files,
    scan,
    search_terms,
)
from ncclforensics.parsers.logs.kept_lines import Kept
from ncclforensics.parsers.logs.lines import UTF16, Block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.parsers.logs.search_terms import Search
    from ncclforensics.sources import Source

MOST_BYTES = limits.MAX_REDRAWN  # of a small log: no line of it is too long
TOGETHER_BYTES = 4 << 20  # scanned together
NEEDLES = {
    **dict.fromkeys(("needle", "reach", "most"), pl.Int64()),
    **dict.fromkeys(("told", "loud", "routine", "mark"), pl.Boolean()),
}


class _Plain(NamedTuple):
    """A log, and as lines that each end with LF, `height` of them; its file's hash."""

    raw: bytes
    lines: bytes
    height: int
    whole: bool
    sha256: str | None


def runs(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    """Split sources into runs that are scanned together; a large log is alone."""
    ends = accumulate(source.bytes for source in sources)
    placed = zip(sources, map(_place, sources, ends), strict=True)
    for place, told in groupby(placed, lambda one: one[1]):
        run = [source for source, _ in told]
        yield from [run] if place is not None else [[source] for source in run]


def _place(source: Source, end: int) -> int | None:
    """Return a number that neighbours share if they are scanned together."""
    return end // TOGETHER_BYTES if is_small(source) else None


def is_small(source: Source) -> bool:
    """Whether a log is scanned with others."""
    return source.compression is None and source.bytes <= MOST_BYTES


def scanned(sources: Sequence[Source], search: Search) -> Sequence[Kept | None]:
    """Return what is kept of each log, None of one that only `scan` can read."""
    read = [_plain(source) for source in sources]
    kept = [
        log and Kept(count=log.height, whole=log.whole, sha256=log.sha256)
        for log in read
    ]
    data = b"".join(log.lines for log in read if log)
    if not data:
        return kept
    counts = [log.height if log else 0 for log in read]
    block = Block(data, 1, sum(counts))
    places = [*chain.from_iterable(map(repeat, range(len(read)), counts))]
    log = pl.Series("log", places, dtype=pl.Int64)
    ends = pl.Series("end", [*accumulate(counts)], dtype=pl.Int64)
    begins = (ends - pl.Series(counts)).alias("begin")
    lines = block.lines.with_columns(log, begins.gather(log), ends.gather(log))
    hits = _hits(block, lines, search)
    if hits.height:
        _keep(lines, hits, kept)
    for place in _beyond(hits):
        kept[place] = None
    likely = ((place, read[place]) for place in pastes.likely(lines))
    pasted = {place for place, log in likely if log and scan.paste(log.raw)}
    for place in pasted | _split(lines, hits):
        kept[place] = Kept(in_pieces=True)
    return kept


def _plain(source: Source) -> _Plain | None:
    """Read a log; None if its bytes are not those of a plain one."""
    try:
        with source.open(hashed=True) as stream:
            raw = stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES or raw.startswith(UTF16) or record_files.form(raw):
            return None
        raw.decode()
    except (OSError, ValueError):
        return None
    lines = raw.replace(b"\r\n", b"\n") if b"\r" in raw else raw
    if b"\r\n" in lines or lines.endswith(b"\r"):
        return None  # such a line has two ends, or none
    whole = lines.endswith(b"\n") or not lines
    lines = lines if whole else lines + b"\n"
    return _Plain(raw, lines, lines.count(b"\n"), whole, stream.sha256)


def _hits(block: Block, lines: pl.DataFrame, search: Search) -> pl.DataFrame:
    """Return where needles are, by row: a row for each place, as told by `search`.

    Columns: `row` in `lines`, `log`, `begin` and `end` of its line, Int64, and NEEDLES:
    `most` is how many places are all kept, `told` whether lines with it are recognised.
    """
    found = search.finder.places(block.data, search.finder.present(block.data))
    needles = [
        (
            *(n, int(search.reach[n]) if n < search.marks else 0, _most(n, search)),
            *(n < search.marks, n < search.marks and bool(search.loud[n])),
            *(n in search.routine, search.marks <= n < len(search.most)),
        )
        for n in found
    ]
    which = [*chain.from_iterable(map(repeat, found, map(len, found.values())))]
    places = np.concatenate([np.zeros(0, np.int64), *found.values()])
    row = pl.Series("row", block.rows_of(places))
    hits = pl.DataFrame({"needle": which, "row": row}, schema_overrides=NEEDLES)
    hits = hits.with_columns(lines.select("log", "begin", "end")[row])
    told = pl.DataFrame(needles, schema=NEEDLES, orient="row")
    return hits.join(told, on="needle").sort("row", "needle")


def _most(needle: int, search: Search) -> int:
    """Return of how many places of a needle in one log all are kept."""
    if needle >= len(search.most):
        return sys.maxsize  # of routine messages alone
    return min(
        search.most[needle],
        scan.FEW_TAGS if needle in search.tags else sys.maxsize,
        search_terms.FIRST_CALLS + search_terms.LAST_CALLS
        if needle in search.counted
        else sys.maxsize,
    )


def _beyond(hits: pl.DataFrame) -> set[int]:
    """Return the logs with more places of a needle than are kept."""
    many = hits.group_by("log", "needle").agg(beyond=pl.len() > pl.col("most").first())
    return {*many.filter("beyond")["log"]}


def _split(lines: pl.DataFrame, hits: pl.DataFrame) -> set[int]:
    """Return the logs with split lines."""
    marked = hits.filter("mark")
    split = broken_lines.pieces(lines["raw"].gather(marked["row"]))
    return {*marked["log"].filter(split)}


def _keep(lines: pl.DataFrame, hits: pl.DataFrame, kept: Sequence[Kept | None]) -> None:
    """Put the lines of each log into what is kept of it, numbered within the log."""
    place = ("row", "log", "begin", "end")
    wanted = pl.concat(
        [
            hits.filter("told").select(*place, "reach"),
            _routine(hits).select(*place, reach=pl.lit(search_terms.WRAPPED, pl.Int64)),
        ]
    )
    line = (pl.col("row") - pl.col("begin") + 1).alias("line")
    below = pl.min_horizontal(pl.col("row") + pl.col("reach"), "end")
    rows = collected(
        wanted.lazy().select(pl.int_ranges("row", below)).explode("row").unique()
    )["row"].sort()
    raw = pl.concat_str("raw", pl.lit("")).alias("raw")  # a copy of few bytes of many
    picked = lines.drop("line").with_row_index("row")[rows].select("log", line, raw)
    own = wanted.lazy().select("log", line).unique().sort("log", "line")
    for log, some in _apart(picked):
        if keeps := kept[log]:
            keeps.lines = [some]
    for log, some in _apart(collected(own)):
        if keeps := kept[log]:
            keeps.own = [some["line"]]


def _apart(rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield each log with its rows, which stand together, without `log`."""
    logs, rest = rows["log"].to_numpy(), rows.drop("log")
    begins = np.flatnonzero(np.diff(logs, prepend=-1)).tolist()
    for begin, end in pairwise([*begins, rows.height]):
        yield int(logs[begin]), rest.slice(begin, end - begin)


def _routine(hits: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of routine messages that are kept, one for each line.

    As in `scan`: those in the first lines of a log, the last one if it is near its end,
    and the ones next to each loud line.
    """
    all_ = hits.filter("routine")
    if all_.is_empty():
        return all_
    all_ = all_.unique("row", keep="first").sort("row")
    row, far = pl.col("row"), scan.NEAR_LINES
    first = row - pl.col("begin") < scan.FIRST_LINES
    if all_.select(first.all()).item():
        return all_
    loud = hits.filter("loud").select("row", "log").unique().sort("row")
    at = all_.select("log", "row", row.alias("next"))
    next_to = partial(loud.join_asof, at, on="row", by="log", check_sortedness=False)
    above = next_to(tolerance=far, allow_exact_matches=False)
    below = next_to(strategy="forward")
    near = pl.concat([above["next"], below["next"]]).drop_nulls().implode()
    is_last = pl.col("log").ne_missing(pl.col("log").shift(-1))
    last = is_last & (pl.col("end") - row <= far)
    return all_.filter(first | last | row.is_in(near))
