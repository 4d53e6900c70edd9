"""Where in the code each rank stood: tracebacks of timeouts, and py-spy stacks.

Gloo's calls raise where they are made, so the traceback above a timeout shows where its
rank waited; so does the stack that a watchdog prints of the call that failed. In
py-spy's dump a main thread in a torch.distributed call waits there. One in other code
is in no call, unless it waits for its GPU. A traceback out of a signal handler shows
where the rank was when the signal came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import CITE

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

CALLS = r"(?:^|/)torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$"
OPS = (
    r"^(?:all_reduce|broadcast|barrier|monitored_barrier|reduce|gather|scatter"
    r"|i?send|i?recv|batch_isend_irecv|wait_tensor|_store_barrier"
    r"|(?:all_gather|reduce_scatter|all_to_all)\w*|\w+_object(?:_list|s)?)$"
)
# a P2P call waits for one rank, in the order of a pipeline
MESSAGES = r"^(?:i?send|i?recv|batch_isend_irecv|(?:send|recv)_object_list)$"
# members may make these calls at different lines: the root and the others
ROOTED = r"^(?:broadcast|reduce|gather|scatter)(?:_object(?:_list|s)?)?$"
DEVICE = r"torch/cuda/(?:__init__|streams)\.py$"  # the host waits for its GPU
# not user code: torch itself, Python's own modules
LIBRARY = (
    r"(?:^|/)(?:site-packages|dist-packages)/(?:torch|torchvision)/|<frozen |<string>"
    r"|^(?:torch|torchvision)/|/lib(?:64)?/python3[.\d]*/[^/]+$"
)
SITE = ("function", "file", "file_line")
SHOWN = {
    **dict.fromkeys(("source", "function", "file"), pl.String()),
    **dict.fromkeys(("line", "rank", "pid", "file_line", "depth"), pl.Int64()),
    "t": tables.TIME,
}
TRACEBACK, LOOK, FAILED = "python.traceback", "pyspy.process", "c10d.watchdog.stack"
SCHEMA = pl.Schema(
    {
        "rank": pl.Int64(),
        "op": pl.String(),
        "function": pl.String(),
        "file": pl.String(),
        "file_line": pl.Int64(),
        "waits": pl.Boolean(),
        "was_looked_at": pl.Boolean(),
        "stack": pl.UInt64(),
        "t": tables.TIME,
        **CITE,
    }
)


def is_own() -> pl.Expr:
    """Whether a frame's `file` is the user's own, and not a library's."""
    return ~pl.col("file").str.contains(LIBRARY)


@remembered
def sites(frames: Frames) -> pl.DataFrame:
    """Return where each rank stood, in SCHEMA, one row per rank.

    `op` is the torch.distributed function that it called, if shown. `waits` is true if
    the rank was in a call, and false if it was seen in other code. A rank has no row if
    nothing of the user's code is shown.
    """
    found = pl.concat(
        [
            interrupted(frames),
            _raised(frames),
            _shown(frames, FAILED),
            _shown(frames, LOOK),
        ]
    )
    key = pl.struct("file", pl.coalesce("line_of", pl.lit(-1)), "function")
    # the sides of one rooted call may be at two lines of one function
    rooted = pl.col("op").str.contains(ROOTED).fill_null(False)
    return (
        found.drop_nulls(["rank", "file"])
        .unique("rank", keep="first", maintain_order=True)
        .with_columns(pl.when(~rooted).then("file_line").alias("line_of"))
        .with_columns(key.hash(seed=0).alias("stack"))
        .select(*SCHEMA)
        .cast(SCHEMA)
        .sort("rank")
    )


def stacks(frames: Frames) -> pl.DataFrame:
    """Return the rows of the frame `stacks` for the stack numbers in `sites`."""
    seen = sites(frames).unique("stack", keep="first", maintain_order=True)
    return tables.conform(
        "stacks",
        seen.select("stack", pl.lit(0).alias("depth"), *SITE, *CITE),
    )


def _raised(frames: Frames) -> pl.DataFrame:
    """Return the traceback above the first line on each rank's wait."""
    raised = frames.message(TRACEBACK)
    if not {*SITE, "span", "op"} <= set(raised.columns):
        return pl.DataFrame(schema=SCHEMA)
    told = frames["events"].filter(
        (pl.col("role") == "victim") & pl.col("message").str.starts_with("c10d.")
    )
    over = raised.sort("line").select(
        "source", "rank", "line", "span", *SITE, "op", pl.col("line").alias("head")
    )
    joined = (
        told.drop_nulls("rank")
        .sort("line")
        .select("source", "rank", "line", "t")
        .join_asof(over, on="line", by=["source", "rank"], check_sortedness=False)
        .filter(pl.col("line") <= pl.col("head") + pl.col("span").fill_null(0))
        .sort("rank", "source", "line")
    )
    return _as_sites(joined.with_columns(waits=True, was_looked_at=False))


def in_handlers(frames: Frames, lines: pl.DataFrame) -> pl.Series:
    """Say of each of `lines` (with `source line`) whether a signal handler printed it.

    That is what stands in the traceback of an exception that left the handler.
    """
    raised = _signalled(frames)
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


def interrupted(frames: Frames) -> pl.DataFrame:
    """Return where ranks were when a signal came, from tracebacks of its handler."""
    waits = pl.col("op").is_not_null()
    return _as_sites(_signalled(frames).with_columns(waits=waits, was_looked_at=True))


def shown(frames: Frames, message: str) -> pl.DataFrame:
    """Return the stacks that `message` prints frame by frame, one row per stack.

    Columns `source line rank pid t`, `op` (the outermost torch.distributed call in it),
    `synchronizes` (it waits for its GPU) and SITE, the innermost own frame. A stack
    without a rank gets that of its pid, if only one rank has that pid.
    """
    lines = frames.message(message)
    if not {*SITE, "depth"} <= set(lines.columns):
        lines = pl.DataFrame(schema=SHOWN)
    file = pl.col("file")
    in_call = file.str.contains(CALLS) & pl.col("function").str.contains(OPS)
    on_device = file.str.contains(DEVICE) & (pl.col("function") == "synchronize")
    own = is_own() & pl.col("file_line").is_not_null()
    by_pid = frames["ranks"].select("pid", pl.col("rank").alias("_rank")).drop_nulls()
    return (
        lines.sort(*CITE, "depth")
        .group_by(*CITE, maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in ("rank", "pid", "t")),
            pl.col("function").filter(in_call).last().alias("op"),
            on_device.any().alias("synchronizes"),
            *(pl.col(c).filter(own).first() for c in SITE),
        )
        .join(
            by_pid.unique("pid", keep="none"),
            on="pid",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.coalesce("rank", "_rank").alias("rank"))
    )


def _shown(frames: Frames, message: str) -> pl.DataFrame:
    """Return the sites of `shown` stacks, the last look first."""
    seen, looked = shown(frames, message), message == LOOK
    # the host does not show which call its GPU is in
    placed = seen.filter(~pl.col("synchronizes") | pl.col("op").is_not_null())
    waits = pl.col("op").is_not_null() | pl.lit(not looked)
    return _as_sites(placed.with_columns(waits=waits, was_looked_at=looked).reverse())


def _as_sites(frame: pl.DataFrame) -> pl.DataFrame:
    known = frame.with_columns(pl.lit(None, pl.UInt64).alias("stack"))
    return known.select(*SCHEMA).cast(SCHEMA)
