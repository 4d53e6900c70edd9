"""What torch's own check of calls prints under TORCH_DISTRIBUTED_DEBUG=DETAIL.

Each line holds the fingerprint of the printer's call and of a peer's that differs from
it. The printer's own is reliable, the peer's only if it could be decoded; that it is
another one is reliable in any case. Torch
compares with the members in order and stops at the first that differs (`verify_tensors`
in ProcessGroupWrapper.cpp): all that come before it made the printer's call.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.traces.progress import UNEVEN
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

Aspect = Literal["op", "shape"]
RETOLD = (
    *("condensed.fingerprint", "c10d.fingerprint.retold"),
    "c10d.fingerprint.accelerate",
)
UNREAD = "something that torch could not read"
# what a person may leave out
PEERS = {
    "op": pl.String(),
    "shape": pl.String(),
    "peer": pl.Int64(),
    "peer_op": pl.String(),
    "peer_shape": pl.String(),
}


def sides(frames: Frames, aspect: Aspect) -> list[tuple[str, pl.DataFrame]]:
    """Return the sides of the first call whose fingerprints differ, fewest first.

    A side is its signature and the frame of its votes, with the columns of `votes`.
    Shapes are compared only if all ranks agree on an operation. Empty if no call
    differs.
    """
    cast = votes(frames)
    if cast.is_empty():
        return []
    key = ["pg", "pg_desc", "seq"]
    if aspect == "shape":
        # an operation that a person left out is no other one
        one = pl.col("op").drop_nulls().n_unique().over(key) <= 1
        cast = cast.filter(one).drop_nulls("shape")
    side = pl.when(pl.col("rank").is_not_null()).then(pl.col(aspect)).drop_nulls()
    differing = cast.filter(side.n_unique().over(key) > 1)
    if differing.is_empty():
        return []
    first = differing.filter(pl.struct(key) == pl.struct(key).first())
    told: dict[str, list[pl.DataFrame]] = defaultdict(list)
    for (what,), some in first.drop_nulls([aspect, "rank"]).group_by(
        aspect, maintain_order=True
    ):
        told[str(what)].append(some)
    found = [(what, pl.concat(parts)) for what, parts in told.items()]
    return sorted(found, key=lambda s: (s[1]["rank"].n_unique(), s[0]))


def is_open(frames: Frames, sides_: list[tuple[str, pl.DataFrame]]) -> bool:
    """Whether ranks without output may make another side the smaller one."""
    unseen = unheard(frames, sides_)
    small, large = (sides_[n][1]["rank"].n_unique() for n in (0, -1))
    return bool(unseen) and small + unseen >= large + (small == 1)


def unheard(frames: Frames, sides_: list[tuple[str, pl.DataFrame]]) -> int:
    """Return how many ranks are known at least that are on no side.

    All ranks print, so a rank that is known only from its peer's line shows that lines
    are missing.
    """
    votes_ = pl.concat([some for _, some in sides_])
    unseen = max(frames["ranks"].height - votes_["rank"].n_unique(), 0)
    printed = votes_.filter(~pl.col("is_peer"))["rank"].drop_nulls()
    is_whole = votes_["rank"].drop_nulls().is_in(printed.implode()).all()
    return unseen if is_whole else max(unseen, 1)


@remembered
def votes(frames: Frames) -> pl.DataFrame:
    """Return what each rank called, by its own line or as peers' lines tell.

    Columns `pg pg_desc seq op shape rank is_peer t source line text`; empty without
    lines. `shape` includes the dtype, and is null if members may pass different sizes.
    """
    printed = frames.message("c10d.fingerprint")
    parts = [printed, _agreeing(printed), _retold(frames)]
    lines = pl.concat(parts, how="diagonal_relaxed")
    if "is_peer" not in lines.columns:
        return pl.DataFrame()
    reliable = pl.col("op_reliable").fill_null(True)
    told = lines.filter(reliable)
    told = pl.concat([told, _unread(lines.filter(~reliable), told)])
    # a fingerprint's number can be its printer's own count: the most common one is
    # taken
    own = told.filter(~pl.col("is_peer"))["seq"].mode().sort()
    rank = pl.when(pl.col("is_peer")).then(None).otherwise("rank")
    by_group_rank = (
        told.select("group_rank", rank.alias("global"))
        .drop_nulls()
        .unique("group_rank", keep="first")
    )
    shape = pl.concat_str(
        pl.col("shape").cast(pl.List(pl.String)).list.join("x"),
        pl.coalesce(pl.lit(" ") + pl.col("dtype"), pl.lit("")),
    )
    # where torch refused the call for its shapes, they had to agree; up to 2.0 it does
    # not say what it refused, which is what differs
    both = ["source", "line"]
    alike = pl.col("op", "dtype").n_unique().over(both) == 1
    refused = pl.col("differs").list.contains("shape")
    said = pl.col("differs").list.len() > 0
    refused = pl.when(said).then(refused).otherwise(pl.all_horizontal(alike))
    even = ~pl.col("op").is_in(UNEVEN) | refused
    return told.join(by_group_rank, on="group_rank", how="left").select(
        "pg",
        "pg_desc",
        pl.lit(own.first() if own.len() else None, pl.Int64).alias("seq"),
        "op",
        pl.when(even).then(shape).alias("shape"),
        pl.coalesce("global", "group_rank").alias("rank"),
        *("is_peer", "t", "source", "line", "text"),
    )


def _unread(peers: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Return the peers whose calls are known to be others, of printers with tensors.

    Fingerprints of barriers differ by their numbers alone in healthy jobs, too. A peer
    that any line shows is left out. `told` are the reliable fingerprints.
    """
    known = told["group_rank"]
    own = told.filter(~pl.col("is_peer")).drop_nulls("shape")
    theirs = peers.join(own, on=["source", "line"], how="semi")
    return theirs.filter(~pl.col("group_rank").is_in(known.implode())).with_columns(
        pl.lit(UNREAD).alias("op"), shape=pl.lit(None, told.schema["shape"])
    )


def _agreeing(told: pl.DataFrame) -> pl.DataFrame:
    """Return the members that a printer compared with before the one that differs.

    As rows of a peer's fingerprint that is the printer's own.
    """
    if "is_peer" not in told.columns:
        return told.clear()
    at = ["source", "line"]
    first = told.filter("is_peer").group_by(at).agg(pl.col("group_rank").min())
    own = told.filter(~pl.col("is_peer")).join(first, on=at, suffix="_differs")
    same = ["pg", "pg_desc", "seq", "op", "shape", "dtype"]
    furthest = own.sort("group_rank_differs", descending=True, maintain_order=True)
    furthest = furthest.unique(same, keep="first", maintain_order=True)
    before = furthest.with_columns(
        pl.int_ranges(0, "group_rank_differs").alias("group_rank"), is_peer=True
    ).drop("group_rank_differs")
    return before.filter(pl.col("group_rank").list.len() > 0).explode("group_rank")


def _retold(frames: Frames) -> pl.DataFrame:
    """Return what people or accelerate retell of each rank, as rows of the message."""
    lines = frames.message(*RETOLD)
    if lines.is_empty():
        return lines
    lines = with_nulls(lines, PEERS)
    own = lines.with_columns(pl.col("rank").alias("group_rank"), is_peer=False)
    peer = lines.drop_nulls("peer").with_columns(
        pl.lit(None, pl.Int64).alias("rank"),
        pl.col("peer").alias("group_rank"),
        pl.col("peer_op").alias("op"),
        pl.col("peer_shape").alias("shape"),
        is_peer=True,
    )
    sizes = pl.col("shape").str.extract_all(r"\d+").cast(pl.List(pl.Int64))
    return pl.concat([own, peer]).with_columns(
        sizes.alias("shape"),
        pl.lit(None, pl.Int64).alias("seq"),
        pl.lit(None, pl.String).alias("dtype"),
        pl.lit(["shape"]).alias("differs"),
        op_reliable=True,
    )
