"""Joins what the parsers read: who is who, when, how far, and who waits for whom."""

from __future__ import annotations

import polars as pl

from ncclforensics import tables
from ncclforensics.correlate import (
    attempts,
    batches,
    calls,
    clock,
    coll_logs,
    halted,
    held,
    identity,
    jobs,
    lateness,
    looks,
    messages,
    outline,
    positions,
    rest,
    stale,
    standings,
    unreached,
    waits,
    written,
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
    unfinished = standings.unfinished(collectives, names, told, failed)
    standing = standings.standings(made, unfinished, told)
    first = held.held_up(unfinished, made, standing, members)
    seen = rest.evidence(known, made, standing)
    talk = messages.messages(collectives, names, members)
    apart = standings.told_apart(known.scan("collectives"), names)
    stuck = calls.calls(first, standing, talk, seen, members)
    stuck = messages.posted(stuck, apart)
    found = waits.roots(stuck, rest.mute(collectives))
    unproven = tables.empty("calls")
    stopped = tables.empty("stopped")
    is_told = rest.is_told(known)
    if not is_told:
        ages = written.ages(first, collectives, known["sources"])
        late = lateness.late(stuck, known.scan("collectives"), names)
        proofs = {
            "aborted": made.filter("aborted")["rank"],
            "given up": given_up,
            "overdue": lateness.overdue(first, made, collectives),
            "written": written.timed_out(ages),
            "late": late["rank"],
        }
        stopped = pl.concat(
            ranks.unique().sort().to_frame("rank").with_columns(why=pl.lit(why))
            for why, ranks in proofs.items()
        )
    if not is_told and stopped.is_empty():
        how = rest.judged(
            standings.with_names(stuck, names),
            found,
            standing,
            seen,
            apart,
            collectives,
            known["stacks"],
        )
        if how == "still" and written.are_early(ages):
            how = "doubtful"
        unproven = stuck if how == "doubtful" else unproven
        if how != "still":
            stuck, found = tables.empty("calls"), tables.empty("roots")
    beside = unreached.unreached(stuck, unfinished, members, standing, seen)
    if found.filter(pl.col("why") != "stuck").height and rest.is_spare(beside, seen):
        stuck = pl.concat([stuck, beside])
        found = waits.roots(stuck, rest.mute(collectives))
    outlined = standings.grouped(collectives, names)
    short, halting = halted.halted(stuck, found, outlined, apart, members)
    stuck, found = pl.concat([stuck, short]), pl.concat([found, halting])
    return Frames(
        {
            **known.tables,
            "group_names": tables.conform("group_names", names),
            "positions": positions_,
            "standings": standing,
            "calls": stuck,
            "unproven": unproven,
            "roots": found,
            "stopped": stopped,
        },
        known.messages,
    )
