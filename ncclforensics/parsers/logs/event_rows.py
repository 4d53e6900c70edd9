"""Converts lines to `events`, to a frame per message, and to the frames they feed.

Three steps: keep the lines that hold a needle; split them (`framing`) and match them
(`grammar`); then fetch what a message needs besides its own line: the lines of a table,
traceback or report under it, and the rest of a message that a terminal wrapped. Only
recognised lines leave this module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.columns import same
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import CITE, SCHEMAS
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import captures, framing, grammar, sentences
from ncclforensics.parsers.logs.inner_rows import FOUND, Room, structured
from ncclforensics.parsers.logs.lines_below import under
from ncclforensics.parsers.logs.search_terms import WRAPPED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.parsers.logs.grammar import Message

# names of columns with ranks or rank counts
RANKS = re.compile(r"(?:^|_)n?ranks?$|^world_size$")
# names of columns with durations
SPANS = re.compile(r"_ms$")
FRAMING = ("part", "raw", "speaker", "launcher", "header", "is_record")


def recognise(
    lines: pl.DataFrame,
    own: int,
    messages: Sequence[Message],
    room: Room | None = None,
) -> Frames:
    """Recognise the messages of the first `own` rows of `lines`.

    `lines` has `line` Int64 and `raw` String; rows after `own` are read only as the
    continuation of a message. `source` is null in the returned frames. Inner structures
    draw from `room`; when it is exhausted, a note says so.
    """
    mine = pl.int_range(pl.len()) < own
    kept = grammar.has_needle("raw", messages, lines)
    if "told_rank" in lines.columns:  # the needle was in the record around the line
        kept |= pl.col("told_rank").is_not_null()
    return taken(framing.Lines(lines), mine & kept, messages, room or Room())


def taken(
    lines: framing.Lines,
    own: pl.Expr,
    messages: Sequence[Message],
    room: Room,
    quotes: bool = False,
) -> Frames:
    """Match the lines that fulfil `own` to messages; the others may be under them.

    What a sentence quotes is only told of, unless `quotes`: see `sentences`.
    `source` is null in the returned frames; their rows are ordered by `line`.
    """
    segments = lines.framed(own)
    if segments.is_empty():
        return Frames()
    found = grammar.match(segments, messages)
    by_id = {message.id: message for message in messages}
    found = _with_wrapped(segments, found, lines, by_id)
    frames: dict[str, pl.DataFrame] = {}
    fed: dict[str, list[pl.DataFrame]] = {"events": []}
    full: list[str] = []
    odd: set[str] = set()
    for message_id, taken_ in found.items():
        message = by_id[message_id]
        frame, retold = _apart(taken_, message, quotes)
        if retold.height:
            fed["events"].append(retold)
        if frame.is_empty():
            continue
        whole = frame = _believed(frame, message, odd)
        if message.inner:
            whole, is_cut = structured(frame, message, lines, room)
            whole = _believed(whole, message, odd)
            full += [message_id] if is_cut else []
        told = row = as_events(whole, message)
        quoted = told
        if message.inner:
            quoted = as_events(_quoted(whole, frame, message.inner), message)
            row = as_events(_at_own_line(whole.filter(FOUND)), message)
            told = told.drop(FOUND)
        fed["events"].append(quoted)
        rows = told.sort("line", maintain_order=True)
        name = message.stands_for or message_id
        if name in frames:
            rows = pl.concat([frames[name], rows], how="diagonal_relaxed")
        frames[name] = rows
        if message.feeds:
            constants = [pl.lit(v).alias(k) for k, v in message.constants.items()]
            fed.setdefault(message.feeds, []).append(row.with_columns(*constants))
    conforming = {name: _conforming(name, rows) for name, rows in fed.items() if rows}
    notes = []
    if any((rows["message"] == sentences.QUOTED).any() for rows in fed["events"]):
        notes.append(sentences.NOTE)
    if full:
        notes.append(
            f"more of {', '.join(full)} than is read: their details are incomplete"
        )
    if odd:
        notes.append(f"{', '.join(sorted(odd))}: damage, not read")
    if notes:
        conforming["notes"] = tables.noted(Note("parsers", text) for text in notes)
    return Frames(conforming, frames)


def _apart(
    frame: pl.DataFrame, message: Message, quotes: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of records, or all if `quotes`, and events of the others."""
    if message.stands_for:  # what a program prints under its header is not retold
        frame = frame.filter(pl.col("header").is_null())
    if message.role == "neutral" and not message.feeds:
        return frame, frame.clear()
    said = sentences.of(frame, message, quotes)
    if not said["quoted"].any():
        return frame, frame.clear()
    told = as_events(frame.filter(said["quoted"]), message).select(*SCHEMAS["events"])
    told = told.with_columns(pl.lit(sentences.QUOTED).alias("message"))
    return frame.filter(~said["denied" if quotes else "quoted"]), told


def _quoted(whole: pl.DataFrame, frame: pl.DataFrame, structure: str) -> pl.DataFrame:
    """Return the rows for `events`: `frame`, or the structure's where it is quoted."""
    parser = captures.module(structure)
    is_quoted = "said" in whole.columns and hasattr(parser, "IS_QUOTED")
    return _at_own_line(whole) if is_quoted else frame


def _at_own_line(rows: pl.DataFrame) -> pl.DataFrame:
    """Put rows of an inner structure on the line that they were read from."""
    if "said" not in rows.columns:
        return rows
    return rows.with_columns(
        pl.coalesce("said_line", "line").alias("line"),
        pl.coalesce("said", "text").alias("text"),
        pl.when(pl.col("said").is_null()).then("prefix").alias("prefix"),
    )


def _believed(frame: pl.DataFrame, message: Message, odd: set[str]) -> pl.DataFrame:
    """Replace implausible ranks, world sizes and durations by null.

    Adds the affected columns, in words, to `odd`.
    """
    most = {c: _most(c, message.columns.get(c)) for c in frame.columns}
    beyond = {c for c, end in most.items() if end and _highest(frame[c]) >= end}
    if not beyond:
        return frame
    odd |= {f"{c} beyond {most[c]:,}" for c in beyond}
    return frame.with_columns(
        pl.when(pl.col(c) < most[c]).then(c).alias(c) for c in beyond
    )


def _most(column: str, kind: str | None) -> int:
    """Return the value from which a column of ranks or durations is damage, else 0."""
    if kind == "rank" or RANKS.search(column):
        return limits.MAX_RANK
    return limits.MAX_MS if SPANS.search(column) else 0


def _highest(numbers: pl.Series) -> int:
    highest = numbers.max() if numbers.dtype == pl.Int64 else None
    return highest if isinstance(highest, int) else -1


def _with_wrapped(
    segments: pl.DataFrame,
    found: dict[str, pl.DataFrame],
    lines: framing.Lines,
    by_id: Mapping[str, Message],
) -> dict[str, pl.DataFrame]:
    """Match segments that no specific message took again, joined with lines below.

    A terminal or a page wraps a long message inside a word, or at a space that it
    drops; both are tried. A line recognised this way is removed from fallback messages.
    A match that begins in a line below does not count, nor does a fallback that matches
    those lines on their own.
    """
    specific = [m for m in by_id.values() if not m.fallback or m.role != "neutral"]
    place = ["line", "part"]
    telling = {message.id for message in specific}
    taken = [frame.select(place) for i, frame in found.items() if i in telling]
    open_ends = segments.filter(grammar.has_needle("raw", specific, segments))
    if taken:
        open_ends = open_ends.join(pl.concat(taken), on=place, how="anti")
    if not open_ends.height:
        return found
    below = under(open_ends, lines, WRAPPED).group_by(place).agg("text")
    joined = open_ends.join(below, on=place, suffix="_under").with_columns(
        pl.col("text").str.len_bytes().alias("room")
    )
    glued: dict[str, list[pl.DataFrame]] = {}
    for glue in (" ", ""):
        rest = pl.col("text_under").list.eval(pl.element().str.strip_chars_start(" "))
        text = pl.concat_str("text", rest.list.join(glue), separator=glue)
        whole = joined.with_columns(text.alias("text"), rest.list.join(glue))
        for message_id, frame in grammar.match(whole, specific).items():
            pattern = by_id[message_id].regex
            mine = frame.filter(pl.col("text").str.find(pattern) < pl.col("room"))
            if by_id[message_id].fallback:
                mine = mine.filter(~pl.col("text_under").str.contains(pattern))
            # all lines below are tried together; `text` is only the part that matches
            own = pl.col("text").str.extract(f"({pattern})").alias("text")
            if mine.height:
                whole_ = mine.drop("text_under", "room").with_columns(own)
                glued.setdefault(message_id, []).append(whole_)
    again = {
        i: pl.concat(parts).unique(place, keep="first", maintain_order=True)
        for i, parts in glued.items()
    }
    if not again:
        return found
    regained = pl.concat(frame.select(place) for frame in again.values())
    kept = {
        i: frame.join(regained, on=place, how="anti") if by_id[i].fallback else frame
        for i, frame in found.items()
    }
    return {
        i: pl.concat([f[i] for f in (kept, again) if i in f], how="diagonal")
        for i in kept | again
    }


def as_events(frame: pl.DataFrame, message: Message) -> pl.DataFrame:
    """Reduce a message's frame to the columns of `events` and its captures.

    NCCL prints the expected failure of a probe at INFO, with the same text as a WARN.
    Such a line is not a sign of failure, so its role becomes "neutral".
    """
    events = SCHEMAS["events"]
    captures = [c for c in frame.columns if c not in events and c not in FRAMING]
    role = same("role", message.role, frame.height)
    if frame["level"].null_count() < frame.height:
        probe = (frame["header"] == "nccl") & (frame["level"] == "INFO")
        neutral = same("role", "neutral", frame.height)
        role = neutral.zip_with(probe.fill_null(False), role)
    own = {
        "message": same("message", message.id, frame.height),
        "role": role,
        "source": same("source", None, frame.height),
    }
    ordered = (*(c for c in events if c not in CITE), *captures, *CITE)
    return pl.DataFrame([own[c] if c in own else frame[c] for c in ordered])


def _conforming(name: str, parts: list[pl.DataFrame]) -> pl.DataFrame:
    told = pl.concat(tables.picked(name, part) for part in parts)
    return told.sort("line", maintain_order=True)
