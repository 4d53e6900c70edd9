"""Joins what the parsers read: who is who, when, how far, and who waits for whom."""

from __future__ import annotations

import polars as pl

from ncclforensics import tables
from ncclforensics.correlate import (
    at_once,
    attempts,
    batches,
    call_sites,
    calls,
    clock,
    coll_logs,
    held,
    identity,
    jobs,
    line_meetings,
    looks,
    messages,
    outline,
    positions,
    rest,
    seats,
    stale,
    standings,
    waits,
    world,
)
from ncclforensics.frames import Frames


def correlate(
    frames: Frames, job: str | None = None, attempt: int | None = None
) -> Frames:
    """Add `standings`, `calls` and `roots`; resolve `ranks`; fill in who and when.

    Of several jobs and attempts those to explain are kept, or the ones asked for.
    """
    if attempt is not None:
        frames = jobs.without_dumps(frames)
    if "outline" not in frames.tables:
        frames = outline.outlined(frames)
    known = identity.identify(attempts.labelled(jobs.last(frames, job)))
    known = stale.noted(clock.with_year(attempts.last(known, attempt)))
    known = coll_logs.with_calls(looks.last(known))
    known = batches.with_ends(known)
    collectives = outline.outline(known)
    given_up = rest.given_up(collectives)
    failed = pl.concat([rest.failed(known), given_up]).unique().sort()
    made = standings.summary(collectives, failed)
    told = positions.named(known["positions"], known["groups"], made)
    nameless = known["positions"].filter(pl.col("rank").is_null())
    positions_ = pl.concat([told, nameless])
    names, members = standings.name_groups(known["groups"], made, told)
    made = standings.grouped(made, names)
    told = standings.grouped(told, names)
    members = seats.seated(known, names, world.of_default(known, members))
    unfinished = standings.unfinished(collectives, names, told, failed)
    standing = standings.standings(made, unfinished, told)
    first = held.held_up(unfinished, made, standing, members)
    seen = rest.evidence(known, made, standing)
    talk = messages.messages(collectives, names, members)
    apart = standings.told_apart(known.scan("collectives"), names)
    stuck = at_once.settled(calls.calls(first, standing, talk, seen, members), first)
    stuck = messages.posted(stuck, apart)
    now = {**known.tables, "positions": positions_}
    heard = Frames(now, known.messages)
    stuck = line_meetings.joined(stuck, line_meetings.meetings(heard, stuck, standing))
    found = waits.roots(stuck, rest.mute(collectives))
    found = pl.concat([found, rest.idle(stuck, unfinished, standing, seen)])
    stacks = pl.concat([known["stacks"], call_sites.stacks(heard)])
    return Frames(
        {
            **known.tables,
            "stacks": stacks,
            "group_names": tables.conform("group_names", names),
            "positions": positions_,
            "standings": standing,
            "held": tables.conform("held", first.select(tables.SCHEMAS["held"].keys())),
            "calls": stuck,
            "roots": found,
        },
        known.messages,
    )
