"""Text and cites for the findings of `theory`: which ranks wait, where, for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.waits import wait_graph
from ncclforensics.evidence import common
from ncclforensics.model.findings import Cite, Finding
from ncclforensics.model.folding import count, noun
from ncclforensics.model.words import name_groups
from ncclforensics.theory import call_sites, standstill
from ncclforensics.theory.weigh import OPEN_TIE, weighed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.actions import Action
    from ncclforensics.model.findings import Collective
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

MAX_WAITING = 3  # waiting ranks that are cited; the explanation counts the rest
MAX_WAYS = 3  # kinds of group, through which others wait, that are named


def spread(frames: Frames, call: dict[str, Any], blocked: int) -> str:
    """Say how many ranks wait in a call, and how many others wait for these.

    "7 of 8 members wait in …; 1,015 more ranks wait behind." Through which groups, the
    chain says: who never made the call has to stand in the same few lines.
    """
    failing = common.collective(frames, call)
    words = f"{waiters(call)} in {common.call_words(failing)}"
    more = blocked - len(call["waiting"])
    if more > 0:
        words += f"; {count(more, 'more rank waits', 'more ranks wait')} behind"
    return f"{words}."


def waiters(call: dict[str, Any]) -> str:
    """Return `7 of 8 members wait`; `7 ranks wait` if the members are not known."""
    here, members = len(call["waiting"]), len(call["members"] or ())
    wait = noun(here, "waits", "wait")
    if not members:
        return f"{count(here, 'rank')} {wait}"
    return f"{here:,} of {members:,} members {wait}"


def others_behind(frames: Frames, ranks: Iterable[int], word: str = "behind") -> str:
    """Say how many ranks wait behind the named ones, and through which groups."""
    told = wait_graph.graph(frames["calls"])
    blocked = wait_graph.behind(told, list(ranks))
    if not blocked:
        return ""
    who = count(len(blocked), "rank waits", "ranks wait")
    return f" {who} {word}, {_ways(frames, ranks)}."


def _ways(frames: Frames, ranks: Iterable[int]) -> str:
    """Return "through process group 3 (TP) and 12 PP groups": where others wait."""
    told = wait_graph.graph(frames["calls"])
    behind = wait_graph.behind(told, list(ranks)) | set(ranks)
    here = frames["calls"].filter(
        pl.col("call").is_in(
            sorted({c for r in behind for c in told.wanted_in.get(r, ())})
        )
    )
    counted = (
        here.group_by("pg_desc", maintain_order=True)
        .agg(
            pl.col("pg").unique(maintain_order=True),
            pl.col("waiting").list.len().sum().alias("many"),
        )
        .sort("many", descending=True, maintain_order=True)
    )
    words = []
    for desc, names, _ in counted.head(MAX_WAYS).iter_rows():
        words.append(name_groups(names, desc))
    if not words:
        return ""
    left = counted.height - len(words)
    if left > 0:
        words.append(f"{left:,} more kinds of group")
    return "through " + (
        f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    )


def waiting(
    frames: Frames, call: dict[str, Any], only: Iterable[int] | None = None
) -> tuple[Cite, ...]:
    """Cite ranks that wait in a call, or the call itself if only log lines show it."""
    found = cites(_waiting(frames, call, only), "waits in")
    if found or call["source"] is None:
        return found
    here = call["waiting"] if only is None else [*only]
    if not here:
        return ()
    what = common.call_words(common.collective(frames, call))
    text = f"{common.ranks(sorted(here))} waited in {what}"
    return (Cite(call["source"], call["line"], text),)


def as_made_by(
    frames: Frames, call: dict[str, Any], ranks: Iterable[int]
) -> dict[str, Any]:
    """Return a call with the operation that `ranks` made, if all made the same."""
    ops = _waiting(frames, call, ranks)["op"].drop_nulls().unique()
    return {**call, "op": ops[0]} if len(ops) == 1 else call


def onset(
    frames: Frames, call: dict[str, Any], only: Iterable[int] | None = None
) -> int | None:
    """Return when the first rank began to wait in a call, in UTC nanoseconds."""
    return common.first_seen(_waiting(frames, call, only))


def cites(standings: pl.DataFrame, says: str) -> tuple[Cite, ...]:
    """Cite the sources of some ranks' standings, at most `MAX_WAITING` of them."""
    return tuple(
        Cite(
            row["source"],
            row["line"],
            f"rank {row['rank']} {says} {row['op'] or 'call'} "
            f"SeqNum={row['enqueued'] if row['waits_in'] is None else row['waits_in']}",
        )
        for row in standings.drop_nulls("source").head(MAX_WAITING).to_dicts()
    )


def _waiting(
    frames: Frames, call: dict[str, Any], only: Iterable[int] | None
) -> pl.DataFrame:
    """Return the rows that show ranks waiting in a call, one row per rank."""
    ranks = call["waiting"] if only is None else list(only)
    held = frames["standings"].filter(
        pl.col("rank").is_in(ranks) & (pl.col("group") == call["group"])
    )
    if not call["is_p2p"]:
        return held.filter(pl.col("waits_in").is_not_null())
    # a message has no standing: take the rank's first open entry of it in that group
    told = (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(ranks)
            & pl.col("is_p2p")
            & (pl.col("op") == call["op"])
            & pl.col("pg").eq_missing(call["pg"])
            & (pl.col("state") != "completed")
        )
        .collect()
    )
    # where batches increase the number of collectives, that of messages stays 0
    number = pl.coalesce(pl.when(pl.col("p2p_seq") > 0).then("p2p_seq"), "seq")
    return told.select(
        "rank",
        "op",
        number.alias("waits_in"),
        number.alias("enqueued"),
        "t",
        "source",
        "line",
    ).unique("rank", keep="first", maintain_order=True)


def finding(
    frames: Frames,
    told: Told,
    headline: str,
    explanation: str,
    remedy: tuple[str | Action, ...],
    evidence: tuple[Cite, ...],
    *,
    ranks: tuple[int, ...] | None = None,
    collective: Collective | None = None,
    first_seen: int | None = None,
) -> Finding:
    """Return the finding for one end; `ranks` defaults to the story's culprits.

    Its explanation adds what proves the standstill, if `PROOFS` lists that proof, or
    why the finding is no more than possible.
    """
    story, named = told.story, told.story.ranks if ranks is None else ranks
    assert story.call is not None
    assert told.confidence is not None
    stands = standstill.standing(frames)
    proof = stands.cites if stands.name in PROOFS else ()
    return Finding(
        slug=story.slug,
        confidence=told.confidence,
        headline=headline,
        evidence=(*evidence, *proof),
        explanation=explanation + _doubt(frames, told),
        remedy=remedy,
        ranks=named,
        hosts=common.hosts_of(frames, named),
        devices=common.devices_of(frames, named),
        collective=collective or common.collective(frames, story.call),
        first_seen=first_seen or onset(frames, story.call),
        calls=frozenset(
            number
            for other in weighed(frames).together(story.slug)
            for number in other.end.calls
        ),
    )


PROOFS = ("written", "looks", "aborted")


def _doubt(frames: Frames, told: Told) -> str:
    """Say why a finding is only possible, or what proves the standstill."""
    stands = standstill.standing(frames)
    if stands.answer != "yes":
        return " This is only possible: nothing here proves that the job had stopped."
    if told.confidence != "possible":
        return f" The job is stuck: {stands.why}." if stands.name in PROOFS else ""
    if told.story.what == OPEN_TIE:
        return ""
    if told.story.what in ("all", "all alike", "tie"):
        return " Nothing here shows which side is wrong, so all are named."
    rival = next((s for s in told.rivals if {*s.ranks} != {*told.story.ranks}), None)
    if rival is None or not rival.ranks:
        return ""
    who = common.ranks(rival.ranks)
    return f" This is only possible: that it was {who} fits nearly as well."


def elsewhere(frames: Frames, told: Told) -> str:
    """Say where the others are: ": ranks … are in … at …; stacks differ: …."."""
    story = told.story
    other = next((c for c in story.others if not c["is_p2p"]), None)
    if other is None or story.call is None:
        return "."
    what = common.collective(frames, other)
    site = f" at {what.call_site}" if what.call_site else ""
    where = call_sites.parting(frames, story.call["stack"], other["stack"])
    apart = f"; their stacks differ: {where}" if where else ""
    ranks = common.ranks(sorted(other["waiting"]))
    verb = "is" if len(other["waiting"]) == 1 else "are"
    return f": {ranks} {verb} in {common.call_words(what)}{site}{apart}."
