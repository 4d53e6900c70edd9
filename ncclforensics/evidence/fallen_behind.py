"""Suspects where only counts or places are known: who is behind, or is waited for.

Watchdog lines and what people keep of them tell how many calls a rank enqueued, without
who waits for whom. Peers that came further may have gone on for a while: nobody is
accused by it. Nor is the first rank of a group for which others waited, as long as it
is not known which group that is: in that of all ranks it is rank 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.waits import monitored_barriers, nccl_ids
from ncclforensics.evidence import common
from ncclforensics.model.findings import MOST_SUSPECTS, Cite, Suspect
from ncclforensics.model.folding import count
from ncclforensics.model.tables import CITE, with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

GROUP = ["pg", "pg_id", "pg_desc"]
TWO = "condensed.numbers"  # two ranks and their counts, in one line
FOR_FIRST = (nccl_ids.MISSING, monitored_barriers.REACHED)
PLACE = {"group_rank": pl.Int64(), "error": pl.String()}
OF_ANOTHER = r"/default_pg/[1-9]"  # a key of a group that is not of all ranks
WHY = {
    nccl_ids.MISSING: "{} of its group waited for the NCCL id that the first one "
    "publishes; that is rank 0 if it is the group of all ranks",
    monitored_barriers.REACHED: "{} waited for its word in a monitored barrier; its "
    "own output names the ranks that did not come",
}
PAIR = {"other": pl.Int64(), "last_enqueued": pl.Int64(), "other_enqueued": pl.Int64()}


def suspects(frames: Frames) -> tuple[Suspect, ...]:
    """Return at most eight ranks that made the fewest calls of their group, by rank.

    Nobody where these are most of the group: then the others may be those that strayed.
    Each has an equal share of blame, and the cause that is not in this evidence has one
    too. If no rank is behind, the first rank of a group that others waited for.
    """
    return _behind(frames) or _first_of_group(frames)


def _behind(frames: Frames) -> tuple[Suspect, ...]:
    made = pl.col("made")
    found = (
        _made(frames)
        .with_columns(
            made.max().over(GROUP).alias("most"),
            made.min().over(GROUP).alias("least"),
        )
        .with_columns((made > pl.col("least")).sum().over(GROUP).alias("ahead"))
        .filter((made == pl.col("least")) & (made < pl.col("most")))
        .filter(pl.len().over(GROUP) <= pl.col("ahead"))
        .unique("rank", keep="first", maintain_order=True)
        .sort("rank")
    )
    weight = round(1 / (found.height + 1), 3)
    return tuple(
        Suspect(
            row["rank"],
            common.host_of(frames, row["rank"]),
            weight,
            f"its last call is SeqNum={row['made']}, and {count(row['ahead'], 'rank')} "
            f"came further, up to SeqNum={row['most']}",
            (Cite(row["source"], row["line"], row["text"] or ""),),
        )
        for row in found.head(MOST_SUSPECTS).to_dicts()
    )


def _first_of_group(frames: Frames) -> tuple[Suspect, ...]:
    """Return rank 0 if others waited for the first rank of what may be all ranks."""
    lines = with_nulls(frames.message(*FOR_FIRST), PLACE)
    mine = pl.coalesce("rank", "group_rank")
    elsewhere = pl.col("error").str.contains(OF_ANOTHER).fill_null(value=False)
    lost = ~nccl_ids.waits(lines)
    waits = lines.filter((pl.col("group_rank") > 0) & ~elsewhere & ~lost)
    if waits.is_empty() or waits.select((mine != pl.col("group_rank")).any()).item():
        return ()
    if frames.tells([monitored_barriers.FAILED]) or 0 in lines["group_rank"]:
        return ()
    first = waits.row(0, named=True)
    why = WHY[first["message"]].format(
        common.ranks(common.numbers(waits["group_rank"]))
    )
    cite = Cite(first["source"], first["line"], first["text"] or "")
    return (Suspect(0, common.host_of(frames, 0), 0.5, why, (cite,)),)


def _made(frames: Frames) -> pl.DataFrame:
    """Return how many calls each rank made in each group, as far as its lines tell.

    Columns `rank made text`, those of GROUP and CITE; a row per rank and group.
    """
    lines = frames["events"].select(*CITE, "text").unique([*CITE])
    at = [*CITE]
    counts = frames["positions"].select("rank", *GROUP, *CITE, made="last_enqueued")
    pairs = with_nulls(frames.message(TWO), PAIR)
    sides = (("rank", "last_enqueued"), ("other", "other_enqueued"))
    retold = [
        pairs.select(pl.col(who).alias("rank"), *CITE, made=made) for who, made in sides
    ]
    told = pl.concat([counts, *retold], how="diagonal_relaxed")
    return (
        told.drop_nulls(["rank", "made"])
        .sort("made", *CITE, descending=[True, False, False])
        .unique(["rank", *GROUP], keep="first", maintain_order=True)
        .join(lines, on=at, how="left", maintain_order="left")
    )
