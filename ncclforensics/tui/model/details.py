"""Describes one place in the timeline from the evidence, as lines of plain text.

All text from logs is sanitized here. A line is (style, text).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model.folding import count, fold_ranks, some
from ncclforensics.model.words import lasted
from ncclforensics.report.details import ended
from ncclforensics.report.rfc3339 import rfc3339
from ncclforensics.report.sanitize import line as clean
from ncclforensics.report.timeline import naming
from ncclforensics.report.timeline.axis import EXIT
from ncclforensics.report.timeline.states import STATES
from ncclforensics.tui.model.stacks import frames_of, user_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.timeline.timeline import Timeline

Line = tuple[str, str]
HEAD, LABEL, TEXT, DIM = "bold", "cyan", "", "dim"
LIMIT = 300
MOST_LINES = 20
NO_EXIT = "no exit of this rank is known"


def place(timeline: Timeline, row: int, ranks: Sequence[int], col: int) -> list[Line]:
    """Describe a cell: rank, call, state, and the same call on the other ranks."""
    who = timeline.rows.row(row, named=True)
    rank, device = who["rank"], who["device"]
    gpu = f" GPU {device}" if device is not None else ""
    head = f"rank {rank}" + (f" on {who['host']}" if who["host"] else "") + gpu
    if len(ranks) > 1:
        alike = some(fold_ranks(ranks), 40)
        head += f", one of {count(len(ranks), 'rank')} alike ({alike})"
    found: list[Line] = [(HEAD, clean(head, LIMIT))]
    if who["suspected"]:
        found.append(
            (TEXT, clean(f"suspected, not accused, {who['suspected']}", LIMIT))
        )
    if timeline.is_logs_only:
        found += _outcome(who)
    if col < timeline.columns.table.height:
        found += _call(timeline, rank, col, timeline.cells(row)[col])
    elif timeline.columns.kind_of(col).name == EXIT:
        found += _exits(timeline, rank)
    else:
        found += _logged(timeline, rank, col)
    return found


def cite(timeline: Timeline, rank: int, col: int) -> tuple[str, int] | None:
    """Return source and line of a log line or exit in a cell, or None."""
    if col < timeline.columns.table.height:
        return None
    is_exit = timeline.columns.kind_of(col).name == EXIT
    marks = timeline.exits if is_exit else timeline.marks
    rows = marks.filter(pl.col("rank") == rank, pl.col("col") == col)
    rows = rows.drop_nulls("line")
    return None if rows.is_empty() else (rows["source"][0], rows["line"][0])


def _call(timeline: Timeline, rank: int, col: int, code: int) -> list[Line]:
    """Describe a call: this rank's state, the details, and all ranks side by side."""
    kind, n = timeline.columns.kind_of(col).name, timeline.columns.numbers[col]
    state = STATES[code]
    group = timeline.groups.filter((pl.col("rank") == rank) & (pl.col("kind") == kind))
    number = "" if n is None else f" SeqNum={n}"
    found: list[Line] = [(TEXT, f"{kind}{number}: {state.word} ({state.meaning})")]
    if group.is_empty():
        return found
    about = group.row(0, named=True)
    others = everywhere(timeline, about, n)
    own = others.filter(pl.col("rank") == rank)
    if own.is_empty():
        own = _last(timeline, about)
        if own.height:
            number = own.select(naming.NUMBER).item(-1, 0)
            found.append((LABEL, f"the last call of this rank there: SeqNum={number}"))
    if own.height:
        found += _fields(own.row(-1, named=True), about)
        found += _stack(timeline, own.row(-1, named=True)["stack"])
    found += _side_by_side(timeline, others, about["gid"])
    return found + _also(timeline, rank)


def _last(timeline: Timeline, about: dict[str, Any]) -> pl.DataFrame:
    """Return the last call that a rank made in a group."""
    own = timeline.calls.filter(pl.col("rank") == about["rank"], *_in_group(about))
    return own.sort("record_id", naming.NUMBER).tail(1).collect()


def _also(timeline: Timeline, rank: int) -> list[Line]:
    """Return what else is known of a rank: its log lines, and how it ended."""
    said = timeline.marks.filter((pl.col("rank") == rank) & pl.col("failing")).head(5)
    found: list[Line] = [
        (TEXT, "  " + clean(f"{row['source']}:{row['line']} {row['text']}", LIMIT))
        for row in said.iter_rows(named=True)
    ]
    ended = _exits(timeline, rank)
    found += [(style, f"  {text}") for style, text in ended if text != NO_EXIT]
    return [(LABEL, "of this rank's process"), *found] if found else []


def everywhere(
    timeline: Timeline, about: dict[str, Any], n: int | None
) -> pl.DataFrame:
    """Return one call of a group on all ranks that made it."""
    mine = _in_group(about)
    # only some ranks are members, so only part of a file of calls is read
    ranks = timeline.groups.filter(pl.col("gid") == about["gid"])["rank"]
    mine.append(pl.col("rank").is_between(ranks.min(), ranks.max()))
    return (
        timeline.calls.filter(pl.lit(n) == naming.NUMBER, *mine).sort("rank").collect()
    )


def _in_group(about: dict[str, Any]) -> list[pl.Expr]:
    pairs = zip(naming.KEY, naming.keyed(), strict=False)
    return [expr == about[name] for name, expr in pairs]


def _fields(call: dict[str, Any], about: dict[str, Any]) -> list[Line]:
    """Return the details of a call: labels and values."""
    group = about["pg"] + (f" ({about['pg_desc']})" if about["pg_desc"] else "")
    times = [
        f"{word} {rfc3339(_ns(call[c]))}"
        for word, c in (
            ("made", "t"),
            ("started", "t_started"),
            ("done", "t_completed"),
        )
        if call[c] is not None
    ]
    timeout = call["timeout_ms"]
    fields = {
        "op": f"{call['op']}, {call['state']}",
        "group": group,
        "in": f"{_sizes(call['in_sizes'])} {', '.join(call['in_dtypes'] or ())}",
        "out": f"{_sizes(call['out_sizes'])} {', '.join(call['out_dtypes'] or ())}",
        "times": ", ".join(times),
        "timeout": lasted(timeout / 1000) if timeout else "",
        "at": f"{call['source']}:{call['line']}",
    }
    return [
        (TEXT, "  " + clean(f"{label:8}{value}", LIMIT))
        for label, value in fields.items()
        if value.strip()
    ]


def _ns(t: Any) -> int:
    return int(pl.Series([t]).dt.epoch("ns").item())


def _sizes(sizes: list[list[int]] | None) -> str:
    shown = [f"[{', '.join(map(str, shape))}]" for shape in (sizes or ())[:4]]
    return " ".join(shown) + (" …" if len(sizes or ()) > 4 else "")


def _stack(timeline: Timeline, stack: int | None) -> list[Line]:
    """Return a stack, the user's own frame first."""
    frames = frames_of(timeline.frames["stacks"], stack)
    if not frames:
        return []
    return [(LABEL, "stack, your frame first"), *((TEXT, f"  {f}") for f in frames)]


def _side_by_side(timeline: Timeline, calls: pl.DataFrame, gid: int) -> list[Line]:
    """Fold the ranks that made the same call; name the members that did not make it."""
    signature = ["op", "in_sizes", "out_sizes", "in_dtypes", "state", "stack"]
    alike = calls.group_by(signature, maintain_order=True).agg(
        "rank", pl.col("t").min().alias("first"), pl.col("t").max().alias("last")
    )
    found: list[Line] = [(LABEL, "the same call on all ranks")] if calls.height else []
    for row in alike.iter_rows(named=True):
        dtypes = ", ".join(row["in_dtypes"] or ())
        site = user_frame(timeline.frames["stacks"], row["stack"])
        when = ""
        if row["first"] is not None:
            spread = (_ns(row["last"]) - _ns(row["first"])) / 1e9
            when = f" at {row['first']:%H:%M:%S}"
            when += f", {spread:.3f} s apart" if len(row["rank"]) > 1 else ""
        said = f"{row['op']} {_sizes(row['in_sizes'])} {dtypes} {row['state']}{when}"
        who = some(fold_ranks(row["rank"]), 30)
        found.append(
            (TEXT, "  " + clean(f"{who}: {said}{site and f' in {site}'}", LIMIT))
        )
    members = timeline.groups.filter(pl.col("gid") == gid)["rank"]
    absent = members.filter(~members.is_in(calls["rank"].implode())).sort()
    if absent.len() and calls.height:
        who = some(fold_ranks(absent), 40)
        found.append((TEXT, f"  {who}: no such call in their evidence"))
    return found


def _outcome(who: dict[str, Any]) -> list[Line]:
    """Return the last step and the last line of a rank, as far as logs tell."""
    step = "" if who["step"] is None else f"last step {who['step']}"
    when = "" if who["last"] is None else f"last known line {rfc3339(_ns(who['last']))}"
    told = ", ".join(part for part in (step, when) if part)
    return [(TEXT, told)] if told else []


def _logged(timeline: Timeline, rank: int, col: int) -> list[Line]:
    """Return the log lines of one rank in one column."""
    first = timeline.columns.table.height
    name = timeline.columns.messages[col - first]
    rows = timeline.marks.filter(pl.col("rank") == rank, pl.col("col") == col)
    lines = count(rows.height, "line") if rows.height else "no line"
    found: list[Line] = [(TEXT, f"{name}: {lines} of this rank")]
    for row in rows.head(MOST_LINES).iter_rows(named=True):
        where = f"{row['source']}:{row['line']}"
        found.append((TEXT, clean(f"{where} {row['text']}", LIMIT)))
    return found


def _exits(timeline: Timeline, rank: int) -> list[Line]:
    rows = timeline.exits.filter(pl.col("rank") == rank)
    # a line may be read as an exit twice, with its time and without
    rows = rows.sort("t", nulls_last=True, maintain_order=True)
    rows = rows.unique(["code", "source", "line"], keep="first", maintain_order=True)
    found: list[Line] = [(TEXT, NO_EXIT)] if rows.is_empty() else []
    for row in rows.iter_rows(named=True):
        when = f" at {rfc3339(_ns(row['t']))}" if row["t"] is not None else ""
        said = f"{ended(row['code'])}{when}, says {row['reported_by']}"
        found.append((TEXT, clean(said, LIMIT)))
        where = f"{row['source']}:{row['line']} {row['reason'] or ''}"
        found.append((DIM, clean(where, LIMIT)))
    return found
