"""What the wait graph tells a diagnoser: the roots by the call that waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate import outline, rest, waits
from ncclforensics.diagnosers.clues import common, unrecorded
from ncclforensics.findings import Cite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.findings import Confidence
    from ncclforensics.frames import Frames

MAX_WAITING = 3  # cites of ranks that wait; the explanation counts the rest
MAX_WAYS = 3  # groups through which others wait, by name


def by_call(
    frames: Frames, *why: str
) -> Iterator[tuple[dict[str, Any], tuple[int, ...], int]]:
    """Yield (call, ranks, blocked) of the roots of some kinds.

    `call` is the row of `calls` in which most others wait for these ranks, `blocked`
    how many ranks hang on them in all. What most ranks hang on comes first. An absent
    rank that timed out itself waited too, in something that no evidence of calls shows
    (Gloo records no messages), so it is no root.
    """
    waited = pl.col("rank").is_in(unrecorded.waited(frames)) & (
        pl.col("why") == "absent"
    )
    kind = frames["roots"].filter(pl.col("why").is_in(why) & ~waited)
    grouped = (
        kind.group_by("call", maintain_order=True)
        .agg("rank", pl.col("blocked").max())
        .sort("blocked", descending=True, maintain_order=True)
    )
    for number, ranks, blocked in grouped.iter_rows():
        yield frames["calls"].row(number, named=True), tuple(sorted(ranks)), blocked


def is_majority(frames: Frames, call: dict[str, Any], ranks: tuple[int, ...]) -> bool:
    """Whether more members are absent than came: then the latter are the odd ones.

    Those count as well that are no roots, as they wait in something else; but not if it
    is these ranks they hang on there, and would come without them.
    """
    came = len(call["waiting"]) + len(call["behind"]) + len(call["done"])
    others = waits.graph(frames["calls"].filter(pl.col("call") != call["call"]))
    on_their_way = waits.behind(others, list(ranks))
    return len({*ranks, *call["absent"]} - on_their_way) > came


def confidence(
    frames: Frames, call: dict[str, Any] | None = None, ranks: Iterable[int] = ()
) -> Confidence:
    """Return how sure it is that some ranks did not come to a call.

    Dumps alone may be of a job that runs, members of whom nothing is seen may be to
    blame as well, and a log of calls may lack its last lines. Of a Gloo job dumps hold
    no messages, in which a rank may wait as well; then its own log has to be there and
    say nothing of it.
    """
    if not rest.is_told(frames) or (call is not None and call["unseen"]):
        return "likely"
    sources = frames["sources"]
    dumps = sources.filter(outline.is_dump())["source"]
    made = outline.outline(frames)["source"]
    from_lines = made.len() > 0 and not made.is_in(dumps.implode()).any()
    spoke = set(common.numbers(frames["events"]["rank"]))
    silent = unrecorded.is_gloo(frames) and not set(ranks) <= spoke
    return "likely" if from_lines or silent else "certain"


def spread(
    frames: Frames, call: dict[str, Any], ranks: Iterable[int], blocked: int
) -> str:
    """Say how many wait in a call, and how the rest hangs on it.

    "7 of 8 members wait in …; 1,015 more ranks wait behind them, through
    DATA_PARALLEL_GROUP 12 and PIPELINE_MODEL_PARALLEL_GROUP 3."
    """
    failing = common.collective(frames, call)
    words = f"{waiters(call)} in {common.call_words(failing)}"
    more = blocked - len(call["waiting"])
    if more > 0:
        through = _through(frames, ranks, call["call"])
        noun = "rank waits" if more == 1 else "ranks wait"
        words += f"; {more:,} more {noun} behind{through}"
    return f"{words}."


def waiters(call: dict[str, Any]) -> str:
    """Return `7 of 8 members wait`, or `7 ranks wait` where nothing lists the group."""
    here, members = len(call["waiting"]), len(call["members"] or ())
    wait = "waits" if here == 1 else "wait"
    if not members:
        return f"{common.count(here, 'rank')} {wait}"
    return f"{here:,} of {members:,} members {wait}"


def others_behind(frames: Frames, ranks: Iterable[int], word: str = "behind") -> str:
    """Say how many ranks wait behind some that are named, and through which groups."""
    told = waits.graph(frames["calls"])
    blocked = waits.behind(told, list(ranks))
    if not blocked:
        return ""
    noun = "rank waits" if len(blocked) == 1 else "ranks wait"
    return f" {len(blocked):,} {noun} {word}, {_ways(frames, ranks, None)}."


def _through(frames: Frames, ranks: Iterable[int], call: int) -> str:
    ways = _ways(frames, ranks, call)
    return f", {ways}" if ways else ""


def _ways(frames: Frames, ranks: Iterable[int], but: int | None) -> str:
    """Return "through TP group 3 and 12 PP groups": the groups others wait in."""
    told = waits.graph(frames["calls"])
    behind = waits.behind(told, list(ranks)) | set(ranks)
    here = frames["calls"].filter(
        (pl.col("call") != (-1 if but is None else but))
        & pl.col("call").is_in(
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
        name = desc or "process"
        told_name = name.removesuffix("_GROUP").removesuffix("_group")
        words.append(
            f"{told_name} group {names[0]}"
            if len(names) == 1
            else f"{len(names):,} {told_name} groups"
        )
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
    """Cite ranks that wait in a call."""
    return cites(_waiting(frames, call, only), "waits in")


def onset(
    frames: Frames, call: dict[str, Any], only: Iterable[int] | None = None
) -> int | None:
    """Return when the first rank began to wait in a call, in UTC nanoseconds."""
    return common.first_seen(_waiting(frames, call, only))


def cites(standings: pl.DataFrame, says: str) -> tuple[Cite, ...]:
    """Cite where the standings of some ranks were read."""
    return tuple(
        Cite(
            row["source"],
            row["line"],
            f"rank {row['rank']} {says} {row['op'] or 'a call'} "
            f"SeqNum={row['enqueued'] if row['waits_in'] is None else row['waits_in']}",
        )
        for row in standings.drop_nulls("source").head(MAX_WAITING).to_dicts()
    )


def _waiting(
    frames: Frames, call: dict[str, Any], only: Iterable[int] | None
) -> pl.DataFrame:
    """Return where the ranks that wait in a call say so, one row a rank."""
    ranks = call["waiting"] if only is None else list(only)
    held = frames["standings"].filter(
        pl.col("rank").is_in(ranks) & (pl.col("group") == call["group"])
    )
    if not call["is_p2p"]:
        return held.filter(pl.col("waits_in").is_not_null())
    # a message has no standing: its entry is the rank's first open one of that group
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
    # where batches count up the number of collectives, that of messages stays 0
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
