"""Converts lines to `events`, to a frame per message, and to the frames they feed.

Three steps: keep the lines that hold a needle; split them (`framing`) and match them
(`grammar`); then fetch what a message needs besides its own line: the lines of a table,
traceback or report under it, and the rest of a message that a terminal wrapped. Only
recognised lines leave this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import CITE, SCHEMAS
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import captures, framing, grammar
from ncclforensics.parsers.logs.message_parsers.limits import is_capped
from ncclforensics.parsers.logs.scan import WRAPPED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.parsers.logs.grammar import Message

# names of columns with ranks or rank counts
RANKS = re.compile(r"(?:^|_)n?ranks?$|^world_size$")
# names of columns with durations
SPANS = re.compile(r"_ms$")
FRAMING = ("part", "raw", "speaker", "launcher", "header", "is_record")
FOUND = "_found"  # whether a row of a message came out of its inner structure


@dataclass(slots=True)
class Room:
    """The remaining budget for the inner structures of one log.

    `rows` limits the rows that they yield, `characters` what pyparsing reads; the
    structures that do not use pyparsing are fast.
    """

    rows: int = field(default_factory=lambda: limits.MAX_STRUCTURE_ROWS)
    characters: int = field(default_factory=lambda: limits.MAX_PARSED_CHARACTERS)


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
    kept = grammar.has_needle("raw", messages)
    if "told_rank" in lines.columns:  # the needle was in the record around the line
        kept |= pl.col("told_rank").is_not_null()
    return taken(framing.Lines(lines), mine & kept, messages, room or Room())


def taken(
    lines: framing.Lines,
    own: pl.Expr,
    messages: Sequence[Message],
    room: Room,
) -> Frames:
    """Match the lines that fulfil `own` to messages; the others may be under them.

    `source` is null in the returned frames; their rows are ordered by `line`.
    """
    segments = lines.framed(own)
    found = grammar.match(segments, messages)
    by_id = {message.id: message for message in messages}
    found = _with_wrapped(segments, found, lines, by_id)
    frames: dict[str, pl.DataFrame] = {}
    fed: dict[str, list[pl.DataFrame]] = {"events": []}
    full: list[str] = []
    odd: set[str] = set()
    for message_id, taken_ in found.items():
        message = by_id[message_id]
        whole = frame = _believed(taken_, odd)
        if message.inner:
            whole, is_cut = _structured(frame, message, lines, room)
            whole = _believed(whole, odd)
            full += [message_id] if is_cut else []
        told = row = _event(whole, message)
        quoted = told
        if message.inner:
            quoted = _event(_quoted(whole, frame, message.inner), message)
            row = _event(_at_own_line(whole.filter(FOUND)), message)
            told = told.drop(FOUND)
        fed["events"].append(quoted)
        frames[message_id] = told.sort("line", maintain_order=True)
        if message.feeds:
            constants = [pl.lit(v).alias(k) for k, v in message.constants.items()]
            fed.setdefault(message.feeds, []).append(row.with_columns(*constants))
    conforming = {name: _conforming(name, rows) for name, rows in fed.items() if rows}
    notes = []
    if full:
        notes.append(
            f"more of {', '.join(full)} than is read: their details are incomplete"
        )
    if odd:
        beyond = ", ".join(f"{c} beyond {_most(c):,}" for c in sorted(odd))
        notes.append(f"{beyond}: damage, not read")
    if notes:
        conforming["notes"] = tables.noted(Note("parsers", text) for text in notes)
    return Frames(conforming, frames)


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
    )


def _believed(frame: pl.DataFrame, odd: set[str]) -> pl.DataFrame:
    """Replace implausible ranks, world sizes and durations by null.

    Adds the names of the affected columns to `odd`.
    """
    bounded = [c for c in frame.columns if RANKS.search(c) or SPANS.search(c)]
    beyond = {c for c in bounded if _highest(frame[c]) >= _most(c)}
    if not beyond:
        return frame
    odd |= beyond
    return frame.with_columns(
        pl.when(pl.col(c) < _most(c)).then(c).alias(c) for c in beyond
    )


def _most(column: str) -> int:
    """Return the value from which a column of ranks or durations is damage."""
    return limits.MAX_RANK if RANKS.search(column) else limits.MAX_MS


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
    A fallback that matches the lines below on their own does not count.
    """
    specific = [m for m in by_id.values() if not m.fallback or m.role != "neutral"]
    place = ["line", "part"]
    telling = {message.id for message in specific}
    taken = [frame.select(place) for i, frame in found.items() if i in telling]
    open_ends = segments.filter(grammar.has_needle("raw", specific))
    if taken:
        open_ends = open_ends.join(pl.concat(taken), on=place, how="anti")
    if not open_ends.height:
        return found
    under = _under(open_ends, lines, WRAPPED).group_by(place).agg("text")
    joined = open_ends.join(under, on=place, suffix="_under")
    glued: dict[str, list[pl.DataFrame]] = {}
    for glue in (" ", ""):
        rest = pl.col("text_under").list.eval(pl.element().str.strip_chars_start(" "))
        text = pl.concat_str("text", rest.list.join(glue), separator=glue)
        whole = joined.with_columns(text.alias("text"), rest.list.join(glue))
        for message_id, frame in grammar.match(whole, specific).items():
            pattern = by_id[message_id].regex
            alone = pl.col("text_under").str.contains(pattern)
            mine = frame.filter(~alone) if by_id[message_id].fallback else frame
            # all lines below are tried together; `text` is only the part that matches
            own = pl.col("text").str.extract(f"({pattern})").alias("text")
            if mine.height:
                whole_ = mine.drop("text_under").with_columns(own)
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


def _under(starts: pl.DataFrame, lines: framing.Lines, count: int) -> pl.DataFrame:
    """Return the segments of up to `count - 1` lines below each start, same speaker.

    A line with a header of its own ends the message and is not part of it; interleaved
    lines of other speakers are skipped. Python's logging repeats its header on each
    line of a message: such a line is a continuation if it is indented. srun labels all
    lines or none: below an unlabelled line, `1: [a, b]` is not a label.
    """
    first = starts.select("line", "part", "speaker", "launcher", "task")
    wanted = first.select(
        "line",
        "part",
        "speaker",
        "launcher",
        pl.col("task").is_null().alias("unlabelled"),
        pl.int_ranges(pl.col("line") + 1, pl.col("line") + count).alias("under"),
    ).explode("under")
    framed = lines.framed(
        pl.col("line").is_in(wanted["under"].unique().implode())
    ).select(
        pl.col("line").alias("under"),
        pl.col("part").alias("under_part"),
        pl.col("speaker").alias("under_speaker"),
        pl.col("launcher").alias("under_launcher"),
        (pl.col("speaker") == pl.col("launcher")).alias("rankless"),
        "task",
        "header",
        "text",
        pl.col("t").is_not_null().alias("timed"),
    )
    beside = wanted.join(framed, on="under").sort("line", "part", "under", "under_part")
    number = pl.when("unlabelled").then(pl.col("task").cast(pl.String))
    beside = beside.with_columns(
        pl.col("under_speaker").str.strip_suffix(
            pl.concat_str(
                pl.when(pl.col("under_speaker") == number)
                .then(pl.lit(""))
                .otherwise(pl.lit("|")),
                number,
            ).fill_null("")
        ),
        pl.concat_str(pl.concat_str(number, pl.lit(": ")).fill_null(""), "text").alias(
            "text"
        ),
    )
    same = pl.col("under_speaker").eq(pl.col("speaker")) | pl.col("under_speaker").eq(
        ""
    )
    same |= pl.col("rankless") & (pl.col("under_launcher") == pl.col("launcher"))
    return (
        beside.filter(same)
        .with_columns(
            (
                pl.col("header").is_not_null()
                & ~(pl.col("header").eq("python") & pl.col("text").str.starts_with(" "))
            ).alias("headed")
        )
        .filter(~pl.col("headed").cum_max().over("line", "part"))
    )


def _structured(
    frame: pl.DataFrame, message: Message, lines: framing.Lines, room: Room
) -> tuple[pl.DataFrame, bool]:
    """Parse the inner structure of each message: one row per row of the structure.

    A message without such rows keeps its one row, with FOUND false. Also returns
    whether a limit was exceeded: `room`, MAX_STRUCTURES messages, the lines of one
    message, or the characters of its text.
    """
    structure = captures.module(str(message.inner))
    starts = frame.head(limits.MAX_STRUCTURES)
    texts = starts["text"].to_list()
    places = starts.select(pl.concat_list("line")).to_series().to_list()
    untimed = starts["t"].is_null().to_list()
    timed = [[False]] * starts.height
    if message.block > 1:
        under = (
            _under(starts, lines, message.block)
            .group_by("line", "part", maintain_order=True)
            .agg(pl.col("text").str.join("\n"), "under", "timed")
        )
        below = starts.select("line", "part").join(
            under, on=["line", "part"], how="left", maintain_order="left"
        )
        texts = [
            f"{text}\n{rest}" if rest else text
            for text, rest in zip(texts, below["text"], strict=True)
        ]
        under_ = below.select(pl.concat_list("line", pl.col("under").fill_null([])))
        places = under_.to_series().to_list()
        timed = [[False, *(some or ())] for some in below["timed"].to_list()]
    parsed: list[dict[str, object]] = []
    longest = getattr(structure, "LONGEST", limits.MAX_STRUCTURE_CHARACTERS)
    is_cut = frame.height > starts.height
    is_cut = is_cut or any(is_capped(text, longest) for text in texts)
    refuses = getattr(structure, "refuses", None)
    is_slow = hasattr(structure, "pp")
    for number, text in enumerate(texts):
        if room.rows <= 0 or (is_slow and room.characters <= 0):
            is_cut = True
            break
        rows = structure.parse(text)
        is_cut = is_cut or len(rows) > room.rows
        is_cut = is_cut or (refuses is not None and refuses(text))
        # a structure that reaches the last line of its block may continue below it
        is_cut = is_cut or any(row.get("span") == message.block for row in rows)
        rows = [_placed(row, text, places[number]) for row in rows]
        if captures.GOES_ON in structure.COLUMNS and rows and untimed[number]:
            rows[0][captures.GOES_ON] = any(timed[number][_span(rows[0]) :])
        parsed += ({"_start": number, **row} for row in rows[: room.rows])
        room.rows -= max(len(rows), 1)
        room.characters -= min(len(text), longest) * is_slow
    if not parsed:
        return frame.with_columns(pl.lit(False).alias(FOUND)), is_cut
    inner = pl.DataFrame(parsed, infer_schema_length=None, strict=False)
    inner = inner.rename(
        {c: f"{c}_text" for c in inner.columns if c in captures.OWN_COLUMNS}
    )
    # columns that are null in all rows still need their type
    types = captures.inner(str(message.inner))
    inner = inner.with_columns(
        pl.col(c).cast(types.get(c, pl.String()))
        for c, kind in inner.schema.items()
        if kind == pl.Null
    ).with_columns(pl.lit(True).alias(FOUND))
    start = starts.with_columns(pl.int_range(pl.len()).alias("_start"))
    whole = start.join(
        inner, on="_start", how="left", suffix="_inner", maintain_order="left"
    )
    clashes = [c for c in inner.columns if f"{c}_inner" in whole.columns]
    typed = whole.with_columns(
        pl.col(FOUND).fill_null(False),
        *(
            pl.coalesce(_like(f"{c}_inner", c, whole), _like(c, c, whole)).alias(c)
            for c in clashes
        ),
    )
    return typed.drop("_start", *(f"{c}_inner" for c in clashes)), is_cut


def _span(row: dict[str, object]) -> int:
    """Return how many lines a row of an inner structure takes."""
    return int(str(row.get("span") or 1))


def _placed(
    row: dict[str, object], text: str, places: Sequence[int]
) -> dict[str, object]:
    """Replace `said_at` of a row by the line of the file, and what that says."""
    if captures.SAID_AT not in row:
        return row
    at = row.pop(captures.SAID_AT)
    said = text.splitlines()
    told: tuple[int | None, str | None] = (None, None)
    if isinstance(at, int) and len(said) == len(places):
        told = places[at], said[at].strip()
    return row | dict(zip(captures.SAID, told, strict=True))


def _like(column: str, name: str, frame: pl.DataFrame) -> pl.Expr:
    """Cast a column to the type of `name` in `events`, or else in `frame`."""
    dtype = SCHEMAS["events"].get(name, frame.schema[f"{name}_inner"])
    return pl.col(column).cast(dtype, strict=False)


def _event(frame: pl.DataFrame, message: Message) -> pl.DataFrame:
    """Reduce a message's frame to the columns of `events` and its captures.

    NCCL prints the expected failure of a probe at INFO, with the same text as a WARN.
    Such a line is not a sign of failure, so its role becomes "neutral".
    """
    events = SCHEMAS["events"]
    cites = [pl.lit(None, pl.String).alias("source"), pl.col("line")]
    captures = [c for c in frame.columns if c not in events and c not in FRAMING]
    probe = (pl.col("header") == "nccl") & (pl.col("level") == "INFO")
    role = pl.when(probe).then(pl.lit("neutral")).otherwise(pl.lit(message.role))
    return frame.with_columns(
        pl.lit(message.id).alias("message"), role.alias("role")
    ).select(*(c for c in events if c not in CITE), *captures, *cites)


def _conforming(name: str, parts: list[pl.DataFrame]) -> pl.DataFrame:
    schema = SCHEMAS[name]
    return pl.concat(
        tables.conform(name, part.select(c for c in part.columns if c in schema))
        for part in parts
    ).sort("line", maintain_order=True)
