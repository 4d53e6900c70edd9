"""What the store knows of one failure: on this node before, and the same one before.

These are the lines that `analyze` and tickets add. They are about other incidents than
the one that is told: it may be in the store already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.history import columns
from ncclforensics.history.counts import naming
from ncclforensics.history.limits import MOST_HOSTS, WINDOW_DAYS
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncclforensics.history.record import Record
    from ncclforensics.history.store import Store

ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)
CAPITALS = frozenset(("gpu", "ib", "oom", "mtu", "nccl", "nic", "gil", "p2p", "shm"))
DAY_NS = 86_400 * 10**9


def lines(
    store: Store, told: Record, aliases: Callable[[str], tuple[str, ...]]
) -> tuple[str, ...]:
    """Return what is known of a failure, in at most three sentences without full stop.

    `aliases` gives all names under which the store may know a host.
    """
    if told.slug is None:
        return ()
    on_node = _on_node(store, told, told.slug, aliases)
    return (*on_node, *_the_same(store, told))


def _on_node(
    store: Store,
    told: Record,
    slug: str,
    aliases: Callable[[str], tuple[str, ...]],
) -> tuple[str, ...]:
    """Return "third GPU fault of gpu0078 in 30 days", if there was one before."""
    if not 0 < len(told.hosts) <= MOST_HOSTS or told.domain in (
        "user-code",
        "scheduler",
    ):
        return ()
    end = told.t or told.kept
    names = {alias: host for host in told.hosts for alias in aliases(host)}
    seen = _others(
        store,
        told,
        (pl.col("class") == slug)
        & pl.col("t").is_between(_at(end - WINDOW_DAYS * DAY_NS), _at(end))
        & naming(names),
    )
    before = [names[h] for row in seen for h in {*row["hosts"]} if h in names]
    if not before:
        return ()
    host = max(told.hosts, key=before.count)
    return (
        f"{ordinal(before.count(host) + 1)} {words(slug)} of {host} "
        f"in {WINDOW_DAYS} days",
    )


def _the_same(store: Store, told: Record) -> tuple[str, ...]:
    """Return how often and where the same failure was seen, and an earlier ticket."""
    seen = _others(store, told, pl.col("same") == int(told.same, 16))
    if not seen:
        return ()
    first = seen[0]
    since = f" since {first['t']:%Y-%m-%d}" if first["t"] else ""
    where = [f"first in job {first['job']}"] if first["job"] else []
    if first["image"]:
        where.append(f"{'with' if where else 'first with'} {first['image']}")
    told_where = f", {' '.join(where)}" if where else ""
    line = f"the same failure {count(len(seen) + 1, 'time')}{since}{told_where}"
    tickets = [row["ticket"] for row in seen if row["ticket"]]
    return (line, *(f"earlier ticket: {ticket}" for ticket in tickets[-1:]))


def _others(store: Store, told: Record, where: pl.Expr) -> list[dict[str, Any]]:
    """Return other incidents for which a condition holds, the oldest first."""
    names = ("id", "evidence", "t", "hosts", "job", "image", "ticket")
    other = (pl.col("id") != int(told.id, 16)) & (
        pl.col("evidence") != int(told.evidence, 16)
    )
    rows = store.rows(*names, where=where & other & (pl.col("outcome") == "failure"))
    return rows.sort("t", nulls_last=True).to_dicts()


def _at(t: int) -> pl.Expr:
    return pl.lit(t).cast(columns.TIME)


def ordinal(number: int) -> str:
    """Return "third", or "11th" where the word would be long."""
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    last = 0 if 10 < number % 100 < 14 else number % 10
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(last, 'th')}"


def words(slug: str) -> str:
    """Return a class as words that stand before "of gpu0078": "GPU fault"."""
    if slug == "node-lost":
        return "loss"
    parts = slug.split("-")
    return " ".join(part.upper() if part in CAPITALS else part for part in parts)
