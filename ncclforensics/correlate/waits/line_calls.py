"""Calls known from log lines only, as rows of the frame `calls`.

A call is known by a number without a group, by the place in the code where its ranks
stood, or only by the fact that they waited. It waits for the silent ranks. If no rank
is silent, ranks that stand in two calls wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.traces import code_places, groupless_timeouts
from ncclforensics.correlate.traces.progress import UNLISTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.correlate.waits.roll_call import Roll

SILENCE = f"{groupless_timeouts.PREFIX}silence{UNLISTED}"
MESSAGES = ("SEND", "RECV")  # as watchdogs print them
LEAST = 2  # a single rank that waited may only be the first to report it


@dataclass(frozen=True, slots=True)
class Heard:
    """What lines show of the ranks that `calls` does not place.

    `all_sites` is `call_sites.sites`, `sites` those of these ranks, `numbers` their
    rows of `groupless_timeouts`; `placed` are the ranks that `calls` places.
    `is_parted` says that ranks may be in different calls for a valid reason.
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
        others |= heard.roll.elsewhere - heard.placed - everyone
        last = of_group["timed_out"].max()
        for seq in of_group["timed_out"].unique().sort():
            at = of_group.filter(pl.col("timed_out") == seq)
            waiting = {*at["rank"]}
            op = at["op"].drop_nulls().mode().sort().first()
            is_message = str(op) in MESSAGES
            # in several groups, equal numbers and later ones are of different calls
            apart = heard.is_parted
            early = of_group.filter((pl.col("timed_out") < seq) & ~pl.lit(apart))
            enqueued = pl.max_horizontal("last_enqueued", "timed_out")
            late = early.filter(
                (enqueued < seq) & pl.col("last_enqueued").is_not_null()
            )
            done = set() if apart else everyone - waiting - {*early["rank"]}
            # if a rank finished the call, all members came
            wanted = _wanted(heard, others) if seq == last else set()
            wanted = set() if is_message else wanted
            absent = {*late["rank"]} | wanted
            yield row(
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
    """Yield a call for each place in the code, if ranks stood at several."""
    if heard.sites.is_empty():
        return
    seen = heard.sites.filter(
        ~pl.col("rank").is_in(heard.numbers["rank"].implode())
        & (pl.col("was_looked_at") | pl.col("rank").is_in(list(heard.roll.waited)))
    )
    waits = seen.filter("waits")
    idle = {*seen.filter(~pl.col("waits"))["rank"]} - heard.roll.waited
    # a place known only from tracebacks needs timeouts of several ranks beside it
    counted = len(heard.roll.waited) >= LEAST and heard.roll.timed_out
    if waits.is_empty() or not (counted or waits["was_looked_at"].any()):
        return
    apart = heard.roll.elsewhere
    if waits["stack"].n_unique() == 1 and not idle and counted and not apart:
        return  # the one call that all waited in: see `by_silence`
    lone = _lone(heard, waits)
    places = waits.sort("rank").partition_by("stack", maintain_order=True)
    for at in places:
        stack = at["stack"][0]
        waiting = {*at["rank"]}
        is_message = bool(at["op"].str.contains(code_places.MESSAGES).any())
        others = {*waits["rank"]} - waiting
        if waiting <= apart:
            others |= {*heard.numbers["rank"]}
        if lone:
            wanted = lone if is_message else others if waiting <= lone else set()
        else:
            wanted = _wanted(heard, set() if is_message else others)
        # a rank seen at work is waited for before any other
        absent = idle or wanted
        printed = heard.roll.lines.filter(pl.col("rank").is_in(list(waiting)))
        yield row(
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


def _lone(heard: Heard, waits: pl.DataFrame) -> set[int]:
    """Return the one known rank that waits in a collective while all others pass on
    messages: it is the one that they wait for. Empty if there is none."""
    talks = pl.col("op").str.contains(code_places.MESSAGES).fill_null(False)
    talking = {*waits.filter(talks)["rank"]}
    lone = set(heard.roll.known) - talking
    in_call = lone & {*waits["rank"]}
    return lone if len(lone) == 1 and lone == in_call and not heard.roll.gone else set()


def by_silence(heard: Heard) -> Iterator[dict[str, Any]]:
    """Yield the one call that ranks waited in, if only their wait is known."""
    told = heard.roll
    numbered = {*heard.numbers["rank"]}
    placed = heard.placed | numbered
    waiting = told.waited - placed
    at = heard.sites.filter(pl.col("waits") & pl.col("rank").is_in(list(waiting)))
    named = told.named and bool(waiting)
    # a peer that left in peace closes the connections of those that are in a call
    left = bool(told.ended) and (at.height > 0 or len(waiting) >= LEAST)
    if not (named or left or (len(told.waited) >= LEAST and told.timed_out)):
        return
    # all known ranks came: lines show no rank that they wait for
    if not waiting or (placed and not told.silent) or _died(told):
        return
    lines = told.lines.filter(pl.col("rank").is_in(list(waiting)))
    called = at["op"].drop_nulls().mode().sort().first()
    yield row(
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
    """Whether all ranks that did not wait failed or left, so that none is silent."""
    return bool(told.apart - told.ended) and not told.silent


def _wanted(heard: Heard, others: Iterable[int]) -> set[int]:
    """Return the ranks that a call waits for: silent, ended, or in another call.

    If several groups are known, or messages are sent, a rank in another call may belong
    to another group.
    """
    if heard.roll.gone:
        return set(heard.roll.gone)
    return set() if heard.is_parted or heard.roll.apart else set(others)


def _stack(heard: Heard, ranks: Iterable[int]) -> int | None:
    """Return the place where most of `ranks` waited; None if none is known."""
    at = heard.sites.filter(pl.col("waits") & pl.col("rank").is_in(list(ranks)))
    return int(str(at["stack"].mode().sort()[0])) if at.height else None


def row(
    heard: Heard,
    lines: pl.DataFrame,
    waiting: set[int],
    absent: set[int],
    told: dict[str, Any],
    *,
    is_last: bool = True,
) -> dict[str, Any]:
    """Return a row of `calls` that cites the first of `lines` of its first rank.

    `told` are columns of it; if it has `members`, no other rank is one. `t` is the
    earliest of `lines`. If others have finished the call (not `is_last`), no rank is
    unseen: all members came.
    """
    done, behind = told.get("done", []), told.get("behind", [])
    absent = absent - waiting - {*done, *behind}
    unseen = set(heard.roll.unseen) - heard.placed - waiting - absent
    unseen -= {*done, *behind}
    unseen = unseen if is_last else set()
    cite = lines.sort("rank", "source", "line").head(1)
    apart = heard.roll.apart if is_last else set()
    members = {*waiting, *absent, *unseen, *done, *behind, *apart}
    if "members" in told:
        members = {*told["members"]}
        unseen &= members
    return {
        "is_p2p": False,
        "done": [],
        "behind": [],
        "unstarted": [],
        **told,
        "members": sorted(members),
        "waiting": sorted(waiting),
        "absent": sorted(absent),
        "unseen": sorted(unseen),
        "t": lines["t"].min(),
        "source": cite["source"][0],
        "line": cite["line"][0],
    }
