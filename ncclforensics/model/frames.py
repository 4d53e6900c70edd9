"""All frames of one analysis, and how those of several sources are joined."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar, cast

import polars as pl

from ncclforensics.model import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ncclforensics.model.notes import Note

Answer = TypeVar("Answer")
Question = TypeVar("Question", bound="Callable[..., Any]")
PLAIN = (pl.DataFrame, pl.Series)
MOST_KEPT = 4096  # lines of messages, put together; a copy of many takes memory
QUOTED = {
    "source": pl.String(),
    "line": pl.Int64(),
    "said_line": pl.Int64(),
    "said": pl.String(),
}


def _last(calls: pl.LazyFrame, many: int | None) -> pl.LazyFrame:
    """Return the last `many` calls of each rank, and those without a number; or all."""
    if many is None:
        return calls
    newest = pl.col("record_id").max().over("rank")
    return calls.filter((pl.col("record_id") > newest - many).fill_null(True))


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Frames:
    """All frames of one analysis; `messages` holds the captures of each message.

    `tables` maps schema names to frames; absent ones count as empty. A message's frame
    has the columns of `events` and one per capture of its grammar. `known` holds the
    answers of `remembered` questions, and which frames each of them read.
    """

    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    messages: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    known: dict[Any, tuple[Any, set[str]]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __reduce__(self) -> tuple[type[Frames], tuple[Any, Any]]:
        """Leave the answers behind where frames go to another process or a file."""
        return Frames, (self.tables, self.messages)

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Return the frame of schema `name`, without rows if it has no data."""
        _read([name])
        if name == "collectives" and "entries" in self.tables:
            return self.scan(name).collect()
        frame = self.tables.get(name)
        return tables.empty(name) if frame is None else frame

    def scan(self, name: str, last: int | None = None) -> pl.LazyFrame:
        """Return the frame of schema `name`, lazily.

        `collectives` may have millions of rows, and only those that pass a filter are
        joined: filter by rank first, or take only the `last` of each rank.
        """
        if name != "collectives" or "entries" not in self.tables:
            return _last(self[name].lazy(), last)
        _read([name])
        templates = self.tables["templates"].lazy().drop("line")
        entries = self.tables["entries"].lazy()
        if last is not None:
            ranks = templates.select("template", "rank")
            told = entries.join(ranks, on="template", maintain_order="left")
            entries = _last(told, last).drop("rank")
        joined = entries.join(templates, on="template", maintain_order="left").select(
            *tables.SCHEMAS[name]
        )
        others = self.tables.get(name)
        if others is None or others.is_empty():
            return joined
        return pl.concat([joined, _last(others.lazy(), last)])

    def has(self, name: str) -> bool:
        """Whether the frame of schema `name` has rows."""
        _read([name])
        names = (name, "entries") if name == "collectives" else (name,)
        return any(n in self.tables and self.tables[n].height > 0 for n in names)

    def tells(self, needs: Iterable[str]) -> bool:
        """Whether a frame of this name has rows, or a message id has it as prefix."""
        asked = tuple(needs)
        return any(map(self.has, asked)) or any(
            found.startswith(asked) for found in self.messages
        )

    @property
    def names(self) -> list[str]:
        """The names of the frames that are present, sorted, without internal ones."""
        whole = {"collectives"} if "entries" in self.tables else set()
        return sorted((self.tables.keys() - tables.INNER.keys()) | whole)

    def each(
        self,
        change: Callable[[pl.DataFrame], pl.DataFrame],
        skip: Collection[str] = (),
    ) -> Frames:
        """Return these frames with `change` applied to all but the tables `skip`."""
        return Frames(
            {
                name: frame if name in skip else change(frame)
                for name, frame in self.tables.items()
            },
            {name: change(frame) for name, frame in self.messages.items()},
        )

    def adding(self, **added: pl.DataFrame) -> Frames:
        """Return these frames with others put in.

        Answers to questions that did not read the others are remembered.
        """
        more = Frames({**self.tables, **added}, self.messages)
        kept = {ask: a for ask, a in self.known.items() if a[1].isdisjoint(added)}
        more.known.update(kept)
        return more

    def noting(self, *notes: Note, **added: pl.DataFrame) -> Frames:
        """Return these frames with notes, and with what `adding` puts in."""
        told = pl.concat([self["notes"], tables.noted(notes)])
        return self.adding(notes=told, **added)

    def holds_the_same_as(self, other: Frames) -> bool:
        """Whether each frame of these is the very frame of `other` with its name."""
        mine, theirs = (
            [*f.tables.values(), *f.messages.values()] for f in (self, other)
        )
        return all(one is two for one, two in zip(mine, theirs, strict=True))

    def without(self, sources: Collection[str]) -> Frames:
        """Return these frames without the rows that were read from `sources`."""
        kept = ~pl.col("source").is_in(list(sources)) | pl.col("source").is_null()

        def left(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.filter(kept) if "source" in frame.columns else frame

        rest = self.each(left)
        named = dict(rest.tables)
        if "entries" in named:  # they have no source column: their templates do
            named["entries"] = named["entries"].join(
                named["templates"], on="template", how="semi", maintain_order="left"
            )
        said = {name: frame for name, frame in rest.messages.items() if frame.height}
        return Frames(named, said)

    def writers(self) -> pl.DataFrame:
        """Return `source rank`, a row for each rank that a file or a line of it tells.

        A source with one row is a file of that rank alone, as far as is known.
        """
        told = [self[name].select("source", "rank") for name in ("events", "sources")]
        return pl.concat(told).drop_nulls().unique(maintain_order=True)

    def processes(self) -> pl.DataFrame:
        """Return `pid rank host` of `ranks`, of each pid that is of one rank only."""
        known = self["ranks"].drop_nulls(["pid", "rank"]).select("pid", "rank", "host")
        return known.unique("pid", keep="none", maintain_order=True)

    def message(self, *ids: str) -> pl.DataFrame:
        """Return the captures of the messages `ids` in one frame, by source and line.

        Columns that only some of them capture are null in the others. Without any such
        line, the frame has the columns of `events` and no rows.
        """
        if ids in self.known:
            kept: pl.DataFrame = self.known[ids][0]
            return kept
        told = self._together(ids)
        if told.height <= MOST_KEPT:
            self.known[ids] = told, set()
        return told

    def _together(self, ids: tuple[str, ...]) -> pl.DataFrame:
        found = [self.messages[i] for i in ids if i in self.messages]
        if not found:
            return tables.empty("events")
        together = pl.concat(found, how="diagonal_relaxed")
        if together.height > 1:
            together = together.sort("source", "line")
        return typed(together)

    def quoted(self, message: str) -> pl.DataFrame:
        """Return `source line said_line said`: where a structure's rows stand.

        `line` is that of the heading, `said_line` the one that a row was read from.
        """
        lines = self.message(message)
        if "said_line" not in lines.columns:
            return tables.without_rows(QUOTED)
        return lines.select(QUOTED.keys()).drop_nulls()


class _Reading(local):
    """What the questions that are being asked have read so far, the outermost first."""

    def __init__(self) -> None:
        self.names: list[set[str]] = []


_reading = _Reading()


def remembered(ask: Callable[[Frames], Answer]) -> Callable[[Frames], Answer]:
    """Cache a function of Frames, once per analysis; see `Frames.adding`."""

    @wraps(ask)
    def answer(frames: Frames) -> Answer:
        known = frames.known
        if ask not in known:
            _reading.names.append(set())
            try:
                told = ask(frames)
            finally:
                read = _reading.names.pop()
            known[ask] = told, read
        told, read = known[ask]
        _read(read)
        return told

    return answer


def _read(names: Iterable[str]) -> None:
    """Note that the question that is being asked reads the frames `names`."""
    if _reading.names:
        _reading.names[-1].update(names)


def can_answer(given: Frames | pl.DataFrame, needs: Iterable[str]) -> bool:
    """Whether frames hold something of `needs`, or a plain frame has rows."""
    return given.tells(needs) if isinstance(given, Frames) else given.height > 0


def needing(*needs: str, otherwise: object) -> Callable[[Question], Question]:
    """Run a function only where it can find something; its answer is else `otherwise`.

    What it needs is told as in `Frames.tells`; a function of a plain frame needs rows.
    A schema as `otherwise` stands for the frame without rows.
    """

    def gated(ask: Question) -> Question:
        @wraps(ask)
        def answer(given: Any, *args: Any, **more: Any) -> Any:
            if can_answer(given, needs):
                return ask(given, *args, **more)
            if isinstance(otherwise, dict):
                return tables.without_rows(otherwise)
            return otherwise

        return cast("Question", answer)

    return gated


def once_if_empty(*, decided_by: int | None = None) -> Callable[[Question], Question]:
    """Compute a function of plain frames once for all frames without rows.

    Its answer then depends on their schemas alone, and is kept. `decided_by` is how
    many of the first arguments must be empty, None for all; whatever rows the others
    have, the answer must be the same. Arguments that are no frames must be hashable.
    """

    def kept(ask: Question) -> Question:
        known: dict[tuple[object, ...], Any] = {}

        @wraps(ask)
        def answer(*given: Any, **more: Any) -> Any:
            if not are_empty(given[:decided_by]):
                return ask(*given, **more)
            # to hash and compare dtypes takes longest: the key is looked up once
            key = tuple(map(_shape, (*given, *more.values())))
            told = known.get(key, known)
            if told is known:
                told = known[key] = ask(*given, **more)
            return told

        return cast("Question", answer)

    return kept


def are_empty(given: Iterable[object]) -> bool:
    """Whether no frame and no series among some arguments has rows."""
    return all(frame.is_empty() for frame in given if isinstance(frame, PLAIN))


def _shape(given: object) -> object:
    if isinstance(given, pl.Series):
        return given.name, given.dtype
    if isinstance(given, pl.DataFrame):
        return *given.columns, *given.dtypes
    if isinstance(given, pl.LazyFrame):
        return (*given.collect_schema().items(),)
    return given


def join(parts: Iterable[Frames]) -> Frames:
    """Concatenate the frames of several sources in the order of `parts`."""
    tables: dict[str, list[pl.DataFrame]] = {}
    messages: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for name, frame in part.tables.items():
            tables.setdefault(name, []).append(frame)
        for name, frame in part.messages.items():
            messages.setdefault(name, []).append(frame)
    return Frames(
        # entries are many, so they stay chunked: a copy would double their memory
        {n: pl.concat(f, rechunk=n != "entries") for n, f in tables.items()},
        {
            name: typed(pl.concat(frames, how="diagonal_relaxed", rechunk=True))
            for name, frames in messages.items()
        },
    )


def typed(frame: pl.DataFrame) -> pl.DataFrame:
    """Cast a message's all-null columns to their type in `events`, or else String."""
    types = frame.dtypes
    if pl.Null not in types:
        return frame
    return frame.with_columns(
        pl.col(c).cast(tables.SCHEMAS["events"].get(c, pl.String()))
        for c, dtype in zip(frame.columns, types, strict=True)
        if dtype == pl.Null
    )


class PartialRead(KeyboardInterrupt):
    """Reading was interrupted: carries the `frames` of the first `done` sources."""

    def __init__(self, frames: Frames, done: int) -> None:
        """Keep what was read so far."""
        super().__init__()
        self.frames, self.done = frames, done
