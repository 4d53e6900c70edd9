"""Lines to `events`, to a frame per message, and to the frames they feed.

Three steps: keep the lines that hold a needle; take them apart (`framing`) and match
them (`grammar`); go back for what a message needs besides its own line, which is the
lines of a table, a traceback or a report under it, and the rest of a message that a
terminal wrapped. Only recognised lines leave this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import CITE, SCHEMAS
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import broken_lines, captures, framing, grammar
from ncclforensics.parsers.logs.scan import WRAPPED
from ncclforensics.parsers.logs.structures.limits import is_capped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.parsers.logs.grammar import Message

# columns that say what the event is; a structure's key of that name is kept beside it
# columns of ranks, and of how many there are
RANKS = re.compile(r"(?:^|_)n?ranks?$|^world_size$")
# columns of how long something took
SPANS = re.compile(r"_ms$")
FOUND = "_found"  # whether a row of a message came out of its inner structure


@dataclass(slots=True)
class Room:
    """What the inner structures of one log may still give, in rows, and take.

    `characters` are those that pyparsing reads; the other structures are read at once.
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

    `lines` has `line` Int64 and `raw` String; the rows behind `own` are looked at only
    as the continuation of a message. `source` is null in the frames returned. Inner
    structures take from `room`, and leave a note where there is too little.
    """
    mine = lines.head(own)
    seams = broken_lines.seams(mine).filter(grammar.has_needle("seam", messages))
    split = pl.col("line").is_in(seams["line"].implode())
    kept = mine.filter(grammar.has_needle("raw", messages) | split)
    # a needle that a terminal wrapped is found in two lines together
    segments = (
        framing.frame(kept, mine)
        .join(seams, on="line", how="left", maintain_order="left")
        .with_columns(pl.concat_str("raw", pl.col("seam").fill_null("")).alias("raw"))
        .drop("seam")
    )
    return taken(segments, lines, messages, room or Room())


def taken(
    segments: pl.DataFrame,
    lines: pl.DataFrame,
    messages: Sequence[Message],
    room: Room,
) -> Frames:
    """Take the messages that framed `segments` are; `lines` holds what is under them.

    `source` is null in the frames returned, whose rows are in order of `line`.
    """
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
        told = _event(whole, message).drop(FOUND, strict=False)
        frames[message_id] = told.sort("line", maintain_order=True)
        fed["events"].append(_event(frame, message))
        if message.feeds:
            constants = [pl.lit(v).alias(k) for k, v in message.constants.items()]
            rows = whole.filter(FOUND) if message.inner else whole
            row = _event(rows, message).with_columns(*constants)
            fed.setdefault(message.feeds, []).append(row)
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


def _believed(frame: pl.DataFrame, odd: set[str]) -> pl.DataFrame:
    """Give null for ranks, worlds and times that no job has; adds their columns."""
    bounded = [c for c in frame.columns if RANKS.search(c) or SPANS.search(c)]
    beyond = {c for c in bounded if _highest(frame[c]) >= _most(c)}
    if not beyond:
        return frame
    odd |= beyond
    return frame.with_columns(
        pl.when(pl.col(c) < _most(c)).then(c).alias(c) for c in beyond
    )


def _most(column: str) -> int:
    """Return from what number on a column of ranks, or of times, is damage."""
    return limits.MAX_RANK if RANKS.search(column) else limits.MAX_MS


def _highest(numbers: pl.Series) -> int:
    highest = numbers.max() if numbers.dtype == pl.Int64 else None
    return highest if isinstance(highest, int) else -1


def _with_wrapped(
    segments: pl.DataFrame,
    found: dict[str, pl.DataFrame],
    lines: pl.DataFrame,
    by_id: Mapping[str, Message],
) -> dict[str, pl.DataFrame]:
    """Match again what no telling message took, joined with the lines under it.

    A terminal or a page wraps a long message inside a word, or at a space that it
    swallows; both are tried. A line that is then recognised is no fallback's any more.
    What the lines under it say without it is no fallback's message.
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
            # the lines under a message are tried whole; only its own part is its text
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


def _under(starts: pl.DataFrame, lines: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return the segments of up to `count - 1` lines under each start, by its speaker.

    A line with a header of its own ends a message, and so does not belong to it;
    neither do the lines of another speaker that stand between. Python's logging repeats
    its header on each line of one message: such a line goes on where it is indented.
    srun labels all lines or none: under a line without a label, `1: [a, b]` has none.
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
    framed = framing.frame(
        lines.filter(pl.col("line").is_in(wanted["under"].unique().implode())), lines
    ).select(
        pl.col("line").alias("under"),
        pl.col("part").alias("under_part"),
        pl.col("speaker").alias("under_speaker"),
        pl.col("launcher").alias("under_launcher"),
        (pl.col("speaker") == pl.col("launcher")).alias("rankless"),
        "task",
        "header",
        "text",
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
    frame: pl.DataFrame, message: Message, lines: pl.DataFrame, room: Room
) -> tuple[pl.DataFrame, bool]:
    """Read the inner structure of each message: a row per row of the structure.

    A message in which the structure finds nothing keeps its one row; FOUND tells. Also
    returns whether there was more than `room`, MAX_STRUCTURES messages, the lines that
    belong to one, or what is read of a text.
    """
    structure = import_module(f"ncclforensics.parsers.logs.structures.{message.inner}")
    starts = frame.head(limits.MAX_STRUCTURES)
    texts = starts["text"].to_list()
    if message.block > 1:
        under = (
            _under(starts, lines, message.block)
            .group_by("line", "part", maintain_order=True)
            .agg(pl.col("text").str.join("\n"))
        )
        below = starts.select("line", "part").join(
            under, on=["line", "part"], how="left", maintain_order="left"
        )["text"]
        texts = [
            f"{text}\n{rest}" if rest else text
            for text, rest in zip(texts, below, strict=True)
        ]
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
        # what is told up to its last line may go on below
        is_cut = is_cut or any(row.get("span") == message.block for row in rows)
        parsed += ({"_start": number, **row} for row in rows[: room.rows])
        room.rows -= max(len(rows), 1)
        room.characters -= min(len(text), longest) * is_slow
    if not parsed:
        return frame.with_columns(pl.lit(False).alias(FOUND)), is_cut
    inner = pl.DataFrame(parsed, infer_schema_length=None, strict=False)
    inner = inner.rename(
        {c: f"{c}_text" for c in inner.columns if c in captures.OWN_COLUMNS}
    )
    # what was torn off everywhere is null, and still has the type of its column
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


def _like(column: str, name: str, frame: pl.DataFrame) -> pl.Expr:
    """Return a column in the type that `name` has in `events`, or else in `frame`."""
    dtype = SCHEMAS["events"].get(name, frame.schema[f"{name}_inner"])
    return pl.col(column).cast(dtype, strict=False)


def _event(frame: pl.DataFrame, message: Message) -> pl.DataFrame:
    """Give a message's frame the columns of `events`, then those of its captures.

    NCCL prints the failure of a probe that it expected at INFO, in the words of a WARN:
    such a line is no sign of failure.
    """
    events = SCHEMAS["events"]
    cites = [pl.lit(None, pl.String).alias("source"), pl.col("line")]
    captures = [
        c
        for c in frame.columns
        if c not in events and c not in ("part", "raw", "speaker", "launcher", "header")
    ]
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
