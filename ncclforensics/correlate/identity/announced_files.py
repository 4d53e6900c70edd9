"""Files of one rank each, by the number that each announces: `rank 2/6 ready`.

One rank that prints its number into a file that others share proves nothing. But where
files beside each other announce one rank each, and next ones among them, no file holds
several: of a node's ranks the next one would be in the same file. The same holds of
the pods whose lines one file has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity.stated import stated

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

RECORD = "uncaught.record"  # a line of a program whose record tells its rank


def owners(frames: Frames, key: list[str]) -> pl.DataFrame:
    """Return `key` and `rank` of what announces one rank each; else no rows.

    `key` names columns of events: a file, or a pod in it.
    """
    said = stated(frames).select(*key, rank="told")
    told = pl.concat([said, frames.message(RECORD).select(*key, "rank")])
    if told.is_empty():
        return told
    told = told.drop_nulls().unique()
    nexts = told["rank"].sort().diff().drop_nulls()
    alone = told.select(key).is_unique().all() and told["rank"].is_unique().all()
    is_each = bool(alone) and nexts.len() > 0 and nexts.min() == 1
    return told.sort(key) if is_each else told.clear()
