"""Renders calls as a Perfetto trace: a process per rank, a track per process group.

Calls of a group overlap if they are enqueued ahead, so they are asynchronous events on
as many tracks as overlap; the first event of a track names it. Ids are local to a
process, because Perfetto otherwise merges tracks of one name. Arrows (`bind_id`,
`flow_out`, `flow_in`) point to the rank that is waited for. Times are microseconds
since the first call, because doubles do not have enough digits for absolute times. The
pid is the rank plus one: pid 0 is the idle process.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model.folding import count
from ncclforensics.model.words import name_group
from ncclforensics.report.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ncclforensics.model.frames import Frames

MOST_CALLS, MOST_ARROWS = 200_000, 5_000
SECOND = 1_000_000_000
COLUMNS = (
    *("rank", "pg", "pg_desc", "seq", "p2p_seq", "is_p2p", "op", "state"),
    *("start", "end", "t_completed", "source", "line"),
)
Event = dict[str, Any]
Key = tuple[int, str | None, int | None]  # rank, process group, sequence number


def render_trace(
    frames: Frames, most: int = MOST_CALLS
) -> tuple[bytes, tuple[str, ...]]:
    """Return the trace as JSON, and a line for everything that it leaves out.

    If there are more than `most` calls, the last ones of each rank and group are kept.
    A call without a time is not drawn. A call whose end was not recorded ends where the
    next one of its group begins; a call that never ended, at the end of the trace.
    """
    timed, left = _timed(frames["collectives"], most)
    if timed.is_empty():
        start, end = 0, SECOND
    else:
        start = int(timed["start"][0])
        last = int(timed.select(pl.max_horizontal(pl.max("start", "end"))).item())
        end = last + max((last - start) // 20, SECOND)
    starts = dict(_starts(timed))
    arrows, cut = _arrows(frames["calls"], starts)
    left += cut
    events: list[Event] = list(_processes(frames, timed))
    events += _calls(timed, arrows, start, end)
    events += _waited_for(frames["calls"], arrows, starts, start, end)
    document = {
        "displayTimeUnit": "ms",
        "otherData": {"start": rfc3339(start), "left out": list(left)},
        "traceEvents": events,
    }
    return msgspec.json.encode(document) + b"\n", left


def _timed(calls: pl.DataFrame, most: int) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the calls to draw, sorted by start, with `start` and `end` in ns."""
    start = pl.coalesce("t_started", "t").dt.epoch("ns")
    whole = calls.filter(pl.col("rank").is_not_null()).with_columns(start=start)
    drawn = whole.drop_nulls("start").sort("rank", "pg", "pg_desc", "start", "line")
    left = []
    if whole.height > drawn.height:
        left.append(f"{count(whole.height - drawn.height, 'call')} without a time")
    if drawn.height > most:
        groups = drawn.select(pl.struct("rank", "pg", "pg_desc").n_unique()).item()
        kept = drawn.group_by("rank", "pg", "pg_desc", maintain_order=True).tail(
            max(most // groups, 1)
        )
        left.append(f"{drawn.height - kept.height:,} earlier calls of {drawn.height:,}")
        drawn = kept
    following = pl.col("start").shift(-1).over("rank", "pg", "pg_desc")
    ended = pl.col("retired") | (pl.col("state") == "completed")
    unknown = pl.when(ended).then(pl.coalesce(following, pl.col("start") + 1_000_000))
    end = pl.coalesce(pl.col("t_completed").dt.epoch("ns"), unknown)
    return drawn.with_columns(end=end).sort("start", "rank", "pg", "line"), tuple(left)


def _starts(timed: pl.DataFrame) -> Iterator[tuple[Key, int]]:
    """Yield the key and start time (ns) of each collective."""
    collective = timed.filter(~pl.col("is_p2p").fill_null(False))
    for rank, pg, seq, start in collective.select(
        "rank", "pg", "seq", "start"
    ).iter_rows():
        yield (rank, pg, seq), start


def _processes(frames: Frames, timed: pl.DataFrame) -> Iterator[Event]:
    """Yield the events that name the ranks that have a track."""
    hosts = dict(frames["ranks"].select("rank", "host").iter_rows())
    calls = frames["calls"]
    awaited = [calls[side].explode() for side in ("absent", "behind")]
    ranks = pl.concat([timed["rank"], *awaited]).drop_nulls().unique().sort()
    for rank in ranks:
        where = f" on {hosts[rank]}" if hosts.get(rank) else ""
        for name, value in (
            ("process_name", {"name": f"rank {rank}{where}"}),
            ("process_sort_index", {"sort_index": rank}),
        ):
            yield {"ph": "M", "pid": rank + 1, "tid": 0, "name": name, "args": value}


def _arrows(
    calls: pl.DataFrame, drawn: Mapping[Key, int]
) -> tuple[dict[Key, list[tuple[int, int]]], tuple[str, ...]]:
    """Return (arrow id, awaited rank) per waiting call; bounded in number."""
    arrows: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    made = wanted = 0
    rows = calls.to_dicts()
    # absent ranks are more likely the root, so their arrows come first
    for side in ("absent", "behind"):
        for row in rows:
            for rank in row["waiting"] or ():
                key = (rank, row["pg"], row["seq"])
                for other in row[side] or ():
                    wanted += 1
                    if key in drawn and made < MOST_ARROWS:
                        made += 1
                        arrows[key].append((made, other))
    left = wanted - made
    return arrows, ((f"{left:,} arrows of {wanted:,}",) if left else ())


def _calls(
    timed: pl.DataFrame,
    arrows: Mapping[Key, list[tuple[int, int]]],
    start: int,
    end: int,
) -> Iterator[Event]:
    """Yield the events of every call, and the arrows that start at it."""
    busy: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in timed.select(COLUMNS).iter_rows(named=True):
        group = _group(row)
        lanes = busy[row["rank"], group]
        until = end if row["end"] is None else max(row["end"], row["start"])
        lane = next((i for i, u in enumerate(lanes) if u <= row["start"]), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
            yield _event("n", row["rank"], group, lane, group, row["start"] - start)
        lanes[lane] = until
        number = row["p2p_seq"] if row["is_p2p"] else row["seq"]
        name = f"{row['op']} {'P2P ' if row['is_p2p'] else ''}SeqNum={number}"
        facts = {"state": row["state"], "see": f"{row['source']}:{row['line']}"}
        if row["end"] is None:
            facts["end"] = "never finished"
        elif row["t_completed"] is None:
            facts["end"] = "finished, when was not recorded"
        place = (row["rank"], group, lane, name)
        yield _event("b", *place, row["start"] - start, args=facts)
        key = (row["rank"], row["pg"], row["seq"])
        for arrow, other in () if row["is_p2p"] else arrows.get(key, ()):
            told, tie = f"waits for rank {other}", _tie(arrow, "flow_out")
            yield _event(
                "n", row["rank"], group, lane, told, row["start"] - start, **tie
            )
        yield _event("e", *place, until - start)


def _waited_for(
    calls: pl.DataFrame,
    arrows: Mapping[Key, list[tuple[int, int]]],
    starts: Mapping[Key, int],
    start: int,
    end: int,
) -> Iterator[Event]:
    """Yield the calls that awaited ranks did not make, on the tracks of these ranks.

    An arrow ends no earlier than it starts: Perfetto would drop it.
    """
    lanes: Counter[tuple[int, str]] = Counter()
    for row in calls.with_columns(pl.col("t").dt.epoch("ns")).to_dicts():
        name = f"not there: {row['op']} SeqNum={row['seq']}"
        awaited = (*(row["absent"] or ()), *(row["behind"] or ()))
        begin = min(max((row["t"] or start) - start, 0), end - start)
        for other in awaited:
            group = f"waited for in {_group(row)}"
            place = (other, group, lanes[other, group])
            lanes[other, group] += 1
            yield _event("b", *place, name, begin)
            for rank in row["waiting"] or ():
                key = (rank, row["pg"], row["seq"])
                for arrow, target in arrows.get(key, ()):
                    if target == other:
                        told, at = f"rank {rank} waits", max(begin, starts[key] - start)
                        yield _event("n", *place, told, at, **_tie(arrow, "flow_in"))
            yield _event("e", *place, name, end - start)


def _group(row: Mapping[str, Any]) -> str:
    return name_group(row["pg"], row["pg_desc"])


def _tie(arrow: int, side: str) -> dict[str, Any]:
    """Return the fields that make an event an end of an arrow."""
    return {"bind_id": f"0x{arrow:x}", side: True}


def _event(
    phase: str, rank: int, group: str, lane: int, name: str, t: int, **more: Any
) -> Event:
    """Return one asynchronous event; `t` is nanoseconds since the start."""
    return {
        "ph": phase,
        "cat": "call",
        "id2": {"local": f"{group}|{lane}"},
        "pid": rank + 1,
        "tid": 1,
        "name": name,
        "ts": t / 1000,
        **more,
    }
