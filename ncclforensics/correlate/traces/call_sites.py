"""Where in the code each rank stood: tracebacks of timeouts, and stack dumps.

Gloo's calls raise where they are made, so the traceback above a timeout shows where its
rank waited; so does the stack that a watchdog prints of the call that failed. In
the dump of a process a thread in a torch.distributed call waits there. One in other
code is in no call, unless it waits for its GPU. A traceback out of a signal handler
shows where the rank was when the signal came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import (
    call_summary,
    code_places,
    process_stacks,
)
from ncclforensics.model import tables
from ncclforensics.model.frames import needing, once_if_empty, remembered
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import CITE

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SITE = ("function", "file", "file_line")
TRACEBACK, FAILED = "python.traceback", "c10d.watchdog.stack"
SHOWN = (TRACEBACK, FAILED, *process_stacks.STACKS)
# ranks, and their share, that stand at one line because they wait
FEWEST, MOST = 3, 2 / 3
CROWD = 9  # by chance in one of 256 looks, if each passes half of its time there
SCHEMA = pl.Schema(
    {
        "rank": pl.Int64(),
        "op": pl.String(),
        "function": pl.String(),
        "file": pl.String(),
        "file_line": pl.Int64(),
        "waits": pl.Boolean(),
        "was_looked_at": pl.Boolean(),
        "toward": pl.Int64(),
        "beside": pl.Boolean(),
        "stack": pl.UInt64(),
        "way": pl.String(),
        "t": tables.TIME,
        **CITE,
    }
)


@remembered
@needing(*SHOWN, otherwise=dict(SCHEMA))
def sites(frames: Frames) -> pl.DataFrame:
    """Return where each rank stood, in SCHEMA, one row per rank.

    `op` is the torch.distributed function that it called, if shown. `waits` is true if
    the rank was in a call, and false if it was seen in other code. `toward` is 1 if its
    message is with the next stage of a pipeline, -1 if with the one before; `beside` is
    true if the code says that this is the next rank. `way` are its frames, see
    `stacks`. A rank has no row if no code of the user is shown.
    """
    found = pl.concat(
        [
            interrupted(frames),
            _raised(frames),
            _failed(frames),
            _looked(frames),
        ]
    )
    known = found.drop_nulls(["rank", "file"])
    if known.is_empty():
        return tables.without_rows(SCHEMA)
    first = known.unique("rank", keep="first", maintain_order=True)
    return _interned(first).select(*SCHEMA).cast(SCHEMA).sort("rank")


@remembered
def of_calls(frames: Frames) -> pl.DataFrame:
    """Return the sites of the calls that ranks timed out in: SCHEMA and `seq`.

    A watchdog prints the stack of a call below the line with its number.
    """
    numbers = frames["positions"].drop_nulls(["rank", "timed_out"])
    numbers = numbers.select("source", "rank", "line", pl.col("timed_out").alias("seq"))
    below = _failed(frames).drop_nulls(["rank", "file"]).sort("line")
    told = below.join_asof(
        numbers.sort("line"), on="line", by=["source", "rank"], check_sortedness=False
    )
    known = _interned(told)
    return known.select(*SCHEMA).cast(SCHEMA).with_columns(known["seq"])


@once_if_empty()
def _interned(sites: pl.DataFrame) -> pl.DataFrame:
    """Return `sites` with the number `stack` of each place."""
    key = pl.struct("file", pl.coalesce("line_of", pl.lit(-1)), "function")
    # the sides of one rooted call may be at two lines of one function
    rooted = pl.col("op").str.contains(code_places.ROOTED).fill_null(False)
    lines = pl.when(~rooted).then("file_line").alias("line_of")
    return sites.with_columns(lines).with_columns(key.hash(seed=0).alias("stack"))


def stacks(frames: Frames) -> pl.DataFrame:
    """Return the rows of the frame `stacks` for the stack numbers in `sites`.

    Of each place they are the frames of the first rank there.
    """
    known = sites(frames)
    if known.is_empty():
        return tables.empty("stacks")
    seen = known.unique("stack", keep="first", maintain_order=True)
    shown = seen.select("stack", *CITE, pl.col("way").str.split("\n")).explode("way")
    part = pl.col("way").str.split("\t").list
    rows = shown.with_columns(
        pl.int_range(pl.len()).over("stack").alias("depth"),
        part.get(0, null_on_oob=True).alias("function"),
        part.get(1, null_on_oob=True).alias("file"),
        part.get(2, null_on_oob=True).cast(pl.Int64, strict=False).alias("file_line"),
    )
    return tables.conform("stacks", rows.drop("way"))


def _raised(frames: Frames) -> pl.DataFrame:
    """Return the traceback above the first line on each rank's wait."""
    raised = frames.message(TRACEBACK)
    if not {*SITE, "span", "op", "toward"} <= set(raised.columns):
        return tables.without_rows(SCHEMA)
    told = frames["events"].filter(
        (pl.col("role") == "victim") & pl.col("message").str.starts_with("c10d.")
    )
    over = (
        raised.lazy()
        .sort("line")
        .select(
            *("source", "rank", "line", "span", *SITE, "op", "toward", "beside", "way"),
            pl.col("line").alias("head"),
        )
    )
    joined = collected(
        told.lazy()
        .drop_nulls("rank")
        .sort("line")
        .select("source", "rank", "line", "t")
        .join_asof(over, on="line", by=["source", "rank"], check_sortedness=False)
        .filter(pl.col("line") <= pl.col("head") + pl.col("span").fill_null(0))
        .sort("rank", "source", "line")
    )
    return _as_sites(joined.with_columns(waits=True, was_looked_at=False))


@needing("collectives", "outline", otherwise=frozenset())
def in_unrecorded(frames: Frames) -> frozenset[int]:
    """Return the ranks that timed out in a message of Gloo, which no dump shows.

    What its dump shows as unfinished is over: Gloo's recorder may miss an end.
    """
    raised = _raised(frames)
    messages = raised.filter(pl.col("op").str.contains(code_places.MESSAGES))
    backends = call_summary.outline(frames)["backend"].drop_nulls().unique()
    only_gloo = backends.len() > 0 and (backends == "gloo").all()
    return frozenset(messages["rank"].drop_nulls()) if only_gloo else frozenset()


def in_handlers(frames: Frames, lines: pl.DataFrame) -> pl.Series:
    """Say of each of `lines` (with `source line`) whether a signal handler printed it.

    That is what stands in the traceback of an exception that left the handler.
    """
    raised = _signalled(frames)
    if raised.is_empty():
        return pl.repeat(value=False, n=lines.height, eager=True)
    inside = pl.int_ranges("line", pl.col("line") + pl.col("span").fill_null(0) + 1)
    printed = raised.select("source", inside.alias("line")).explode("line")
    known = printed.with_columns(inside=True).unique()
    told = lines.join(known, on=["source", "line"], how="left", maintain_order="left")
    return told["inside"].fill_null(False)


def _signalled(frames: Frames) -> pl.DataFrame:
    raised = frames.message(TRACEBACK)
    if not {*SITE, "op", "span", "signalled"} <= set(raised.columns):
        empty = {**SCHEMA, "span": pl.Int64()}
        return pl.DataFrame(schema=empty)
    return raised.filter(pl.col("signalled").fill_null(False))


@needing(TRACEBACK, otherwise=dict(SCHEMA))
def interrupted(frames: Frames) -> pl.DataFrame:
    """Return where ranks were when a signal came, from tracebacks of its handler."""
    waits = pl.col("op").is_not_null()
    return _as_sites(_signalled(frames).with_columns(waits=waits, was_looked_at=True))


@remembered
def looked(frames: Frames) -> pl.DataFrame:
    """Return where each process stood when it was looked at, one row per look.

    Columns `source line rank host pid t`, `op` (the call that it is in), `synchronizes`
    (it waits for its GPU, for its group to be made, or for what no frame shows),
    `calls_cpp` (so do most ranks, at one line), `is_active` (py-spy saw it run) and
    SITE.
    """
    return _with_leaves(process_stacks.looks(frames))


@once_if_empty()
def _with_leaves(seen: pl.DataFrame) -> pl.DataFrame:
    who = ("rank", "host", "pid", "t", "op", "is_active")
    leaves = code_places.may_be_in_cpp().alias("in_cpp")
    spins = code_places.in_torch_itself().alias("spins")
    told = _told(seen, *(pl.col(c).first() for c in who), leaves, spins)
    # calls made in C++ leave no frame: a line at which most ranks stand idle is one, or
    # at which torch reads a result of their GPUs, for which a host may spin; so is one
    # at which so many run that chance does not explain it
    many = pl.col("rank").n_unique().over(SITE)
    most = (many >= FEWEST) & (many >= MOST * pl.col("rank").n_unique())
    idle = pl.col("spins") | ~pl.col("is_active").fill_null(True) | (many >= CROWD)
    idle &= pl.col("in_cpp")
    return told.with_columns(
        (most & idle & pl.col("file").is_not_null()).alias("calls_cpp")
    ).with_columns(pl.col("synchronizes") | pl.col("calls_cpp"))


def _failed(frames: Frames) -> pl.DataFrame:
    """Return the sites of the calls whose stack a watchdog prints, the last first."""
    lines = frames.message(FAILED)
    if not {*SITE, "depth"} <= set(lines.columns):
        return tables.without_rows(SCHEMA)
    op = code_places.called().alias("op")
    told = _told(lines, pl.col("rank").first(), pl.col("t").first(), op)
    return _as_sites(told.with_columns(waits=True, was_looked_at=False).reverse())


def _looked(frames: Frames) -> pl.DataFrame:
    """Return the sites of the looks at processes, the last look first.

    The host does not show which call its GPU is in. Only if nobody is seen in a call,
    those that wait for their GPUs count as waiting in one, wherever their hosts do so.
    """
    return _at_looks(looked(frames))


@once_if_empty()
def _at_looks(seen: pl.DataFrame) -> pl.DataFrame:
    gpu = pl.col("synchronizes") & pl.col("op").is_null()
    if seen["op"].null_count() < seen.height:
        seen = seen.filter(~gpu | pl.col("calls_cpp"))
    seen = seen.with_columns(
        pl.when(gpu).then(pl.col(c).first().over(gpu)).otherwise(c).alias(c)
        for c in SITE
    )
    waits = pl.col("op").is_not_null() | gpu
    return _as_sites(seen.with_columns(waits=waits, was_looked_at=True).reverse())


def _told(lines: pl.DataFrame, *columns: pl.Expr) -> pl.DataFrame:
    """Return a row per stack of `lines`: `columns` and SITE, `way` and two facts.

    `synchronizes`: the host waits for its GPU; `passing`: see `code_places.passing`.
    """
    best = code_places.places()
    return (
        lines.sort(*CITE, "depth")
        .group_by(*CITE, maintain_order=True)
        .agg(
            *columns,
            (code_places.on_device().any() | code_places.in_torch()).alias(
                "synchronizes"
            ),
            pl.coalesce(pl.struct(SITE).filter(p).first() for p in best).alias("site"),
            code_places.passing().drop_nulls().first().alias("passing"),
            pl.concat_str(
                *("function", pl.col("file").fill_null(""), _line_or_nothing()),
                separator="\t",
            )
            .str.join("\n")
            .alias("way"),
        )
        .unnest("site")
    )


def _line_or_nothing() -> pl.Expr:
    return pl.col("file_line").cast(pl.String).fill_null("")


@once_if_empty()
def _as_sites(frame: pl.DataFrame) -> pl.DataFrame:
    known = "passing" in frame.columns
    passing = pl.col("passing") if known else code_places.passing()
    toward = code_places.toward(passing, pl.col("op"))
    if "toward" in frame.columns:
        toward = pl.coalesce("toward", toward)
    sites = tables.with_nulls(
        frame.with_columns(toward.alias("toward")),
        {"beside": pl.Boolean(), "stack": pl.UInt64()},
    )
    return sites.select(*SCHEMA).cast(SCHEMA)
