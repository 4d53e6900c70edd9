"""What each rank says that it called, as votes on one call of a group.

Three kinds of evidence give it: Flight Recorder entries, the fingerprints that torch
compares under TORCH_DISTRIBUTED_DEBUG=DETAIL, and WorkNCCL's text in watchdog lines.
All have `pg pg_desc seq op shape rank t source line text`; entries name the `call`,
and fingerprints say whether a vote `is_peer`'s, as the printer saw it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.standings import UNEVEN, grouped
from ncclforensics.diagnosers.clues import common, divergence
from ncclforensics.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.frames import Frames

# every member receives, and all of them as much
ALL_RECEIVE = (
    *("all_reduce", "_all_gather_base", "_reduce_scatter_base", "reduce_scatter"),
    *("all_gather_single", "reduce_scatter_single", "allreduce_coalesced"),
    *("all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"),
)
# what each member sends and receives is its own, but all in one type
EXCHANGES = r"(?i)^all_?to_?all"
# its sizes differ from step to step, but never from rank to rank: of one whose list of
# outputs is uneven torch makes broadcasts
EVEN_AT_ONCE = "all_gather"
FEW = 3  # ranks, of which one may be told from the others


@remembered
def entries(frames: Frames) -> pl.DataFrame:
    """Return the votes of Flight Recorder entries of the calls that ranks are held in.

    A call in a circle of waits is none of these: its ranks came to it from different
    places, and the other side of the circle tells more.
    """
    held = frames["calls"].filter(
        ~pl.col("is_p2p").fill_null(False)
        & ~pl.col("call").is_in(sorted(divergence.calls_in_circles(frames)))
    )
    if held.is_empty():
        return pl.DataFrame()
    told = pl.concat_list("waiting", "behind", "done")
    not_told = pl.col("members").list.set_difference(pl.concat_list(told, "absent"))
    came = held.select(
        *("call", "group", "seq"),
        not_told.list.len().fill_null(0).alias("unseen"),
        told.alias("rank"),
    ).explode("rank")
    made = (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(came["rank"].unique().implode())
            & pl.col("seq").is_in(held["seq"].unique().implode())
            & ~pl.col("is_p2p").fill_null(False)
        )
        .collect()
    )
    made = grouped(made, frames["group_names"])
    return made.join(came, on=["rank", "group", "seq"], how="inner").select(
        *("call", "group", "unseen"),
        *("pg", "pg_desc", "seq", "op"),
        # what is received tells only where all send the same
        pl.when(pl.col("op").str.contains(EXCHANGES))
        .then(_dtypes("in"))
        .when(
            pl.col("op").is_in(ALL_RECEIVE)
            & (_elements("in").n_unique().over("call") == 1)
        )
        .then(common.sentence(_elements("in"), " into ", _elements("out")))
        .fill_null(_if_even(_elements("in")))
        .alias("shape"),
        *("rank", "stack", "t", "source", "line"),
        _told(pl.col("seq")).alias("text"),
    )


def _if_even(shape: pl.Expr) -> pl.Expr:
    """Say nothing of an operation whose members may pass different sizes."""
    op = pl.col("op")
    return pl.when(~op.is_in(UNEVEN) | (op == EVEN_AT_ONCE)).then(shape)


def _dtypes(side: str) -> pl.Expr:
    """Say of what type the elements are, where it is one: `elements of Float`."""
    dtypes = pl.col(f"{side}_dtypes").list.unique()
    one = pl.when(dtypes.list.len() == 1).then(dtypes.list.first())
    return pl.concat_str(pl.lit("elements of "), one)


def _elements(side: str) -> pl.Expr:
    """Say what goes "in" or comes "out": `8+8 elements of Float`."""
    numel = pl.col(f"{side}_sizes").list.eval(
        pl.element().list.eval(pl.element().product()).list.first().fill_null(1)
    )
    words = numel.cast(pl.List(pl.String)).list.join("+")
    # dumps up to schema 1.4 hold no dtypes
    dtypes = pl.col(f"{side}_dtypes").list.join(", ")
    return pl.coalesce(
        pl.concat_str(words, pl.lit(" elements of "), dtypes),
        pl.concat_str(words, pl.lit(" elements")),
    )


def fingerprints(frames: Frames) -> pl.DataFrame:
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
        _if_even(shape).alias("shape"),
        pl.coalesce("global", "group_rank").alias("rank"),
        "is_peer",
        "t",
        "source",
        "line",
        "text",
    )


def watchdogs(frames: Frames) -> pl.DataFrame:
    """Return the votes of watchdog lines, by the group that the same rank named.

    torch up to 2.4 names no group. Where each rank told of one call only, and has in
    its group the number that it has in the job, the group is most likely one for all.
    """
    lines = frames["positions"].drop_nulls(["timed_out", "op", "rank"])
    nameless = lines.filter(
        pl.col("pg").is_null() & ~pl.lit(lines["pg"].count() > 0)
    ).unique(["rank", "timed_out", "op", "numel_in"], keep="first", maintain_order=True)
    at_one = nameless["rank"].is_unique().all() and nameless["rank"].len() >= FEW
    of_all = (nameless["group_rank"] == nameless["rank"]).all()
    told = nameless if at_one and of_all else lines.drop_nulls("pg")
    shape = common.sentence(pl.col("numel_in"), " elements")
    return told.select(
        "pg",
        "pg_desc",
        pl.col("timed_out").alias("seq"),
        "op",
        _if_even(shape).alias("shape"),
        "rank",
        "t",
        "source",
        "line",
        _told(pl.col("timed_out")).alias("text"),
    )


def _told(seq: pl.Expr) -> pl.Expr:
    return common.sentence("rank ", pl.col("rank"), ": ", pl.col("op"), " SeqNum=", seq)
