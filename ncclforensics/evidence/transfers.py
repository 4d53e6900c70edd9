"""How long calls take on the network once all members have come, by group and link.

The last member of a call waits for nobody: what the call takes on it is the transfer.
Groups that make the same call with as many members on as many hosts are sisters, and
so are the links of a pipeline. Known where dumps or the Inspector have GPU times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma, log
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.arrivals import arrivals
from ncclforensics.correlate.timing.own_time import CHANCE, WORTH
from ncclforensics.correlate.timing.stages import member_at
from ncclforensics.evidence import step_times
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

APART = 3.0  # times as far from the others as these differ
SISTERS = 3  # at least: of two that differ, nothing tells which is right, but that
TWICE = 2.0  # times as long is no way of a link that is in order
OF_ONE = ["what", "link"]


@dataclass(frozen=True, slots=True)
class Slower:
    """Groups or links whose calls are slower; times are milliseconds.

    `ranks` are the members of the one that loses most and `hosts` theirs, `many` how
    many are slower. `blamed` are the hosts that all slower ones share, and no other
    has; empty unless it is one. If `even`, no more sisters are quick than slow, so that
    these may be of two kinds. `lines` has the columns that `cites` needs.
    """

    op: str
    is_message: bool
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    many: int
    blamed: tuple[str, ...]
    usual_ms: float
    slow_ms: float
    lines: pl.DataFrame
    even: bool = False


@remembered
def transfers(frames: Frames) -> pl.DataFrame:
    """Return `what link op ranks hosts made took is_p2p source line`, by time.

    One row a collective or message; `took` in seconds.
    """
    if not _tells_durations(frames):
        return pl.DataFrame()
    calls = arrivals(frames)
    if "took" not in calls.columns:
        return pl.DataFrame()
    calls = calls.filter(pl.col("took") > 0)
    own = ["rank", "pg", "pg_desc"]
    seats = frames["groups"].unique(own).select(*own, "members")
    size = pl.col("members").list.len()
    met = (
        calls.filter(pl.col("meets").is_not_null())
        .join(seats, on=own, how="left", nulls_equal=True)
        .sort("took", "rank")
        .group_by("meets", maintain_order=True)
        .agg(
            pl.col("what", "op", "made", "took", "source", "line").first(),
            pl.col("group").first().alias("link"),
            pl.col("rank").sort().alias("ranks"),
            pl.col("host").drop_nulls().unique().sort().alias("hosts"),
            pl.len().alias("n"),
            size.max().alias("size"),
        )
        .filter(pl.col("n") == pl.col("size").replace(0, None).fill_null(pl.col("n")))
    )
    hosts = frames["ranks"].select("rank", "host").unique("rank", keep="first")
    sent = (
        calls.filter("is_p2p")
        .join(seats, on=own, how="left", nulls_equal=True)
        .with_columns(member_at(side).alias(side) for side in ("src", "dst"))
        .drop_nulls(["src", "dst"])
        .join(hosts.rename({"rank": "src", "host": "from"}), on="src", how="left")
        .join(hosts.rename({"rank": "dst", "host": "to"}), on="dst", how="left")
        .with_columns(
            ranks=pl.concat_list("src", "dst"),
            hosts=pl.concat_list("from", "to")
            .list.drop_nulls()
            .list.unique()
            .list.sort(),
            link=pl.format("{} to {}", "src", "dst"),
            op=pl.lit("send"),
            quick=pl.col("took").quantile(0.25).over("src", "dst", "rank"),
        )
        # one end may wait for the other each time, which then waits for nobody
        .filter(pl.col("quick") == pl.col("quick").min().over("src", "dst"))
    )
    kept = ("what", "link", "op", "ranks", "hosts", "made", "took", "is_p2p")
    both = pl.concat(
        part.select(*kept, "source", "line")
        for part in (met.with_columns(is_p2p=pl.lit(False)), sent)
    )
    alike = pl.struct(
        pl.when(~pl.col("is_p2p")).then("what"),
        "op",
        pl.col("ranks").list.len(),
        hosts=pl.col("hosts").list.len(),
    ).hash(seed=0)
    return both.with_columns(what=alike).sort("made", "link")


def _tells_durations(frames: Frames) -> bool:
    """Whether dumps have times of the GPU; the Inspector, which is read else, has."""
    made = frames.scan("collectives")
    told = made.select(pl.col("duration_ms").count(), calls=pl.len())
    known, calls = told.collect().row(0)
    return bool(calls == 0 or known > 0)


def slower(frames: Frames) -> Slower | None:
    """Return the groups or links that are slower than their sisters all the time."""
    rows = transfers(frames)
    if rows.is_empty():
        return None
    span = float(str(rows["made"].max())) - float(str(rows["made"].min()))
    took = pl.col("took")
    each = (
        rows.group_by(OF_ONE)
        .agg(
            pl.col("op", "ranks", "hosts", "is_p2p").first(),
            pl.len().alias("n"),
            *quantiles(took),
        )
        .filter(pl.len().over("what") > 1)
    )
    of_two = pl.len().over("what") < SISTERS
    twice = pl.col("low") > TWICE * pl.col("usual")
    each = (
        standing_apart(each, "what")
        .with_columns(slow=pl.col("slow") & (~of_two | twice))
        .with_columns(lost=(pl.col("usually") - pl.col("usual")) * pl.col("n") / span)
        # the ends of a message may wait for each other in turn
        .filter((2 * pl.col("slow").sum() + pl.col("is_p2p") <= pl.len()).over("what"))
        .sort("lost", "link", descending=[True, False])
    )
    found = each.filter("slow").filter(pl.col("lost").sum().over("what") >= WORTH)
    if found.is_empty():
        return None
    found = found.filter(pl.col("what") == found["what"][0])
    sisters = each.filter((pl.col("what") == found["what"][0]) & ~pl.col("slow"))
    of_all = set.intersection(*(set(hosts) for hosts in found["hosts"]))
    blamed = sorted(of_all - {host for hosts in sisters["hosts"] for host in hosts})
    own = rows.join(found.head(1).select(OF_ONE), on=OF_ONE, how="semi")
    other = rows.join(sisters.head(1).select(OF_ONE), on=OF_ONE, how="semi")
    lines = pl.concat([own.tail(1), other.tail(1)])
    told = _told(found, blamed, found["usual"][0], found["usually"][0], lines)
    return replace(told, even=found.height == sisters.height)


def quantiles(took: pl.Expr) -> tuple[pl.Expr, ...]:
    """Return `low`, `usually` and `high` of times, which `standing_apart` compares."""
    shares = {"low": 0.1, "usually": 0.25, "high": 0.9}
    return tuple(took.quantile(q).alias(name) for name, q in shares.items())


def standing_apart(each: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Add `slow`, and the `usual` time of the others of a kind, to `quantiles`.

    Slow are those behind the widest gap, if it is APART times as wide as the others
    differ, and more than is USUAL, and if they are slower nearly always than any other
    is nearly ever, which is no chance of their `n` calls.
    """
    usually, slow = pl.col("usually"), pl.col("slow")
    gap = usually.shift(-1) - usually
    quick = usually.filter(~slow)
    beyond = usually.filter("slow").min() - quick.max()
    apart = beyond > APART * (quick.max() - quick.min())
    apart &= usually.filter("slow").min() > step_times.USUAL * quick.max()
    always = pl.col("low").filter("slow").min() > pl.col("high").filter(~slow).max()
    told = (
        each.sort(kind, "usually")
        .with_columns(slow=(usually > usually.sort_by(gap).last()).over(kind))
        .with_columns(
            usual=quick.quantile(0.5, "lower").over(kind),
            slow=slow & (apart & always).fill_null(value=False).over(kind),
        )
    )
    return told.with_columns(slow & ~pl.col(kind).is_in(_by_chance(told, kind)))


def _by_chance(told: pl.DataFrame, kind: str) -> list[object]:
    """Return the kinds whose slow calls may be the longest of all by chance.

    If no link differs, any calls of all are as likely to be the longest.
    """
    n = pl.col("n")
    slow = n.filter("slow").sum()
    many = told.group_by(kind).agg(slow, rest=n.sum() - slow, links=pl.len())
    found = []
    for name, own, rest, links in many.filter(n > 0).iter_rows():
        ways = lgamma(own + rest + 1) - lgamma(own + 1) - lgamma(rest + 1)
        if ways < log(links / CHANCE):
            found.append(name)
    return found


def fallen(frames: Frames) -> Slower | None:
    """Return the groups or links whose calls take longer from some time on."""
    rows = transfers(frames)
    if rows.is_empty():
        return None
    found = []
    for own in rows.partition_by(OF_ONE, maintain_order=True):
        times = own["took"]
        if (fell := step_times.lasting(times)) is None:
            continue
        at, usual, slow = fell
        span = float(own["made"][-1] - own["made"][at])
        lost = (slow - usual) * (times.len() - at) / max(span, slow)
        if lost >= WORTH:
            found.append((lost, usual, slow, own, own[at - 1 : at + 1]))
    if not found:
        return None
    lost, usual, slow, own, lines = max(found, key=lambda one: one[0])
    every = pl.concat([one[3].head(1) for one in found])
    every = every.sort(pl.col("link") != own["link"][0], maintain_order=True)
    fine = rows.join(every.select("link"), on="link", how="anti")
    of_all = set.intersection(*(set(hosts) for hosts in every["hosts"]))
    blamed = of_all - set(fine["hosts"].explode()) if fine.height else set()
    return _told(every, sorted(blamed), usual, slow, lines)


def _told(
    found: pl.DataFrame,
    blamed: list[str],
    usual: float,
    slow: float,
    lines: pl.DataFrame,
) -> Slower:
    """Return what the rows say, of which the first loses most."""
    first = found.row(0, named=True)
    says = pl.format("{} took {} ms", "op", (pl.col("took") * 1e3).round(1))
    return Slower(
        op=first["op"],
        is_message=first["is_p2p"],
        ranks=tuple(first["ranks"]),
        hosts=tuple(first["hosts"]),
        many=found["link"].n_unique(),
        blamed=tuple(blamed) if len(blamed) == 1 else (),
        usual_ms=usual * 1e3,
        slow_ms=slow * 1e3,
        lines=lines.with_columns(text=says),
    )
