"""Who disagrees with whom about one call: the members of a group by their signature.

The signature is the operation, or the sizes and dtypes of an operation that needs them
equal. Three kinds of evidence give it: Flight Recorder entries, the fingerprints that
torch compares under TORCH_DISTRIBUTED_DEBUG=DETAIL, and WorkNCCL's text in watchdog
lines. The smaller side is the odd one; two equal sides are a tie.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.diagnosers import common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Cite, Collective, Confidence
    from ncclforensics.tables import Frames

Aspect = Literal["op", "shape"]

# members may pass different sizes, or only some of them pass any
UNEVEN = (
    *("all_to_all", "all_to_all_single", "all_to_all_v_single", "all_gather_v"),
    *("reduce_scatter_v", "gather", "scatter", "all_gather", "_broadcast_oop"),
    *("ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER", "COALESCED", "ALLGATHER"),
    *("_reduce_oop", "coalesced", "BARRIER", "barrier", "monitored_barrier"),
)


@dataclass(frozen=True, slots=True)
class Split:
    """One call and the sides its members take: (signature, ranks), smallest first."""

    call: Collective
    sides: tuple[tuple[str, tuple[int, ...]], ...]
    evidence: tuple[Cite, ...]
    confidence: Confidence
    first_seen: int | None

    @property
    def decided(self) -> bool:
        """Whether one side is smaller than every other."""
        return len(self.sides[0][1]) < len(self.sides[1][1])

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks of the smaller side; of all sides where there is none."""
        if self.decided:
            *small, _ = self.sides
            return tuple(sorted(rank for _, ranks in small for rank in ranks))
        return tuple(sorted(rank for _, ranks in self.sides for rank in ranks))

    @property
    def odd_op(self) -> str:
        """The signature of the smallest side."""
        return self.sides[0][0]

    @property
    def usual_op(self) -> str:
        """The signature of the largest side."""
        return self.sides[-1][0]


def splits(frames: Frames, aspect: Aspect) -> Iterator[Split]:
    """Yield the calls whose members differ, the first call of a group only.

    Dumps come before fingerprints and watchdog lines, as they hold every member.
    """
    yield from _from_votes(frames, _entries(frames), aspect)
    yield from _from_votes(frames, _fingerprints(frames), aspect)
    yield from _from_votes(frames, _watchdogs(frames), aspect)


def _from_votes(frames: Frames, votes: pl.DataFrame, aspect: Aspect) -> Iterator[Split]:
    """Find the groups' first calls on which `votes` differ.

    `votes` has `pg pg_desc seq op shape rank t source line text`.
    """
    if votes.is_empty():
        return
    key = ["pg", "pg_desc", "seq"]
    if aspect == "shape":
        # sizes are compared only where all agree on an operation that wants them equal
        votes = votes.filter(
            (pl.col("op").n_unique().over(key) == 1) & ~pl.col("op").is_in(UNEVEN)
        ).drop_nulls("shape")
    differing = votes.filter(pl.col(aspect).n_unique().over(key) > 1)
    first = differing.filter(pl.col("seq") == pl.col("seq").min().over(key[:2]))
    for _, call in first.group_by(key[:2], maintain_order=True):
        yield _split(frames, call, aspect)


def _split(frames: Frames, call: pl.DataFrame, aspect: Aspect) -> Split:
    sides: dict[str, set[int]] = defaultdict(set)
    for signature, rank in call.select(aspect, "rank").drop_nulls().iter_rows():
        sides[str(signature)].add(rank)
    ordered = sorted(sides.items(), key=lambda side: (len(side[1]), side[0]))
    odd = call.filter(pl.col(aspect) == ordered[0][0])
    usual = call.filter(pl.col(aspect) == ordered[-1][0])
    of = odd if len(ordered[0][1]) < len(ordered[-1][1]) else usual
    return Split(
        call=common.collective(frames, of.row(0, named=True)),
        sides=tuple((name, tuple(sorted(ranks))) for name, ranks in ordered),
        evidence=(*common.cites(odd, 3), *common.cites(usual, 3)),
        confidence="certain",
        first_seen=common.first_seen(call),
    )


def _entries(frames: Frames) -> pl.DataFrame:
    """Return the votes of Flight Recorder entries of calls that did not finish."""
    entries = frames["collectives"].filter(~pl.col("is_p2p").fill_null(False))
    finished = (pl.col("state") == "completed") | (
        pl.col("retired") & (pl.col("backend") == "gloo")
    )
    key = ["pg", "pg_desc", "seq"]
    stuck = entries.filter((~finished.fill_null(False)).any().over(key))
    if stuck.is_empty():
        return pl.DataFrame()
    numel = pl.col("in_sizes").list.eval(
        pl.element().list.eval(pl.element().product()).list.first().fill_null(1)
    )
    shape = pl.concat_str(
        numel.cast(pl.List(pl.String)).list.join("+"),
        pl.lit(" elements of "),
        pl.col("in_dtypes").list.join(", "),
    )
    return stuck.select(
        *key,
        "op",
        shape.alias("shape"),
        "rank",
        "stack",
        "t",
        "source",
        "line",
        _told(pl.col("seq")).alias("text"),
    ).drop_nulls("rank")


def _fingerprints(frames: Frames) -> pl.DataFrame:
    """Return the votes of DETAIL's fingerprints: the printer's own, and its peer's.

    The peer's operation counts only where it could be decoded.
    """
    lines = frames.message("c10d.fingerprint")
    if "is_peer" not in lines.columns:
        return pl.DataFrame()
    told = lines.filter(pl.col("op_reliable").fill_null(True))
    # the number that a fingerprint carries can be its printer's own count
    own = told.filter(~pl.col("is_peer"))["seq"].mode().sort()
    rank = pl.when(pl.col("is_peer")).then(None).otherwise("rank")
    by_group_rank = (
        told.select("group_rank", rank.alias("global"))
        .drop_nulls()
        .unique("group_rank", keep="first")
    )
    shape = pl.concat_str(
        pl.col("shape").cast(pl.List(pl.String)).list.join("x"),
        pl.lit(" "),
        pl.col("dtype").fill_null(""),
    )
    return told.join(by_group_rank, on="group_rank", how="left").select(
        "pg",
        "pg_desc",
        pl.lit(own.first() if own.len() else None, pl.Int64).alias("seq"),
        "op",
        shape.alias("shape"),
        pl.coalesce("global", "group_rank").alias("rank"),
        "t",
        "source",
        "line",
        "text",
    )


def _watchdogs(frames: Frames) -> pl.DataFrame:
    """Return the votes of watchdog lines, by the group that the same rank named."""
    told = frames["positions"].drop_nulls(["timed_out", "op", "rank", "pg"])
    shape = common.sentence(pl.col("numel_in"), " elements")
    return told.select(
        "pg",
        "pg_desc",
        pl.col("timed_out").alias("seq"),
        "op",
        shape.alias("shape"),
        "rank",
        "t",
        "source",
        "line",
        _told(pl.col("timed_out")).alias("text"),
    )


def _told(seq: pl.Expr) -> pl.Expr:
    return common.sentence("rank ", pl.col("rank"), ": ", pl.col("op"), " SeqNum=", seq)
