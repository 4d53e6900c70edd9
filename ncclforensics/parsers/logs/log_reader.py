"""Reads text logs: `scan` picks lines, which are then matched for many files at once.

Framing a few lines costs as much as framing a thousand, so the lines of many files are
recognised together; meanwhile each file's lines are numbered in a range of their own.
Several threads scan files, because nearly all of the work releases the GIL; a large
file is scanned in several places at once. Logs whose lines were split by a container
runtime or a terminal are joined first and read whole.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bound
from io import BytesIO
from itertools import chain, groupby
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.errors import reason
from ncclforensics.model.frames import Frames, PartialRead, join
from ncclforensics.model.notes import Note
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import (
    broken_lines,
    endings,
    framing,
    grammar,
    log_shape,
    pastes,
    record_files,
    regular_lines,
    scan,
    search_terms,
    small_logs,
)
from ncclforensics.parsers.logs.captures import NUMBERS
from ncclforensics.parsers.logs.event_rows import recognise, taken
from ncclforensics.parsers.logs.inner_rows import Room
from ncclforensics.parsers.logs.kept_lines import Kept, numbered
from ncclforensics.parsers.logs.lines import FILE, blocks
from ncclforensics.parsers.logs.long_lines import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from ncclforensics.parsers.logs.grammar import Message
    from ncclforensics.parsers.logs.search_terms import Search
    from ncclforensics.sources import Source

    Run = Sequence[Source]  # scanned together

LOOK_AHEAD = 400  # lines below a message that may belong to it: a long traceback
WINDOW_BYTES = 32 << 20  # recognised together, of a log that is read whole
TOGETHER = 32_768  # lines recognised together
TOGETHER_BYTES = 16 << 20  # bytes recognised together; each takes 30 bytes of memory
AHEAD = 8  # scans that may wait to be recognised
THREADS = 4  # for scanning; more would only wait for recognition
PAYS_BYTES = 8 << 20  # input size from which several threads are faster than one


@dataclass(frozen=True, slots=True)
class _Log:
    """A log that was read; `frames` is set only if it was read whole."""

    source: Source
    kept: Kept
    frames: Frames | None = None


def read(source: Source) -> Frames:
    """Parse a text log into `events`, the frames that its messages feed, and `notes`.

    Never raises on content; a truncated stream yields a note and what was read.
    """
    return read_all([source])


def read_all(sources: Sequence[Source]) -> Frames:
    """Parse text logs: the result of `read` for each, in order.

    On an interrupt, raises PartialRead with the logs read so far, or re-raises
    KeyboardInterrupt if there are none.
    """
    messages = grammar.strict()
    terms = search_terms.search()
    parts: list[Frames] = []
    waiting: list[_Log] = []
    lines = done = 0
    try:
        for log in _scanned(sources, terms):
            waiting.append(log)
            done += 1
            lines += sum(own.len() for own in log.kept.own)
            if lines >= TOGETHER or log.frames is not None:
                parts.append(_recognised(waiting, messages))
                waiting, lines = [], 0
    except KeyboardInterrupt as interrupt:
        if not done:
            raise
        read_so_far = join([*parts, _recognised(waiting, messages)])
        raise PartialRead(read_so_far, done) from interrupt
    told = join([*parts, _recognised(waiting, messages)])
    regular = regular_lines.read(sources, told["sources"])
    return join([told, placed(regular, sources)])


def _scanned(sources: Sequence[Source], terms: Search) -> Iterator[_Log]:
    """Scan logs in parallel and yield them in order."""
    runs = small_logs.runs(sources)
    tasks = ((run, task) for run in runs for task in _tasks(run, terms))
    done = _side_by_side(tasks, sum(source.bytes for source in sources))
    for run, parts in groupby(done, key=lambda part: part[0]):
        read = [kept for _, some in parts for kept in some]
        logs = read if len(run) > 1 else [numbered(read)]
        for source, kept in zip(run, logs, strict=True):
            if kept.in_pieces:
                yield _put_together(source, terms.messages)
            else:
                yield _Log(source, kept)


def _side_by_side(
    tasks: Iterator[tuple[Run, Callable[[], list[Kept]]]], size: int
) -> Iterator[tuple[Run, list[Kept]]]:
    threads = min(pl.thread_pool_size(), THREADS)  # 1 in a pool worker
    if threads < 2 or size < PAYS_BYTES:
        yield from ((run, task()) for run, task in tasks)
        return
    ahead: deque[tuple[Run, Future[list[Kept]]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for run, task in tasks:
            ahead.append((run, pool.submit(task)))
            if len(ahead) > AHEAD:
                first, future = ahead.popleft()
                yield first, future.result()
        for first, future in ahead:
            yield first, future.result()


def _tasks(run: Run, terms: Search) -> Iterator[Callable[[], list[Kept]]]:
    """Yield callables that scan a run: one for each of its logs, or its log's spans."""
    source = run[0]
    if small_logs.is_small(source):
        yield bound(_small, run, terms)
    elif log_shape.hashes(source):
        yield bound(_whole, source, terms)
    else:
        for index in range(log_shape.spans(source)):
            yield bound(_span, source, terms, index)


def _small(run: Run, terms: Search) -> list[Kept]:
    logs = zip(run, small_logs.scanned(run, terms), strict=True)
    return [kept or numbered(_whole(source, terms)) for source, kept in logs]


def _whole(source: Source, terms: Search) -> list[Kept]:
    kept: list[Kept] = []
    try:
        if log_shape.is_in_pieces(source):
            return [Kept(in_pieces=True)]
        with source.open(hashed=True) as stream:
            kept.extend(scan.in_order(stream, terms))
            return [*kept, Kept(trouble=stream.damage, sha256=stream.sha256)]
    except scan.InPiecesError:
        return [Kept(in_pieces=True)]
    except (OSError, EOFError, ValueError) as error:
        return [*kept, Kept(trouble=reason(error))]


def _span(source: Source, terms: Search, index: int) -> list[Kept]:
    try:
        if index == 0 and log_shape.is_in_pieces(source):
            return [Kept(in_pieces=True)]
        return [scan.of_span(source, terms, index)]
    except scan.InPiecesError:
        return [Kept(in_pieces=True)]
    except OSError as error:
        return [Kept(trouble=reason(error))]


def _put_together(source: Source, messages: Sequence[Message]) -> _Log:
    """Read and recognise a whole log whose lines were split, or that are records."""
    log = Kept()
    parts: list[Frames] = []
    room = Room()
    try:
        begins = log_shape.head(source)
        if (records := _records(source, begins, log, messages)) is not None:
            found = recognise(records.drop("place"), records.height, messages, room)
            cited = record_files.cited(found, records["place"])
            return _Log(source, log, placed(cited, [source]))
        plan = scan.paste(begins)
        log.remarks += pastes.notes(plan)
        with source.open() as stream:
            for lines, own in windows(stream, log, plan):
                parts.append(recognised(lines, own, messages, room))
            log.trouble = stream.damage
    except (OSError, EOFError, ValueError) as error:
        log.trouble = reason(error)
    read_so_far = join(placed(part, [source]) for part in parts)
    return _Log(source, log, read_so_far)


def of_text(source: Source, text: bytes) -> Frames:
    """Recognise `text` as the lines of a log; `line` counts within it."""
    messages, room = grammar.strict(), Room()
    found = windows(BytesIO(text), Kept())
    parts = [recognised(lines, own, messages, room) for lines, own in found]
    return join(placed(part, [source]) for part in parts)


def _records(
    source: Source, begins: bytes, log: Kept, messages: Sequence[Message]
) -> pl.DataFrame | None:
    """Return the lines of a file of records, None if it is another file."""
    if record_files.form(begins) is None and not record_files.is_json_lines(begins):
        return None
    with source.open() as stream:
        try:
            lines, log.count = record_files.read(stream, messages)
        except ValueError as error:
            log.remarks.append(f"its records are not read: {error}")
            return None
        log.trouble = stream.damage
    if not lines["place"].is_sorted():
        log.remarks.append(record_files.NEWEST_FIRST)
    return lines


def recognised(
    lines: pl.DataFrame,
    own: int,
    messages: Sequence[Message],
    room: Room | None = None,
) -> Frames:
    """Return what `recognise` does, where lines may share a number or leave some out.

    What is below a line is looked for by number, so lines are numbered anew meanwhile.
    """
    anew = lines.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("line"))
    frames = recognise(anew, own, messages, room)

    def back(frame: pl.DataFrame) -> pl.DataFrame:
        known = {c: frame[c] for c in NUMBERS if c in frame.columns}
        there = {c: lines["line"].gather(at).alias(c) for c, at in known.items()}
        if "span" in frame.columns:
            last = (frame["line"] + frame["span"] - 1).clip(0, lines.height - 1)
            span = lines["line"].gather(last) - there["line"] + 1
            there["span"] = span.alias("span")
        return frame.with_columns(*there.values())

    return frames.each(back)


def windows(
    stream: BinaryIO, log: Kept, plan: pastes.Plan = ()
) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield (lines, own) for `recognised`; each line is among the `own` ones once.

    What `plan` tells is undone. Statistics of the whole stream are recorded in `log`.
    """
    held: pl.DataFrame | None = None
    for block in blocks(stream, WINDOW_BYTES):
        log.met(block)
        new, cut = shortened(block.lines)
        log.cut.update(cut)
        new = pastes.restored(new, plan)
        lines = broken_lines.joined(new if held is None else pl.concat([held, new]))
        own = max(lines.height - LOOK_AHEAD, 0)
        if int(lines["raw"][own:].str.len_bytes().sum()) > limits.MAX_HELD_BYTES:
            own = lines.height
            log.unheld.add(int(lines["line"][-1]))
        if own:
            yield lines, own
        held = lines.slice(own)
    if held is not None:
        yield held, held.height


def _recognised(logs: Sequence[_Log], messages: Sequence[Message]) -> Frames:
    """Return the frames of several logs, recognised together; `sources` rows too."""
    sources = [log.source for log in logs]
    parts = [log.frames for log in logs if log.frames is not None]
    if any(log.kept.own for log in logs):
        # a search is prepared once per chunk
        lines_of, own_of = zip(
            *((log.kept.lines, log.kept.own) for log in logs), strict=True
        )
        lines = pl.concat(chain(*lines_of), rechunk=True)
        lines = lines.with_columns(pl.col("line") + _above(lines_of))
        own = (pl.concat(chain(*own_of)) + _above(own_of)).unique().sort()
        found = list(_taken(lines, own, messages))
        if len(logs) > 1 and any(part["notes"].height for part in found):
            # Limits are per log: find which one hit them.
            half = len(logs) // 2
            return join(_recognised(p, messages) for p in (logs[:half], logs[half:]))
        parts = [*(placed(part, sources) for part in found), *parts]
    return join([*parts, _told(logs)])


def _above(parts: Iterable[Sequence[pl.DataFrame | pl.Series]]) -> pl.Series:
    """Return FILE * log index for each row of the parts of several logs."""
    heights = [sum(map(len, some)) for some in parts]
    return pl.Series(np.repeat(np.arange(len(heights), dtype=np.int64) * FILE, heights))


def _taken(
    lines: pl.DataFrame, own: pl.Series, messages: Sequence[Message]
) -> Iterator[Frames]:
    """Recognise the lines numbered `own` in portions; the others are context."""
    room = Room()
    line = pl.col("line")
    framed = framing.Lines(lines)
    for some in _portions(lines, own):
        mine = line.is_between(some[0], some[-1]) & line.is_in(some.implode())
        yield taken(framed, mine, messages, room)


def _portions(lines: pl.DataFrame, own: pl.Series) -> Iterator[pl.Series]:
    """Split line numbers into runs that are recognised together."""
    size = pl.col("raw").str.len_bytes().cast(pl.Int64)
    whole = lines.select(size.sum()).item() or 0
    if own.len() <= TOGETHER and whole <= TOGETHER_BYTES:
        yield own
        return
    sizes = lines.group_by("line").agg(size.sum().alias("size"))
    sized = (
        own.alias("line")
        .to_frame()
        .join(sizes, on="line", how="left", maintain_order="left")
    )
    bytes_ = pl.col("size").cum_sum() // TOGETHER_BYTES
    run = (pl.int_range(pl.len()) // TOGETHER + bytes_).alias("run")
    for part in sized.with_columns(run).partition_by("run", maintain_order=True):
        yield part["line"]


def _told(logs: Sequence[_Log]) -> Frames:
    """Return the rows of logs in `sources`, and their notes."""
    rows, noted, ends, unread = [], [], [], []
    for log in logs:
        kept, name = log.kept, log.source.name
        noted += [Note("parsers", text, name) for text in kept.notes()]
        cut = not kept.whole or kept.trouble is not None
        rows.append(
            {"lines": kept.count, "cut": cut, "sha256": kept.sha256, "source": name}
        )
        ends += [] if (end := endings.end(log.source, kept.count)) is None else [end]
        source = pl.lit(name).alias("source")
        unread += [calls.with_columns(source) for calls in kept.unread]
    told = {"notes": tables.noted(noted), "sources": tables.rows("sources", rows)}
    if ends:
        told["events"] = pl.concat(ends)
    if unread:
        told["unread_calls"] = tables.conform("unread_calls", pl.concat(unread))
    return Frames(told)


def placed(frames: Frames, sources: Sequence[Source]) -> Frames:
    """Fill in the source name, and rank, host, pid etc. known from the file's path.

    The host of a path is an alias: the lines may print another name of it.
    """
    own = ("rank", "local_rank", "host", "pid", "attempt")
    types = {**tables.WHO, "source": pl.String()}
    places = pl.DataFrame(
        {
            "source": [source.name for source in sources],
            **{column: [getattr(s, column) for s in sources] for column in own},
        },
        schema={c: types[c] for c in ("source", *own)},
    )

    def place(frame: pl.DataFrame) -> pl.DataFrame:
        if frame.is_empty():
            return frame
        here = places
        if len(sources) > 1:
            here = places[frame.select(pl.col("line").fill_null(0) // FILE)["line"]]
        told = {c.name: c for c in here.iter_columns() if c.null_count() < c.len()}
        if "host_alias" in frame.columns and "host" in told:
            told["host_alias"] = told.pop("host")
        return frame.with_columns(
            *(pl.col(c) % FILE for c in NUMBERS if c in frame.columns),
            *(
                pl.coalesce(c, pl.lit(value)).alias(c)
                for c, value in told.items()
                if c in frame.columns
            ),
        )

    return frames.each(place)
