"""A second, looser look at small logs, where the first one found no cause.

People who retell a log break its lines anywhere and keep only the words that seem to
matter; others put prefixes in front that nothing knows. So up to JOINED lines are read
as one, a message may begin anywhere, and the `loose` messages count as well. Only lines
that tell of trouble are taken, and each line once. Where nothing at all is known, lines
that show a job at work are taken too: then it is a log, in which nothing failed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import FAILING
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import (
    captures,
    event_rows,
    framing,
    grammar,
    log_reader,
    log_shape,
    scan,
    sentences,
)
from ncclforensics.parsers.logs.inner_rows import Room
from ncclforensics.parsers.logs.kept_lines import Kept
from ncclforensics.parsers.logs.lines import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.parsers.logs.grammar import Message
    from ncclforensics.sources import Source

MOST_FILES = 16
MOST_BYTES = 64 << 10  # of all files: what people type or paste by hand is small
JOINED = 3
FEW = 16  # lines that are enough to show that a job is at work
RETOLD = "condensed."  # the messages whose lines prove little
ELIDED = "condensed.elided"  # where a person cut lines out
TASKS = "slurm.task_ended"  # of several at once
TEXT = (
    "its lines as they are show no cause: broken ones were joined, and lines retold "
    "by hand were read"
)


def read(sources: Sequence[Source], found: Frames) -> Frames | None:
    """Return `found` and what a second look adds, None if that is nothing.

    Reads the logs among `sources`, if they are few and small. A file in which it finds
    something is a log.
    """
    logs = [source for source in sources if source.kind in ("log", "unknown")]
    size = sum(source.bytes for source in logs)
    if len(logs) > MOST_FILES or size > MOST_BYTES:
        return None
    lines = _lines(logs)
    if lines.is_empty():
        return None
    known = _known(found)
    taken = lines.join(known, on=["source", "at"], how="semi")["line"]
    parts = []
    rows = found["events"].select("source", "message", at="line")
    rows = rows.join(lines, on=["source", "at"]).select("line", "message")
    joined = [framing.Lines(_joined(lines, 1 + below)) for below in range(JOINED)]
    for many, messages in _passes():
        # nothing is taken of a line without a needle of what tells of trouble
        text = joined[many - 1]
        needles = grammar.has_needle("raw", _telling(messages), text.all)
        wanted = needles & _is_free(many, taken)
        told = event_rows.taken(text, wanted, messages, Room(), True)
        if not told.has("events"):
            continue
        telling = _is_trouble() | (pl.col("message") == ELIDED)
        new = _apart(told["events"].filter(telling)["line"], many, taken)
        taken = pl.concat([taken, *(new + below for below in range(many))])
        if new.len():
            known_rows = pl.concat(
                rows.with_columns(pl.col("line") - below) for below in range(many)
            )
            parts.append(_at(lines, new, told, known_rows))
    told_of = join(parts)["events"].filter(_is_trouble())
    if told_of.is_empty() and found["events"].is_empty():
        parts.append(_at_work(lines, joined[0]))
    more = log_reader.placed(join(parts), logs)
    names = more["events"]["source"].unique(maintain_order=True)
    if not names.len():
        return None
    trouble = more["events"].filter(_is_trouble())["source"]
    notes = tables.noted(
        Note("parsers", TEXT, name) for name in names if name in trouble
    )
    return join([_as_logs(found, more["events"]), more, Frames({"notes": notes})])


def _known(found: Frames) -> pl.DataFrame:
    """Return `source` and `at` of the lines of trouble, with all of a traceback's."""
    lines = found["events"].filter(_is_trouble()).select("source", at="line")
    heads = found.message("python.traceback")
    if "span" not in heads.columns:
        return lines.unique()
    inside = pl.int_ranges("line", pl.col("line") + pl.col("span").fill_null(1))
    spans = heads.select("source", at=inside).explode("at")
    return pl.concat([lines, spans]).unique()


def _at_work(lines: pl.DataFrame, framed: framing.Lines) -> Frames:
    """Return the first lines that show a job at work."""
    messages = [m for m in grammar.load() if m.loose and m.role == "neutral"]
    needles = grammar.has_needle("raw", messages)
    told = event_rows.taken(framed, needles, messages, Room())
    first = told["events"]["line"].unique().sort().head(FEW)
    return _at(lines, first, told, tables.empty("events").select("line", "message"))


def _as_logs(found: Frames, events: pl.DataFrame) -> Frames:
    """Return `found` with the files of `events` as logs of so many more rows."""
    more = events.group_by("source").agg(pl.len().cast(pl.Int64).alias("more"))
    files = found["sources"].join(more, on="source", how="left", maintain_order="left")
    rows = pl.coalesce(pl.col("rows").fill_null(0) + pl.col("more"), "rows")
    kind = pl.when(pl.col("more").is_not_null()).then(pl.lit("log")).otherwise("kind")
    files = files.with_columns(kind.alias("kind"), rows.alias("rows")).drop("more")
    return found.adding(sources=files)


def _lines(logs: Sequence[Source]) -> pl.DataFrame:
    """Return the lines of all logs that are not blank.

    `line` is FILE * index of the log + place, and `at` its number in the file `source`.
    A title may end with the line, marked as code.
    """
    parts = [pl.DataFrame(schema=SCHEMA)]
    for index, log in enumerate(logs):
        # the first look has told what is wrong with a file that cannot be read
        with suppress(OSError, EOFError, ValueError):
            place = pl.int_range(pl.len(), dtype=pl.Int64) + index * FILE
            parts.append(
                _of(log)
                .filter(pl.col("raw").str.contains(r"\S"))
                .with_columns(pl.col("raw").str.replace(INLINE, "$1$3"))
                .select(place.alias("line"), "raw", at="line", source=pl.lit(log.name))
            )
    return pl.concat(parts)


# a line in marks of code, in bold or quoted, at the end of what a person writes
INLINE = r"^([^`*\"\n]*)(`|\*\*|\")([^`*\"\n]+)(?:`|\*\*|\")\s*$"
SCHEMA = {
    "line": pl.Int64(),
    "raw": pl.String(),
    "at": pl.Int64(),
    "source": pl.String(),
}


def _of(log: Source) -> pl.DataFrame:
    plan = scan.paste(log_shape.head(log))
    with log.open() as stream:
        read_ = log_reader.windows(stream, Kept(), plan)
        held = [lines.head(own).select("line", "raw") for lines, own in read_]
    return pl.concat(held) if held else pl.DataFrame(schema=SCHEMA)


def _passes() -> Iterator[tuple[int, tuple[Message, ...]]]:
    """Yield how many lines are joined and what is looked for, the surest first."""
    for many in range(1, JOINED + 1):
        yield many, grammar.strict()
    for messages in (grammar.anywhere(), grammar.load()):
        for many in range(1, JOINED + 1):
            yield many, messages


@cache
def _telling(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages whose lines are taken: they tell of trouble, or of a cut."""
    return tuple(
        message
        for message in messages
        if message.id == ELIDED
        or (
            (message.role in FAILING or message.id in _ends())
            and not message.id.startswith(grammar.NET)
            and not message.id.endswith(grammar.CUT_OFF)
        )
    )


def _is_trouble() -> pl.Expr:
    net = pl.col("message").str.starts_with(grammar.NET)
    cut = pl.col("message").str.ends_with(grammar.CUT_OFF)
    told = ~(net | cut | (pl.col("message") == sentences.QUOTED))
    failing = pl.col("role").is_in(FAILING).fill_null(False)
    return (failing | pl.col("message").is_in(_ends())) & told


@cache
def _ends() -> tuple[str, ...]:
    """Return the messages in which an agent tells of the end of a process."""
    agents = (m for m in grammar.load() if m.role == "agent")
    return (TASKS, *sorted({m.id for m in agents if m.feeds == "exits"}))


def _joined(lines: pl.DataFrame, many: int) -> pl.DataFrame:
    """Return each line with those that follow it in its file, `many` in all."""
    raw, file = pl.col("raw"), pl.col("line") // FILE
    below = [
        raw.shift(-n).over(file).str.strip_chars_start().fill_null("")
        for n in range(1, many)
    ]
    text = pl.concat_str(raw.str.strip_chars_end(), *below, separator=" ")
    return lines.select("line", text.str.head(limits.MAX_LINE).alias("raw"))


def _apart(first: pl.Series, many: int, taken: pl.Series) -> pl.Series:
    """Return the `first` lines of what takes `many` lines, none of which is taken.

    Of two that overlap, the upper one.
    """
    kept: list[int] = []
    free = first.to_frame("line").filter(_is_free(many, taken))
    for line in free["line"].unique().sort():
        if not kept or line >= kept[-1] + many:
            kept.append(line)
    return pl.Series("line", kept, pl.Int64)


def _is_free(many: int, taken: pl.Series) -> pl.Expr:
    """Return whether none of the `many` lines from `line` on is taken."""
    if taken.is_empty():
        return pl.lit(True)
    return pl.all_horizontal(
        ~(pl.col("line") + below).is_in(taken.implode()) for below in range(many)
    )


def _at(
    lines: pl.DataFrame, new: pl.Series, told: Frames, known: pl.DataFrame
) -> Frames:
    """Return the rows of `told` on the lines `new`, with their numbers in the files.

    Without those whose `line message` are `known` already.
    """
    number = pl.col("line") // FILE * FILE + pl.col("at")
    places = lines.filter(pl.col("line").is_in(new.implode())).select("line", at=number)

    def placed(frame: pl.DataFrame) -> pl.DataFrame:
        mine = frame.join(places, on="line", how="semi", maintain_order="left")
        if "message" in mine.columns:
            mine = mine.join(known, on=["line", "message"], how="anti")
        for column in (c for c in captures.NUMBERS if c in frame.columns):
            to = places.rename({"line": column})
            found = mine.join(to, on=column, how="left", maintain_order="left")
            mine = found.with_columns(pl.col("at").alias(column)).drop("at")
        return mine

    return told.each(placed)
