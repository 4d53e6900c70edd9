"""Where processes stood: the stacks of py-spy, faulthandler, gdb, and who they are of.

A look is one dump of one process. The thread that counts in it is the one that runs
the program: the main thread, unless that only waits for another one, as under Ray or
where a launcher trains in a thread. Dumps name a pid or nothing; the rank is that of
the line's prefix, of the file, of the heading above, or of the pid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import code_places
from ncclforensics.model import tables
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import CITE, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

STACKS = ("stacks.pyspy", "stacks.python", "stacks.ray", "stacks.gdb")
HEADINGS = ("stacks.torch_debug", "stacks.rank")
FATAL = "python.fatal"
PROCESS = "collect.process"
LOOK = ["source", "look"]
THREAD = ["source", "look", "line", "thread"]
SCHEMA = pl.Schema(
    {
        **dict.fromkeys(("rank", "pid", "look", "stack", "depth"), pl.Int64()),
        **dict.fromkeys(("host", "program", "thread"), pl.String()),
        "is_active": pl.Boolean(),
        "function": pl.String(),
        "file": pl.String(),
        "file_line": pl.Int64(),
        "op": pl.String(),
        "peer": pl.Int64(),
        "t": tables.TIME,
        **CITE,
    }
)
ABOVE = 3  # lines from `Fatal Python error` to the first thread


@remembered
def looks(frames: Frames) -> pl.DataFrame:
    """Return the frames of the thread that counts in each look, in SCHEMA.

    `look` is the first line of a look. `op` is the call of torch.distributed, MPI or
    Gloo that the process is in, by its own function's name if need be; `peer` the rank
    that its frame of a message names, `is_active` whether py-spy saw it run. What
    faulthandler prints of a crash is no look.
    """
    lines = _numbered(frames)
    if lines.is_empty():
        return without_rows(SCHEMA)
    known = _of_no_worker(_by_pid(lines, frames), frames)
    chosen = _chosen(_of_no_crash(known, frames))
    return chosen.select(*SCHEMA).cast(SCHEMA).sort("source", "line", "depth")


def lines(frames: Frames) -> pl.DataFrame:
    """Return `source line look` of the lines that head the threads of all looks."""
    found = _numbered(frames)
    at = [*CITE, "look"]
    return found.select(at).unique(maintain_order=True) if found.height else found


def headed(frames: Frames) -> pl.DataFrame:
    """Return `rank host pid source line` of processes whose heading names a rank."""
    found = _numbered(frames) if frames.message(*HEADINGS).height else pl.DataFrame()
    columns = ("rank", "host", "pid", *CITE)
    if not {*columns} <= set(found.columns):
        return without_rows(SCHEMA).select(columns)
    of_process = found.drop_nulls(["rank", "pid"]).select(columns)
    return of_process.unique(["rank", "pid"], maintain_order=True)


def _numbered(frames: Frames) -> pl.DataFrame:
    """Return the frames of all threads with `program` and `look`.

    py-spy heads a process; of the others the main thread ends a look.
    """
    found = frames.message(*STACKS)
    if not {"thread", "is_main", "depth"} <= set(found.columns):
        return pl.DataFrame()
    found = _complete(found).drop_nulls("depth").pipe(_under_headings, frames)
    by_line = found.sort(*CITE, "depth").group_by(*CITE, maintain_order=True)
    heads = by_line.agg(pl.col("program", "rank").first(), pl.col("is_main").any())
    spied = pl.col("program") == "pyspy"
    one = ["source", "program", "rank"]
    ended = (pl.col("is_main") & ~spied).cast(pl.Int64).cum_sum()
    heads = heads.with_columns(ended.shift(1, fill_value=0).over(one).alias("ended"))
    first = pl.col("line").first().over(*one, "ended")
    at = pl.when(spied).then("line").otherwise(first).alias("look")
    return found.join(heads.select(*CITE, at), on=[*CITE], maintain_order="left")


def _complete(lines: pl.DataFrame) -> pl.DataFrame:
    """Add `program`, and the columns that the messages at hand do not capture."""
    numbers = dict.fromkeys(("lwp", "peer"), pl.Int64())
    return tables.with_nulls(lines, numbers).with_columns(
        pl.col("message").str.strip_prefix("stacks.").alias("program"),
        pl.col("is_main").fill_null(False),
    )


def _under_headings(lines: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Fill in rank and host of the last heading above in the file."""
    told = frames.message(*HEADINGS)
    if told.is_empty():
        return lines
    above = told.select("source", "line", *_as("head_", "rank", "host"))
    return (
        lines.sort("line")
        .join_asof(above.sort("line"), on="line", by="source", check_sortedness=False)
        .with_columns(pl.coalesce(c, f"head_{c}").alias(c) for c in ("rank", "host"))
        .drop("head_rank", "head_host")
    )


def _by_pid(lines: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Fill in the pid that gdb shows, and rank and host of the only rank of a pid."""
    of_main = pl.col("lwp").filter("is_main").first().over(LOOK)
    lines = lines.with_columns(pl.coalesce("pid", of_main).alias("pid"))
    known = frames.processes().select("pid", *_as("_", "rank", "host"))
    found = lines.join(known, on="pid", how="left", maintain_order="left")
    return found.with_columns(
        pl.coalesce(c, f"_{c}").alias(c) for c in ("rank", "host")
    )


def _of_no_worker(lines: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Drop the processes that `collect` knows to be workers of a rank.

    A rank stands where its main process does.
    """
    told = frames.message(PROCESS)
    if told.is_empty():
        return lines
    seen = told.filter(~pl.col("is_main")).select("host", "pid", "rank").unique()
    return lines.join(seen, on=["host", "pid", "rank"], how="anti")


def _as(prefix: str, *columns: str) -> list[pl.Expr]:
    return [pl.col(c).alias(f"{prefix}{c}") for c in columns]


def _of_no_crash(lines: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Drop the looks under a line of a fatal error."""
    fatal = frames.message(FATAL).select("source", pl.col("line").alias("_line"))
    if fatal.is_empty():
        return lines
    led = lines.sort("look").join_asof(
        fatal.sort("_line"),
        left_on="look",
        right_on="_line",
        by="source",
        check_sortedness=False,
    )
    below = pl.col("look") - pl.col("_line")
    return led.filter((below > ABOVE).fill_null(True))


def _chosen(lines: pl.DataFrame) -> pl.DataFrame:
    """Keep the thread of each look that runs the program, with `op` and `is_active`."""
    python = code_places.is_python()
    own = python & code_places.is_own()
    ordered = lines.sort(*THREAD, "depth", maintain_order=True)
    threads = ordered.group_by(THREAD, maintain_order=True).agg(
        pl.col("is_main").any(),
        # faulthandler and gdb tell no state
        pl.col("thread_state")
        .drop_nulls()
        .str.contains("active")
        .first()
        .alias("is_active"),
        code_places.called().alias("called"),
        code_places.native_call().drop_nulls().first().alias("native"),
        code_places.named_call().alias("named"),
        pl.col("function").str.contains(code_places.AWAITS).any().alias("awaits"),
        own.any().alias("has_own"),
        pl.struct("function", "file").filter(own).last().alias("entry"),
        pl.col("file").filter(python).first().alias("innermost"),
    )
    parked = pl.col("innermost").str.contains(code_places.PARKED).fill_null(False)
    works = pl.col("has_own") & ~parked
    calls = pl.col("called").is_not_null()
    # a thread that begins as those of its peers do that are in a call
    entries = threads.filter(calls)["entry"].drop_nulls().unique()
    alike = works & pl.col("entry").is_in(entries.implode())
    main = works & pl.col("is_main")
    # a main thread that waits for a queue stands there, whatever a helper does
    waits = pl.col("has_own") & pl.col("is_main")
    first = pl.when(main).then(5).when(calls).then(4).when(alike).then(3)
    worth = first.when(waits).then(2).when(works).then(1).otherwise(0)
    # a helper thread of Gloo is in the call that the main thread awaits
    helper = pl.col("native").drop_nulls().first().over(LOOK)
    best = (
        threads.with_columns(helper.alias("helper"), worth.alias("worth"))
        .sort("worth", "is_main", descending=True, maintain_order=True)
        .unique(LOOK, keep="first", maintain_order=True)
        .with_columns(
            pl.coalesce(
                "called", "native", pl.when("awaits").then("helper"), "named"
            ).alias("op")
        )
    )
    return ordered.join(
        best.select(*THREAD, "op", "is_active"), on=THREAD, maintain_order="left"
    )
