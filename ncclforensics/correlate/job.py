"""What the evidence says of the job as a whole, and whether anything failed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.tables import Frames

# roles of lines that a healthy job does not print
FAILING = ("culprit", "victim", "either")
# lines that the last ranks of a job print when the first ones have already ended
CLOSING = ("nccl.socket.peer_closed", "nccl.socket.io_failed", "c10d.gloo.closed")
BUFFER = 4096  # what C's stdio hands on at a time where stdout is a file
LAUNCHERS = {"torchelastic": "torchrun", "slurm": "Slurm", "launchers": "mpirun"}


def facts(frames: Frames, world_size: int | None = None) -> dict[str, object]:
    """Return world size, ranks and hosts seen, versions and launcher, or None each."""
    ranks = frames["ranks"]
    hosts = ranks["host"].drop_nulls().unique().sort().to_list()
    if not hosts:
        hosts = frames["events"]["host"].drop_nulls().unique().sort().to_list()
    return {
        "world_size": world_size or _world_size(frames),
        "ranks_seen": ranks.height,
        "hosts": hosts,
        "nccl_version": _one(frames, "nccl.version", "version"),
        "torch_version": None,
        "launcher": _launcher(frames),
    }


def signs_of_failure(frames: Frames) -> int:
    """Count the lines that a healthy job does not print, exits and open calls.

    So is a log whose end never left its buffer: its process was killed, or still runs.
    """
    told = frames["events"].filter(pl.col("role").is_in(FAILING))
    if ended_in_order(frames):
        told = told.filter(~pl.col("message").is_in(CLOSING))
    lines = told.height
    exits = frames["exits"].filter(pl.col("code") != 0).height
    return lines + exits + frames["calls"].height + _cut_by_buffer(frames)


def _cut_by_buffer(frames: Frames) -> int:
    full = (pl.col("bytes") > 0) & (pl.col("bytes") % BUFFER == 0)
    return frames["sources"].filter(pl.col("cut") & full).height


def ended_in_order(frames: Frames) -> bool:
    """Whether the job is known to have ended well: every exit 0, or all groups closed.

    A communicator is closed where each of its ranks printed `Destroy COMPLETE`.
    """
    codes = frames["exits"]["code"].drop_nulls()
    if codes.len():
        return bool((codes == 0).all())
    closed = frames.message("nccl.comm.destroy")
    built = frames.message("nccl.init.complete")
    if "nranks" not in closed.columns or "nranks" not in built.columns:
        return False
    key = ["host", "pid"]
    gone = closed.select(key).unique()
    open_ = built.join(gone, on=key, how="anti", nulls_equal=True)
    size = int(str(built["nranks"].max()))
    return open_.is_empty() and gone.height >= size


def _world_size(frames: Frames) -> int | None:
    """Return the size of the largest group that the evidence knows of."""
    sizes = [frames["groups"]["members"].list.len().max()]
    inits = frames.message("nccl.init.start", "nccl.init.complete")
    if "nranks" in inits.columns:
        sizes.append(inits["nranks"].max())
    known = [int(str(size)) for size in sizes if size]
    return max(known, default=None)


def _one(frames: Frames, message: str, column: str) -> str | None:
    lines = frames.message(message)
    if column not in lines.columns:
        return None
    values = lines[column].drop_nulls().unique().sort().to_list()
    return ", ".join(values[:3]) if values else None


def _launcher(frames: Frames) -> str | None:
    for program, name in LAUNCHERS.items():
        if any(message.startswith(f"{program}.") for message in frames.messages):
            return name
    return None
