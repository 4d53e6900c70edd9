"""The calls that log lines show: who waits there, who is absent, and where.

Dumps and positions with a group are better evidence, so ranks that `calls` places are
left out. The others are placed by a watchdog's number, or by the place in the code
where they stood; if neither is known, by the fact that they waited at all. The rank
that they wait for is silent. If all ranks report, ranks in two calls wait for each
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.identity import group_members
from ncclforensics.correlate.traces import call_sites, code_places, groupless_timeouts
from ncclforensics.correlate.traces.progress import UNLISTED
from ncclforensics.correlate.waits import line_calls, pipeline_sites, roll_call
from ncclforensics.correlate.waits.line_calls import Heard
from ncclforensics.model import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.correlate.waits.roll_call import Roll
    from ncclforensics.model.frames import Frames

LISTS = ("waiting", "behind", "done", "absent", "unstarted")


def meetings(
    frames: Frames, calls: pl.DataFrame, standings: pl.DataFrame
) -> pl.DataFrame:
    """Return rows of the frame `calls` for what lines show beyond `calls`.

    Their numbering continues from its last `call`. A row with the `group` and `seq` of
    one of `calls` says more of the same call and replaces it, and rows of `calls`
    without `members` give way to these; see `joined`.
    """
    told = roll_call.call(frames)
    placed = _placed(calls, standings)
    numbers = groupless_timeouts.timeouts(frames)
    seen = call_sites.sites(frames)
    first = _heard(frames, told, seen, numbers, placed)
    dumped = standings.filter(pl.col("place").is_not_null())["rank"]
    found = [
        *_refined(calls, first),
        *_unlisted(frames, calls, first),
        *_parted(frames, calls, first, {*dumped}),
    ]
    placed |= {rank for row in found for rank in (*row["waiting"], *row["absent"])}
    heard = _heard(frames, told, seen, numbers, placed) if found else first
    found += pipeline_sites.calls(heard, frames["groups"])
    if stages := {rank for row in found for rank in row["waiting"]} - placed:
        placed |= stages
        heard = _heard(frames, told, seen, numbers, placed)
    found += line_calls.by_number(heard)
    at_sites = list(line_calls.by_site(heard))
    found += at_sites or line_calls.by_silence(heard)
    again = {(row["group"], row.get("seq")) for row in found}
    known = [r for r in calls.to_dicts() if (r["group"], r["seq"]) not in again]
    found += _held_elsewhere([*known, *found], seen, {*dumped})
    after = 1 + int(str(calls["call"].max() if calls.height else -1))
    return tables.rows(
        "calls", ({**row, "call": after + i} for i, row in enumerate(found))
    )


def _heard(
    frames: Frames,
    told: Roll,
    sites: pl.DataFrame,
    numbers: pl.DataFrame,
    placed: frozenset[int],
) -> Heard:
    mine = ~pl.col("rank").is_in(list(placed))
    at = sites.filter(mine)
    sends = at["op"].str.contains(code_places.MESSAGES).any()
    is_parted = bool(sends) or frames["groups"]["members"].n_unique() > 1
    # in a group of all ranks the group rank is the global rank
    is_parted |= bool((numbers["group_rank"] != numbers["rank"]).any())
    return Heard(told, sites, at, numbers.filter(mine), placed, is_parted)


def joined(calls: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Return `calls` and the rows of `meetings`: one row per call, the fuller one.

    A call known only by numbers, without members, is in `told` with its members. Each
    row's `call` is its position again, so `roots` have to be found afterwards.
    """
    if told.is_empty():
        return calls
    bare = pl.col("members").list.len().fill_null(0) == 0
    again = told.select("group", "seq").unique()
    kept = calls.filter(~bare).join(
        again, on=["group", "seq"], how="anti", maintain_order="left"
    )
    covered = told["waiting"].explode().drop_nulls().unique()
    alone = calls.filter(bare).filter(
        pl.col("waiting").list.set_difference(covered.implode()).list.len() > 0
    )
    both = pl.concat([kept, alone, told]).sort("call")
    return both.with_columns(pl.int_range(pl.len()).cast(pl.Int64).alias("call"))


def _placed(calls: pl.DataFrame, standings: pl.DataFrame) -> frozenset[int]:
    """Return the ranks that calls with members place, and those in a named group."""
    if calls.is_empty() and standings.is_empty():
        return frozenset()
    whole = calls.filter(pl.col("members").list.len().fill_null(0) > 0)
    lists = [whole[c].explode() for c in LISTS]
    told = (pl.col("pg").fill_null("") != "") & pl.col("waits_in").is_not_null()
    named = told | pl.col("place").is_not_null()
    lists.append(standings.filter(named)["rank"])
    return frozenset(pl.concat(lists).drop_nulls().to_list())


def _refined(calls: pl.DataFrame, heard: Heard) -> Iterator[dict[str, Any]]:
    """Yield calls with `unseen` members that their own lines place.

    A rank whose line names no group is in any group whose number it gave up. A rank
    whose peers waited at the same place in the code waited with them. A rank that
    exited normally did not come. Nor did a silent one, unless another member is known
    to be absent: then the wait is explained, and silence has other reasons.
    """
    if calls.is_empty():
        return
    collective = ~pl.col("is_p2p").fill_null(False)
    for row in calls.filter(collective).to_dicts():
        unseen = {*(row["unseen"] or ())}
        here = heard.numbers.filter(
            (pl.col("timed_out") == row["seq"]) & pl.col("rank").is_in(list(unseen))
        )
        same = here.filter(pl.col("op").str.to_lowercase() == _plain(row["op"]))
        came = {*same["rank"]} | (_beside(heard, row["waiting"]) & unseen)
        gone = unseen & (heard.roll.ended if row["absent"] else heard.roll.gone)
        if {*row["waiting"]} <= heard.roll.waited and (came or gone):
            yield {
                **row,
                "waiting": sorted({*row["waiting"], *came}),
                "absent": sorted({*row["absent"], *gone}),
                "unseen": sorted(unseen - came - gone),
            }


def _unlisted(
    frames: Frames, calls: pl.DataFrame, heard: Heard
) -> Iterator[dict[str, Any]]:
    """Yield calls of groups that nothing lists, with the silent ranks as absent.

    All ranks in such a call gave up on it, and nobody is known to be absent: the ones
    that it waits for are members that nothing names. A rank has a place among them only
    where the numbers of the others in their group leave one. Of several such calls, it
    is not known which has the silent ranks: one of them does, and holds the others.
    """
    silent = heard.roll.silent - heard.placed
    if not silent or calls.is_empty():
        return
    full = calls.filter(
        ~pl.col("is_p2p").fill_null(False)
        & pl.col("group").str.ends_with(UNLISTED)
        & pl.any_horizontal(pl.col("pg", "pg_desc").is_not_null())
        & pl.all_horizontal(
            pl.col(c).list.len() == 0 for c in ("behind", "done", "absent", "unseen")
        )
    )
    for row in full.to_dicts():
        seats = _seats(frames, row)
        absent = [r for r in sorted(silent) if group_members.has_room(seats, r)]
        if absent and {*row["waiting"]} <= heard.roll.waited:
            yield {**row, "absent": absent}


def _held_elsewhere(
    calls: list[dict[str, Any]], sites: pl.DataFrame, dumped: set[int]
) -> Iterator[dict[str, Any]]:
    """Yield the calls in which stacks and tracebacks show ranks that others wait for.

    Of an operation of another kind: a rank that is in one of the same may have joined
    the others. Ranks with dumps are left to their dumps, where those record the call.
    """
    if sites.is_empty():
        return
    shown = pl.col("was_looked_at") & ~pl.col("rank").is_in(list(dumped))
    shown |= pl.col("op") == code_places.UNRECORDED
    looked = sites.filter(pl.col("waits") & shown).drop_nulls("op")
    held = looked.with_columns(code_places.kind(pl.col("op")).alias("kind"))
    placed = {rank for row in calls for rank in row["waiting"]}
    held = held.filter(~pl.col("rank").is_in(list(placed)))
    told = (row for row in calls if row["op"] and not row["is_p2p"])
    for row in told if held.height else ():
        kind = pl.select(code_places.kind(pl.lit(row["op"]))).item()
        mine = held.filter(pl.col("rank").is_in(row["absent"]))
        mine = mine.filter(pl.col("kind") != kind)
        for at in mine.sort("rank").partition_by("stack", maintain_order=True):
            first = at.row(0, named=True)
            yield {
                "group": f"{groupless_timeouts.PREFIX}site|{first['stack']}{UNLISTED}",
                "op": first["op"],
                "is_p2p": code_places.is_message(first["op"]),
                **{name: [] for name in LISTS},
                "waiting": at["rank"].to_list(),
                "absent": row["waiting"],
                "unseen": [],
                "members": sorted({*at["rank"], *row["waiting"]}),
                **{c: first[c] for c in ("stack", "t", "source", "line")},
            }


def _seats(frames: Frames, call: dict[str, Any]) -> dict[int, int]:
    """Return group rank -> rank of the members of a call that lines tell."""
    here = [pl.col(c).eq_missing(pl.lit(call[c])) for c in ("pg", "pg_desc")]
    waits = pl.col("rank").is_in(call["waiting"])
    told = frames["positions"].filter(*here, waits).drop_nulls("group_rank")
    return dict(told.select("group_rank", "rank").iter_rows())


def _parted(
    frames: Frames, calls: pl.DataFrame, heard: Heard, dumped: set[int]
) -> Iterator[dict[str, Any]]:
    """Split a call to which all came, if they came to it at different places.

    A counter gives two calls one number if one rank makes a call that the others do
    not: then each side waits for the other. Ranks with dumps are left to their dumps,
    and ranks whose lines name different operations meet in one call and differ there.
    """
    if calls.is_empty():
        return
    told = frames["positions"].drop_nulls(["timed_out", "op"])
    full = calls.filter(
        ~pl.col("is_p2p").fill_null(False)
        & (pl.col("waiting").list.len() >= line_calls.LEAST)
        & pl.all_horizontal(
            pl.col(c).list.len() == 0 for c in ("behind", "done", "absent", "unseen")
        )
    )
    for row in full.to_dicts():
        waiting = {*row["waiting"]}
        at = _sites_in(frames, heard, row["seq"], waiting)
        if dumped & waiting or {*at["rank"]} != waiting or at["stack"].n_unique() < 2:
            continue
        gave_up = told.filter(pl.col("timed_out") == row["seq"])
        if gave_up.filter(pl.col("rank").is_in(waiting))["op"].n_unique() > 1:
            continue
        for place in at.sort("rank").partition_by("stack", maintain_order=True):
            here = {*place["rank"]}
            stack = place["stack"][0]
            yield {
                **row,
                "group": row["group"] if 0 in here else f"{row['group']}|{stack}",
                "waiting": sorted(here),
                "absent": sorted(waiting - here),
                "stack": stack,
            }


def _sites_in(
    frames: Frames, heard: Heard, seq: int | None, ranks: set[int]
) -> pl.DataFrame:
    """Return where `ranks` stood in one of the calls that they timed out in."""
    theirs = pl.col("rank").is_in(list(ranks))
    of_calls = call_sites.of_calls(frames).filter(theirs)
    here = of_calls.filter(pl.col("seq") == seq).unique("rank", keep="first")
    others = heard.all_sites.filter(pl.col("waits") & theirs)
    others = others.filter(~pl.col("rank").is_in(of_calls["rank"].implode()))
    return pl.concat([here.drop("seq"), others])


def _beside(heard: Heard, waiting: list[int]) -> set[int]:
    """Return the ranks that timed out at the one place where `waiting` ranks stood.

    Where a process waits for its GPU does not show which call that GPU is in.
    """
    if heard.all_sites.is_empty():
        return set()
    on_gpu = pl.col("was_looked_at") & pl.col("op").is_null()
    raised = heard.all_sites.filter(pl.col("waits") & ~on_gpu)
    places = raised.filter(pl.col("rank").is_in(waiting))["stack"].unique()
    here = raised.filter(pl.col("stack").is_in(places.implode()))
    return {*here["rank"]} & heard.roll.timed_out if len(places) == 1 else set()


def _plain(op: str | None) -> str:
    return (op or "").lower()
