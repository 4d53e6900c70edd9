"""The signatures of a call's members: which sides there are, and whether sizes add up.

A side is an operation, or the sizes and dtypes of one that needs them equal. Flight
Recorder entries tell it of every member that came, also of those that enqueued the call
behind another one. Of an all_to_all, whose sizes differ in health, all members together
send as many elements as they expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.traces import groupless_timeouts
from ncclforensics.correlate.traces.progress import UNEVEN, grouped
from ncclforensics.evidence import common
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

Aspect = Literal["op", "shape"]
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
SIDES = 2  # at the least, for a difference


@dataclass(frozen=True, slots=True)
class Side:
    """Members of a call that agree on what it is, by `aspect`; where they say so."""

    aspect: Aspect
    what: str
    ranks: tuple[int, ...]
    cites: tuple[Cite, ...]
    stack: int | None


@remembered
def of_calls(frames: Frames) -> dict[int, tuple[Side, ...]]:
    """Return by call the sides that its members take, fewest ranks first.

    Only calls on which they differ: in the operation, or where they agree on one that
    needs equal sizes, in sizes and dtypes.
    """
    told = entries(frames)
    if told.is_empty():
        return {}
    found: dict[int, tuple[Side, ...]] = {}
    for (call,), made in told.group_by("call", maintain_order=True):
        aspects: tuple[Aspect, ...] = ("op", "shape")
        for aspect in aspects:
            sides = _sides(made.drop_nulls([aspect, "rank"]), aspect)
            if len(sides) >= SIDES:
                found[int(str(call))] = sides
                break
    return found


def _sides(made: pl.DataFrame, aspect: Aspect) -> tuple[Side, ...]:
    sides = [
        Side(
            aspect,
            str(what),
            common.numbers(some["rank"]),
            common.cites(some, 3),
            next(iter(some["stack"].drop_nulls()), None),
        )
        for (what,), some in made.group_by(aspect, maintain_order=True)
    ]
    return tuple(sorted(sides, key=lambda side: (len(side.ranks), side.what)))


@remembered
def entries(frames: Frames) -> pl.DataFrame:
    """Return what each member says of the calls that somebody is held in.

    Columns `call rank op shape stack t source line text`; `shape` is null where members
    may differ in it.
    """
    held = frames["calls"].filter(~pl.col("is_p2p").fill_null(False))
    if held.is_empty():
        return pl.DataFrame()
    dumped = _dumped(frames, held)
    # watchdogs spell operations in another way than dumps
    lines = _printed(frames, held).join(dumped, on="call", how="anti")
    return pl.concat([dumped, lines])


def _printed(frames: Frames, held: pl.DataFrame) -> pl.DataFrame:
    """Return what watchdogs print of the calls that they give up, as `entries`."""
    named = grouped(frames["positions"], frames["group_names"])
    lines = named.with_columns(
        pl.coalesce(groupless_timeouts.grouped(frames)["group"], "group").alias("group")
    ).drop_nulls(["timed_out", "op", "rank"])
    if _are_several(lines):
        # lines without a group are of more than one, and compare nothing
        lines = lines.filter(
            ~pl.col("group").str.starts_with(groupless_timeouts.PREFIX)
        )
    even = ~pl.col("op").is_in(UNEVEN) | (pl.col("op") == EVEN_AT_ONCE)
    elements = common.sentence(pl.col("numel_in"), " elements")
    seq = pl.col("timed_out")
    return (
        lines.join(
            held.select("call", "group", "seq", "waiting").explode("waiting"),
            left_on=["group", "timed_out", "rank"],
            right_on=["group", "seq", "waiting"],
        )
        .unique(["call", "rank"], keep="first", maintain_order=True)
        .select(
            *("call", "rank", "op", pl.lit(None, pl.UInt64).alias("stack")),
            *("t", "source", "line"),
            pl.when(even).then(elements).alias("shape"),
            common.sentence(
                "rank ", pl.col("rank"), ": ", pl.col("op"), " SeqNum=", seq
            ).alias("text"),
        )
    )


def _are_several(lines: pl.DataFrame) -> bool:
    """Whether lines that name no group must be of several.

    A rank has another number in its group than in the job, or gave up two calls.
    """
    bare = lines.filter(pl.col("group").str.starts_with(groupless_timeouts.PREFIX))
    numbered = bare.filter(pl.col("group_rank") != pl.col("rank"))
    calls = bare.select("rank", "timed_out").unique()
    return bool(numbered.height or calls["rank"].is_duplicated().any())


def _dumped(frames: Frames, held: pl.DataFrame) -> pl.DataFrame:
    came = held.select(
        *("call", "group", "seq"),
        pl.concat_list("waiting", "behind", "done").alias("rank"),
    ).explode("rank")
    made = (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(came["rank"].unique().implode())
            & pl.col("seq").is_in(held["seq"].unique().implode())
            & ~pl.col("is_p2p").fill_null(False)
        )
        .collect()
        .pipe(grouped, frames["group_names"])
    )
    even = pl.when(~pl.col("op").is_in(UNEVEN) | (pl.col("op") == EVEN_AT_ONCE))
    return made.join(came, on=["rank", "group", "seq"]).select(
        *("call", "rank", "op", "stack", "t", "source", "line"),
        # what is received tells only where all send the same
        pl.when(pl.col("op").str.contains(EXCHANGES))
        .then(_dtypes())
        .when(
            pl.col("op").is_in(ALL_RECEIVE)
            & (_elements("in").n_unique().over("call") == 1)
        )
        .then(common.sentence(_elements("in"), " into ", _elements("out")))
        .fill_null(even.then(_elements("in")))
        .alias("shape"),
        common.sentence(
            "rank ", pl.col("rank"), ": ", pl.col("op"), " SeqNum=", pl.col("seq")
        ).alias("text"),
    )


def _dtypes() -> pl.Expr:
    """Say of what type the elements are, where it is one: `elements of Float`."""
    dtypes = pl.col("in_dtypes").list.unique()
    one = pl.when(dtypes.list.len() == 1).then(dtypes.list.first())
    return pl.concat_str(pl.lit("elements of "), one)


def _elements(side: str) -> pl.Expr:
    """Say what goes "in" or comes "out": `8+8 elements of Float`."""
    words = numels(side).cast(pl.List(pl.String)).list.join("+")
    # dumps up to schema 1.4 hold no dtypes
    dtypes = pl.col(f"{side}_dtypes").list.join(", ")
    return pl.coalesce(
        pl.concat_str(words, pl.lit(" elements of "), dtypes),
        pl.concat_str(words, pl.lit(" elements")),
    )


def numels(side: str) -> pl.Expr:
    """Return the elements of each tensor that goes "in" or comes "out"; scalar: 1."""
    each = pl.element().list.eval(pl.element().product()).list.first().fill_null(1)
    return pl.col(f"{side}_sizes").list.eval(each)
