"""Correlates parsed evidence: identities, clocks, progress and the wait-for graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive, clean_exits
from ncclforensics.correlate.identity import group_members, ranks, world
from ncclforensics.correlate.runs import (
    accounting,
    clock,
    jobs,
    restarts,
    survived,
    time_of_day,
)
from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.timing import old_dumps, two_looks
from ncclforensics.correlate.traces import (
    call_sites,
    call_summary,
    coll_logs,
    p2p_batches,
    p2p_messages,
    pending_calls,
    positions,
    progress,
)
from ncclforensics.correlate.waits import (
    blocking_calls,
    concurrent_timeouts,
    line_meetings,
    line_messages,
    rank_evidence,
    roll_call,
    wait_graph,
)
from ncclforensics.model import tables

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


def correlate(
    frames: Frames, job: str | None = None, attempt: int | None = None
) -> Frames:
    """Return `frames` with `standings`, `calls` and `roots` added and `ranks` resolved.

    Also adds `group_names` and `held`, and fills in rank, host and time on all rows. If
    the evidence holds several jobs or attempts, keeps `job` and `attempt`, or by
    default the ones to explain (see `jobs.last` and `restarts.last`).
    """
    if attempt is not None:
        frames = jobs.without_dumps(frames)
    if "outline" not in frames.tables:
        frames = call_summary.outlined(frames)
    ours = accounting.of_this_job(jobs.last(frames, job))
    known = regular_forms.told(ranks.identify(restarts.labelled(ours)))
    timed = clock.with_year(time_of_day.dated(restarts.last(known, attempt)))
    known = survived.without(timed)
    known = old_dumps.noted(alive.without_strangers(known))
    known = coll_logs.with_calls(two_looks.last(known))
    known = p2p_batches.with_ends(known)
    collectives = call_summary.outline(known)
    failed = rank_evidence.failed_last(known, collectives)
    made = progress.summary(collectives, failed)
    told = positions.named(known["positions"], known["groups"], made)
    nameless = known["positions"].filter(pl.col("rank").is_null())
    positions_ = pl.concat([told, nameless])
    messages = positions.messages(known["positions"])
    numbered = pl.concat([told, messages])
    names, members = progress.name_groups(known["groups"], made, numbered)
    made = progress.grouped(made, names)
    told = progress.grouped(told, names)
    messages = progress.grouped(messages, names)
    seats = pl.concat([told, messages])
    members = group_members.seated(known, seats, world.of_default(known, members))
    torn = call_summary.dumps(known).filter("cut")["rank"].drop_nulls()
    unfinished = progress.unfinished(collectives, names, told, failed, torn)
    if left := clean_exits.in_peace(known) | call_sites.in_unrecorded(known):
        unfinished = unfinished.filter(~pl.col("rank").is_in(list(left)))
    standing = progress.standings(made, unfinished, told)
    first = pending_calls.held_up(unfinished, made, standing, members)
    seen = rank_evidence.evidence(known, made, standing, told)
    talk = p2p_messages.messages(collectives, names, members)
    apart = progress.told_apart(known.scan("collectives"), names)
    stuck = blocking_calls.calls(first, standing, talk, seen, members)
    heard = known.adding(positions=positions_)
    stuck = p2p_messages.posted(stuck, apart)
    stuck = line_messages.added(
        stuck, messages, members, standing, roll_call.call(heard)
    )
    stuck = concurrent_timeouts.settled(stuck, first, messages)
    stuck = line_meetings.joined(stuck, line_meetings.meetings(heard, stuck, standing))
    found = wait_graph.roots(stuck, rank_evidence.mute(collectives))
    found = pl.concat([found, rank_evidence.idle(stuck, unfinished, standing, seen)])
    stacks = pl.concat([known["stacks"], call_sites.stacks(heard)])
    return heard.adding(
        stacks=stacks,
        group_names=tables.conform("group_names", names),
        standings=standing,
        held=tables.conform("held", first.select(tables.SCHEMAS["held"].keys())),
        calls=stuck,
        roots=found,
    )
