"""Joins what the parsers read: who is who, when, how far, and who waits for whom."""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate import (
    attempts,
    calls,
    clock,
    coll_logs,
    identity,
    positions,
    standings,
    waits,
)
from ncclforensics.tables import Frames


def correlate(frames: Frames) -> Frames:
    """Add `standings`, `calls` and `roots`; resolve `ranks`; fill in who and when."""
    known = identity.identify(attempts.labelled(frames))
    known = clock.with_year(attempts.last(known))
    known = coll_logs.with_calls(known)
    told = positions.named(known["positions"])
    names = standings.name_groups(known["groups"], known["collectives"], told)
    made = standings.grouped(known["collectives"], names)
    told = standings.grouped(told, names)
    unfinished = standings.unfinished(made, told)
    standing = standings.standings(made, unfinished, told)
    held = calls.held_up(unfinished, standing)
    stuck = calls.calls(held, unfinished, standing, ranks_with_calls(known))
    return Frames(
        {
            **known.tables,
            "standings": standing,
            "calls": stuck,
            "roots": waits.roots(stuck),
        },
        known.messages,
    )


def ranks_with_calls(frames: Frames) -> pl.Series:
    """Return the ranks of which there is evidence that would show the calls they made.

    That is a dump, even one without entries, or a position in a group.
    """
    dumps = frames["sources"].filter(
        pl.col("kind").str.starts_with("flight_recorder") & (pl.col("bytes") > 0)
    )
    told = [dumps["rank"], frames["positions"]["rank"], frames["collectives"]["rank"]]
    return pl.concat(told).drop_nulls().unique().sort()
