"""The signatures of a call's members, grouped into sides that agree with each other.

A signature is the operation or, for an operation that needs them equal, the sizes and
dtypes. Flight Recorder entries show it for every member that came, including members
that enqueued the call behind another one. In an all_to_all, sizes differ in healthy
jobs: members are compared by dtype only, and `alltoall_totals` checks the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.traces import call_sites, groupless_timeouts
from ncclforensics.correlate.traces.progress import UNEVEN, grouped
from ncclforensics.evidence import common
from ncclforensics.model import tables
from ncclforensics.model.frames import once_if_empty, remembered

if TYPE_CHECKING:
    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

Aspect = Literal["op", "shape"]
# every member receives, and all receive the same amount
ALL_RECEIVE = (
    *("all_reduce", "_all_gather_base", "_reduce_scatter_base", "reduce_scatter"),
    *("all_gather_single", "reduce_scatter_single", "allreduce_coalesced"),
    *("all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"),
)
# each member has sizes of its own, but all use one dtype
EXCHANGES = r"(?i)^all_?to_?all"
# its sizes differ from step to step, but never from rank to rank: torch turns one with
# an uneven list of outputs into broadcasts
EVEN_AT_ONCE = "all_gather"
# operations that watchdogs and dumps name alike, but for case and underscores
COMPARED = (
    *("allreduce", "broadcast", "reduce", "gather", "scatter", "allgather", "barrier"),
    *("allgatherbase", "reducescatter", "reducescatterbase"),
)
SPELLED = {
    "allgathersingle": "allgatherbase",
    "reducescattersingle": "reducescatterbase",
}
BATCH = "coalesced"  # messages of one batch end with this entry
SIDES = 2  # a difference needs at least two


@dataclass(frozen=True, slots=True)
class Side:
    """Members of a call that agree on `what` it is, by `aspect`, with their cites."""

    aspect: Aspect
    what: str
    ranks: tuple[int, ...]
    cites: tuple[Cite, ...]
    stack: int | None


@remembered
def of_calls(frames: Frames) -> dict[int, tuple[Side, ...]]:
    """Return the sides of each call on which members differ, fewest ranks first.

    Keys are call numbers. Members differ in the operation; or, if they agree on an
    operation that needs equal sizes, in sizes or dtypes.
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
    """Return each member's signature of the calls in which somebody waits.

    Columns `call rank op stack t source line shape text`; `shape` is null where members
    may differ in it. Watchdog lines are used for members without a dump.
    """
    held = frames["calls"].filter(~pl.col("is_p2p").fill_null(False))
    if held.is_empty():
        return pl.DataFrame()
    dumped = _dumped(frames, held)
    if not frames["positions"]["timed_out"].count():
        return dumped.drop("elements")
    lines = _printed(frames, held)
    if lines.is_empty():
        return dumped.drop("elements")
    alone = lines.join(dumped, on="call", how="anti")
    beside = lines.join(dumped, on="call", how="semi")
    beside = beside.join(dumped, on=["call", "rank"], how="anti")
    return pl.concat([dumped, alone, _as_dumped(beside, dumped)]).drop("elements")


def _as_dumped(lines: pl.DataFrame, dumped: pl.DataFrame) -> pl.DataFrame:
    """Spell what watchdogs print of calls as the dumps of other members do.

    An operation or a size that no dump of the call has stays as it is. Operations that
    are known by one spelling only are left out.
    """
    plain = pl.col("op").str.to_lowercase().str.replace_all("_", "")
    plain = plain.replace(SPELLED).alias("plain")
    mine, theirs = lines.with_columns(plain), dumped.with_columns(plain)
    unknown = theirs.filter(~pl.col("plain").is_in(COMPARED))["call"]
    mine = mine.filter(
        pl.col("plain").is_in(COMPARED) & ~pl.col("call").is_in(unknown.implode())
    )
    ops = theirs.unique(["call", "plain"]).select("call", "plain", same_op="op")
    key = ["call", "plain", "elements"]
    sizes = theirs.unique(key).select(*key, same_shape="shape")
    free = theirs.group_by("call", "plain").agg(
        pl.col("shape").is_null().any().alias("uneven")
    )
    told = mine.join(ops, on=["call", "plain"], how="left")
    told = told.join(sizes, on=key, how="left")
    told = told.join(free, on=["call", "plain"], how="left")
    shape = pl.coalesce("same_shape", "shape")
    return told.with_columns(
        pl.coalesce("same_op", "op").alias("op"),
        pl.when(~pl.col("uneven").fill_null(False)).then(shape).alias("shape"),
    ).select(dumped.columns)


def _printed(frames: Frames, held: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that watchdogs report as timed out, in columns of `entries`."""
    named = grouped(frames["positions"], frames["group_names"])
    lines = named.with_columns(
        pl.coalesce(groupless_timeouts.grouped(frames)["group"], "group").alias("group")
    ).drop_nulls(["timed_out", "op", "rank"])
    if _are_several(lines):
        # lines without a group come from several groups and cannot be compared
        lines = lines.filter(
            ~pl.col("group").str.starts_with(groupless_timeouts.PREFIX)
        )
    even = ~pl.col("op").is_in(UNEVEN) | (pl.col("op") == EVEN_AT_ONCE)
    elements = common.sentence(pl.col("numel_in"), " elements")
    seq = pl.col("timed_out")
    places = call_sites.sites(frames).filter("waits").select("rank", "stack")
    # who is held in an earlier call gave this one up as well
    came = held.select(
        "call", "group", "seq", pl.concat_list("waiting", "behind").alias("rank")
    ).explode("rank")
    return (
        lines.join(
            came,
            left_on=["group", "timed_out", "rank"],
            right_on=["group", "seq", "rank"],
        )
        .unique(["call", "rank"], keep="first", maintain_order=True)
        .join(places, on="rank", how="left", maintain_order="left")
        .select(
            *("call", "rank", "op", "stack", "t", "source", "line"),
            pl.when(even).then(elements).alias("shape"),
            common.sentence(
                "rank ", pl.col("rank"), ": ", pl.col("op"), " SeqNum=", seq
            ).alias("text"),
            pl.col("numel_in").cast(pl.Int64).alias("elements"),
        )
    )


def _are_several(lines: pl.DataFrame) -> bool:
    """Whether the lines that name no group must come from several groups.

    They do if a rank's number in its group differs from its number in the job, or if a
    rank timed out in two calls.
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
    made = tables.empty("collectives")
    if frames.has("collectives"):
        numbers = held["seq"].unique()
        before = pl.concat([numbers, numbers - 1]).unique()
        theirs = frames.scan("collectives").filter(
            pl.col("rank").is_in(came["rank"].unique().implode())
            & pl.col("seq").is_in(before.implode())
            & (~pl.col("is_p2p").fill_null(False) | (pl.col("op") == BATCH))
        )
        plain = ~pl.col("is_p2p").fill_null(False)
        made = theirs.filter(plain | _takes_a_number(plain)).collect()
    return _signed(made, came, frames["group_names"])


def _takes_a_number(is_collective: pl.Expr) -> pl.Expr:
    """Whether a batch of messages is known to share its number with no collective.

    torch 2.4 and 2.5 number batches and collectives together. Later versions number
    batches apart, and print the number of the last collective with them: it is lost if
    the entry before that number is.
    """
    own = ["rank", "source", "pg", "pg_desc"]
    alone = is_collective.any().over(*own, "seq").not_()
    return alone & (pl.col("seq") - 1).is_in(pl.col("seq").implode().over(own))


@once_if_empty(decided_by=1)
def _signed(
    made: pl.DataFrame, came: pl.DataFrame, names: pl.DataFrame
) -> pl.DataFrame:
    even = pl.when(~pl.col("op").is_in(UNEVEN) | (pl.col("op") == EVEN_AT_ONCE))
    made = grouped(made, names)
    return made.join(came, on=["rank", "group", "seq"]).select(
        *("call", "rank", "op", "stack", "t", "source", "line"),
        # received sizes can only be compared where all members send the same
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
        numels("in").list.sum().cast(pl.Int64).alias("elements"),
    )


def _dtypes() -> pl.Expr:
    """Return `elements of Float`; null if the elements have more than one dtype."""
    dtypes = pl.col("in_dtypes").list.unique()
    one = pl.when(dtypes.list.len() == 1).then(dtypes.list.first())
    return pl.concat_str(pl.lit("elements of "), one)


def _elements(side: str) -> pl.Expr:
    """Describe the tensors that go "in" or come "out": `8+8 elements of Float`."""
    words = numels(side).cast(pl.List(pl.String)).list.join("+")
    # dumps up to schema 1.4 hold no dtypes
    dtypes = pl.col(f"{side}_dtypes").list.join(", ")
    return pl.coalesce(
        pl.concat_str(words, pl.lit(" elements of "), dtypes),
        pl.concat_str(words, pl.lit(" elements")),
    )


def numels(side: str) -> pl.Expr:
    """Return the element count of each tensor "in" or "out", as a list; scalar: 1."""
    each = pl.element().list.eval(pl.element().product()).list.first().fill_null(1)
    return pl.col(f"{side}_sizes").list.eval(each)
