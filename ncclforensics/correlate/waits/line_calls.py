"""Calls known from log lines only, as rows of the frame `calls`.

A call is known by a number without a group, by the place in the code where its ranks
stood, or by nothing but that they waited. It waits for the silent ranks; where nobody
is silent, those wait for each other that stand in two calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.traces import call_sites, groupless_timeouts
from ncclforensics.correlate.traces.progress import UNLISTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.correlate.waits.roll_call import Roll

SILENCE = f"{groupless_timeouts.PREFIX}silence{UNLISTED}"
MESSAGES = ("SEND", "RECV")  # as watchdogs call them
LEAST = 2  # one rank alone that waited may only have been the first to say so


@dataclass(frozen=True, slots=True)
class Heard:
    """What lines tell of the ranks that `calls` does not place.

    `all_sites` is `call_sites.sites`, `sites` those of these ranks, `numbers` what
    `groupless_timeouts` has of them; `placed` are the ranks that `calls` places.
    `is_parted` says that ranks may have reason to be in different calls.
    """

    roll: Roll
    all_sites: pl.DataFrame
    sites: pl.DataFrame
    numbers: pl.DataFrame
    placed: frozenset[int]
    is_parted: bool


def by_number(heard: Heard) -> Iterator[dict[str, Any]]:
    """Yield a call for each number that ranks gave up in a group without a name."""
    told = heard.numbers
    if len(heard.roll.waited) < LEAST and not heard.roll.ended:
        return
    count = told["group"].n_unique()
    for name, of_group in sorted(told.partition_by("group", as_dict=True).items()):
        everyone = {*of_group["rank"]}
        others = {*told["rank"]} - everyone if count > 1 else set()
        last = of_group["timed_out"].max()
        for seq in of_group["timed_out"].unique().sort():
            at = of_group.filter(pl.col("timed_out") == seq)
            waiting = {*at["rank"]}
            op = at["op"].drop_nulls().mode().sort().first()
            is_message = str(op) in MESSAGES
            early = of_group.filter(pl.col("timed_out") < seq)
            enqueued = pl.max_horizontal("last_enqueued", "timed_out")
            late = early.filter(
                (enqueued < seq) & pl.col("last_enqueued").is_not_null()
            )
            done = everyone - waiting - {*early["rank"]}
            # who has finished it has seen all members come
            wanted = _wanted(heard, others) if seq == last else set()
            wanted = set() if is_message else wanted
            absent = {*late["rank"]} | wanted
            yield _row(
                heard,
                at,
                waiting,
                absent,
                {
                    "group": name[0],
                    "seq": seq,
                    "op": op,
                    "is_p2p": is_message,
                    "done": sorted(done),
                    "behind": sorted({*early["rank"]} - absent),
                    "stack": _stack(heard, waiting),
                },
                is_last=seq == last,
            )


def by_site(heard: Heard) -> Iterator[dict[str, Any]]:
    """Yield a call for each place in the code, where ranks stood at several."""
    seen = heard.sites.filter(
        ~pl.col("rank").is_in(heard.numbers["rank"].implode())
        & (pl.col("was_looked_at") | pl.col("rank").is_in(list(heard.roll.waited)))
    )
    waits = seen.filter("waits")
    idle = {*seen.filter(~pl.col("waits"))["rank"]} - heard.roll.waited
    # what nobody saw but a traceback needs others' timeouts beside it
    counted = len(heard.roll.waited) >= LEAST and heard.roll.timed_out
    if waits.is_empty() or not (counted or waits["was_looked_at"].any()):
        return
    if waits["stack"].n_unique() == 1 and not idle and counted:
        return  # the one call that all waited in: told by its silence
    places = waits.sort("rank").partition_by("stack", maintain_order=True)
    for at in places:
        stack = at["stack"][0]
        waiting = {*at["rank"]}
        is_message = bool(at["op"].str.contains(call_sites.MESSAGES).any())
        others = {*waits["rank"]} - waiting
        wanted = _wanted(heard, set() if is_message else others)
        # one that was seen at work is the first of those that are waited for
        absent = idle or wanted
        printed = heard.roll.lines.filter(pl.col("rank").is_in(list(waiting)))
        yield _row(
            heard,
            printed if printed.height else at,
            waiting,
            absent,
            {
                "group": f"{groupless_timeouts.PREFIX}site|{stack}{UNLISTED}",
                "op": at["op"].drop_nulls().mode().sort().first(),
                "is_p2p": is_message,
                "stack": stack,
            },
        )


def by_silence(heard: Heard) -> Iterator[dict[str, Any]]:
    """Yield the one call that ranks waited in, of which only their wait is known."""
    told = heard.roll
    numbered = {*heard.numbers["rank"]}
    placed = heard.placed | numbered
    waiting = told.waited - placed
    at = heard.sites.filter(pl.col("waits") & pl.col("rank").is_in(list(waiting)))
    named = told.named and bool(waiting)
    if not (named or (len(told.waited) >= LEAST and told.timed_out)):
        return
    # all came who are known: they wait for nobody of whom lines could tell
    if not waiting or (placed and not told.silent) or _died(told):
        return
    lines = told.lines.filter(pl.col("rank").is_in(list(waiting)))
    called = at["op"].drop_nulls().mode().sort().first()
    yield _row(
        heard,
        lines,
        set(waiting),
        set(told.gone),
        {
            "group": SILENCE,
            "op": called or ("monitored_barrier" if told.named else None),
            "stack": _stack(heard, waiting),
        },
    )


def _died(told: Roll) -> bool:
    """Whether the only ones that did not wait failed or left: no silence is told."""
    return bool(told.apart - told.ended) and not told.silent


def _wanted(heard: Heard, others: Iterable[int]) -> set[int]:
    """Return whom a call waits for: who is silent or ended, or is in another call.

    Where several groups are known to be, or messages are sent, who stands in another
    call may belong to another group.
    """
    if heard.roll.gone:
        return set(heard.roll.gone)
    return set() if heard.is_parted or heard.roll.apart else set(others)


def _stack(heard: Heard, ranks: Iterable[int]) -> int | None:
    """Return the place where most of some ranks stood."""
    at = heard.sites.filter(pl.col("waits") & pl.col("rank").is_in(list(ranks)))
    return int(str(at["stack"].mode().sort()[0])) if at.height else None


def _row(
    heard: Heard,
    lines: pl.DataFrame,
    waiting: set[int],
    absent: set[int],
    told: dict[str, Any],
    *,
    is_last: bool = True,
) -> dict[str, Any]:
    """Return a row of `calls` that cites the first of `lines` of its first rank.

    `t` is the earliest of `lines`. Of a call that others have finished (not `is_last`)
    nobody is unseen: all its members came.
    """
    done, behind = told.get("done", []), told.get("behind", [])
    absent = absent - waiting - {*done, *behind}
    unseen = set(heard.roll.unseen) - heard.placed - waiting - absent
    unseen -= {*done, *behind}
    unseen = unseen if is_last else set()
    cite = lines.sort("rank", "source", "line").head(1)
    apart = heard.roll.apart if is_last else set()
    return {
        "is_p2p": False,
        "done": [],
        "behind": [],
        "unstarted": [],
        **told,
        "members": sorted({*waiting, *absent, *unseen, *done, *behind, *apart}),
        "waiting": sorted(waiting),
        "absent": sorted(absent),
        "unseen": sorted(unseen),
        "t": lines["t"].min(),
        "source": cite["source"][0],
        "line": cite["line"][0],
    }
