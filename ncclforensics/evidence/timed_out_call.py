"""The call in which the others waited for a rank that was gone, if it is unique."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.findings import Collective

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

GROUP = ["pg", "pg_desc"]


def waited_in(frames: Frames) -> Collective | None:
    """Return the one call that timed out, or None if there are several or none.

    A watchdog's line may omit its group; it is then the job's only one, if it has one.
    """
    timed_out = frames["positions"].drop_nulls("timed_out")
    calls = timed_out.select(*GROUP, "timed_out", "op").unique()
    named = calls.drop_nulls("pg")
    calls = named if named.height else calls
    if calls["timed_out"].n_unique() != 1 or calls["pg"].n_unique() != 1:
        return None
    row = calls.sort("op", nulls_last=True).row(0, named=True)
    if row["pg"] is None:
        known = pl.concat(
            frames.scan(name).select(GROUP).unique().collect()
            for name in ("events", "collectives")
        )
        only = known.drop_nulls("pg").unique()
        if only["pg"].n_unique() == 1:
            row |= only.sort("pg_desc", nulls_last=True).row(0, named=True)
    return Collective(row["pg"], row["pg_desc"], row["timed_out"], row["op"])
