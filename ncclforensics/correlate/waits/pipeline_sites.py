"""Messages along a pipeline, from the places in the code where its ranks stand.

A stack or a traceback shows a message, but not with whom. The function around it tells
the direction: `recv_forward` waits for the stage before, `recv_backward` for the next.
The stages of one pipeline are ranks at equal distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.traces import groupless_timeouts
from ncclforensics.correlate.waits.line_calls import Heard, row

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGES = 3  # at equal distances, which a single pair always is


def calls(heard: Heard, groups: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a row of `calls` for each message that a stage waits for.

    The stage at its other end is `absent` where it is known to stand elsewhere, also in
    another message. Of a message that both stages are in, neither waits for the other.
    """
    if heard.sites.is_empty():
        return
    at = heard.sites.filter("waits").drop_nulls("toward").unique("rank").sort("rank")
    at = at.filter(~pl.col("rank").is_in(heard.numbers["rank"].implode()))
    if not (apart := _distance(heard, at, groups)):
        return
    passing = dict(at.select("rank", pl.col("toward") * apart).iter_rows())
    halves = dict(at.select("rank", "op").iter_rows())
    for rank, distance in passing.items():
        peer = rank + distance
        met = passing.get(peer) == -distance and _is_send(halves[rank]) != _is_send(
            halves[peer]
        )
        if met or peer not in heard.roll.known:
            continue
        place = at.filter(pl.col("rank") == rank)
        yield row(
            heard,
            place,
            {rank},
            {peer} & {*heard.all_sites["rank"]},
            {
                "group": f"{groupless_timeouts.PREFIX}stage|{rank}|{peer}",
                "op": halves[rank],
                "is_p2p": True,
                "members": sorted((rank, peer)),
                "stack": place["stack"][0],
            },
        )


def _distance(heard: Heard, at: pl.DataFrame, groups: pl.DataFrame) -> int:
    """Return the distance between stages; 0 if the ranks `at` messages do not tell.

    The code may say that a message is with the next rank. Else, if all ranks pass
    messages, they are one pipeline only where no group is smaller: several ranks may
    hold one stage.
    """
    if at.height > 1 and at["beside"].fill_null(False).all():
        return 1
    apart = at["rank"].diff().drop_nulls().unique()
    if at.height < STAGES or apart.len() != 1:
        return 0
    smaller = (groups["members"].list.len() < len(heard.roll.known)).any()
    if at.height == len(heard.roll.known) and (smaller or groups.is_empty()):
        return 0
    return int(apart[0])


def _is_send(op: str) -> bool:
    return "send" in op
