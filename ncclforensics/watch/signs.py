"""Finds in new log lines what shows that a job moves, or that it failed.

Lines that differ in nothing but their numbers have one pattern, hashed. A job moves
where a number of such lines rises: a step, a batch, a progress bar, NCCL's opCount. No
list of step messages would hold those that programs make up. Times within a line are
left out: a clock rises too. Everything here is an expression over all new lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.model.tables import TROUBLED
from ncclforensics.parsers.logs import framing, grammar
from ncclforensics.parsers.logs.lines import FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.parsers.logs.grammar import Message
    from ncclforensics.watch.tails import New

MOST_CHARACTERS = 400  # of a line; a step's number stands near its beginning
MOST_NUMBERS = 8  # of a line
# looked at together; of more lines, the last of each file and all that fail
MOST_LINES, MOST_OLD_LINES = 20_000, 200_000
# dates, times of day, durations as a progress bar has them, and addresses
TIMES = (
    r"\d{4}[-/]\d\d[-/]\d\d[T ]?|\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?Z?"
    r"|0x[0-9a-fA-F]+|\?|(?:\d{1,3}\.){3}\d{1,3}"
)
NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
OP_COUNT = r"opCount ([0-9a-f]+)"
# what a progress bar draws with, and blanks that align columns
DRAWN = r"[\s#█▏▎▍▌▋▊▉=>━╸╺-]+"
PATTERN = ["file", "speaker", "pattern"]
# what stands before the number of a step
STEP = re.compile(
    r"(?:\b|_)(?:step|iter|iteration|batch|update|samples|opCount)s?\W{0,4}$",
    re.IGNORECASE,
)
ENDED = (
    r"(?i)\b(?:training|job|run|fit)\b[^.]{0,30}\b(?:complete|completed|finished|done"
    r"|ended|over)\b(?:\W|$)"
)
# read as a failure in a healthy job, or by agents that only tell of others
HARMLESS = (*job.SAYS_NOTHING, *job.TRIED, *job.AGENTS_AT_WORK)


@dataclass(frozen=True, slots=True)
class Rise:
    """How one number of a pattern went within new lines of one speaker."""

    index: int
    first: float
    last: float
    rises: int
    falls: int


@dataclass(frozen=True, slots=True)
class Seen:
    """New lines of one pattern: in `file`, by one `speaker` of it, of `rank` if known.

    `text` is the last of them, `shape` the same with 0 for its numbers. `numbers` are
    their values, the one of `opCount` before all others. `at` orders the last lines.
    """

    file: int
    speaker: str
    pattern: int
    rank: int | None
    text: str
    shape: str
    at: int
    numbers: Sequence[Rise]


@dataclass(frozen=True, slots=True)
class Failing:
    """A line that a grammar knows as a failure: its message, and where it stands.

    `file` is the number of the file called `name`, `at` orders its lines as in `Seen`.
    """

    message: str
    name: str
    text: str
    file: int
    at: int


@dataclass(frozen=True, slots=True)
class Signs:
    """What new lines show. `lines` are all of them, framed, for `rose_at`."""

    seen: Sequence[Seen]
    failing: Sequence[Failing]
    ended: str | None
    lines: pl.DataFrame


@cache
def failures() -> tuple[Message, ...]:
    """Return the messages of failures that a job itself prints."""
    return tuple(
        message
        for message in grammar.strict()
        if message.role in TROUBLED
        and not re.match(job.MACHINE, message.id)
        and message.id not in HARMLESS
    )


def read(news: Sequence[New]) -> Signs:
    """Return what new lines of logs show."""
    texts = [new.data.decode("utf-8", "replace") for new in news]
    raw = pl.DataFrame({"file": range(len(news)), "raw": texts})
    raw = raw.with_columns(pl.col("raw").str.strip_chars_end("\r\n").str.split("\n"))
    raw = raw.explode("raw").filter(pl.col("raw").str.contains(r"\S"))
    if raw.height > (most := MOST_OLD_LINES if news[0].backlog else MOST_LINES):
        last = pl.int_range(pl.len(), 0, -1).over("file") <= most // len(news)
        raw = raw.filter(last | grammar.has_needle("raw", failures()))
    line = (pl.col("file") * FILE + pl.int_range(pl.len()) + 1).alias("line")
    framed = framing.frame(raw.select(line, "raw"))
    framed = framed.with_columns((pl.col("line") // FILE).alias("file"))
    lines = _measured(framed)
    numbers = {new.tail.number: index for index, new in enumerate(news)}
    of_file = {index: number for number, index in numbers.items()}
    said = lines.filter(pl.col("text").str.contains(ENDED))["text"]
    return Signs(
        _seen(lines, of_file),
        _failing(framed, news),
        said[-1].strip() if said.len() else None,
        lines,
    )


def rose_at(signs: Signs, patterns: set[int]) -> list[float]:
    """Return when the first number of `patterns` rose, by the stamps of the lines.

    Seconds since the epoch, sorted; empty if the lines have no stamps.
    """
    of = signs.lines.filter(
        pl.col("pattern").is_in(pl.Series(list(patterns), dtype=pl.UInt64).implode())
    )
    times = of["t"].drop_nulls().unique().sort().dt.timestamp("us")
    return [time / 1e6 for time in times]


def _measured(framed: pl.DataFrame) -> pl.DataFrame:
    """Add the `pattern` of each line, its `shape`, and its first `numbers`."""
    text = pl.col("text").str.slice(0, MOST_CHARACTERS)
    op_count = text.str.extract(OP_COUNT).str.to_integer(base=16, strict=False)
    bare = text.str.replace_all(TIMES, "").str.replace_all(OP_COUNT, "opCount 0")
    bare = bare.str.replace_all(DRAWN, " ")
    numbers = bare.str.extract_all(NUMBER).list.head(MOST_NUMBERS)
    shape = bare.str.replace_all(NUMBER, "0")
    return framed.select(
        *("line", "file", "speaker", "rank", "text", "t"),
        shape.alias("shape"),
        shape.hash().alias("pattern"),
        pl.concat_list(
            op_count.cast(pl.Float64).fill_null(0.0),
            numbers.cast(pl.List(pl.Float64)),
        ).alias("numbers"),
    )


def _seen(lines: pl.DataFrame, of_file: dict[int, int]) -> list[Seen]:
    if lines.is_empty():
        return []
    each = lines.group_by(PATTERN, maintain_order=True).agg(
        pl.col("rank").last(), pl.col("text", "shape", "line").last()
    )
    index = pl.int_ranges(pl.col("numbers").list.len())
    long = lines.select(*PATTERN, "numbers", index.alias("index"))
    long = long.explode("numbers", "index")
    step = pl.col("numbers").diff().over([*PATTERN, "index"])
    rises = (
        long.with_columns(step.alias("by"))
        .group_by([*PATTERN, "index"])
        .agg(
            pl.col("numbers").first().alias("first"),
            pl.col("numbers").last().alias("last"),
            (pl.col("by") > 0).sum().alias("rises"),
            (pl.col("by") < 0).sum().alias("falls"),
        )
    )
    found: dict[tuple[object, ...], list[Rise]] = {}
    for file, speaker, pattern, *rest in rises.sort("index").iter_rows():
        found.setdefault((file, speaker, pattern), []).append(Rise(*rest))
    return [
        Seen(
            *(of_file[file], speaker, pattern, rank, text, shape, at),
            found[file, speaker, pattern],
        )
        for file, speaker, pattern, rank, text, shape, at in each.iter_rows()
    ]


def _failing(framed: pl.DataFrame, news: Sequence[New]) -> list[Failing]:
    messages = failures()
    held = framed.filter(grammar.has_needle("raw", messages))
    if held.is_empty():
        return []
    return [
        Failing(message, news[file].tail.source.name, text, news[file].tail.number, at)
        for message, rows in grammar.match(held, messages).items()
        for file, text, at in rows.select("file", "raw", "line")
        .unique("file", keep="last", maintain_order=True)
        .iter_rows()
    ]
