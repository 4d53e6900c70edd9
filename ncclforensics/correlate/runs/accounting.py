"""Keeps what Slurm's tables say of this job: they often list all jobs of a user or day.

`sacct`, `scontrol show job` and their JSON number each job. The job's own output does
so as well, in the lines of slurmstepd and srun, and often in the name of its file.
"""

from __future__ import annotations

import re

import polars as pl

from ncclforensics.correlate.runs.jobs import numbered
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note

STATE, SHOWN = "slurm.state", "slurm.job"
TABLES = r"^slurm\.(?:sacct\..*|state)$"
# printed into the job's own output
OWN = (
    *("slurm.cancelled", "slurm.oom_kill", "slurm.memory_limit", "slurm.step_failed"),
    "slurm.allocation_ended",
)
NOTE = "Slurm's tables list {count} jobs, and nothing says which is this one: left out"


def of_this_job(frames: Frames) -> Frames:
    """Drop the rows of TABLES on other jobs.

    If no job is known and several are listed, all are dropped, with a note.
    """
    names = [name for name in frames.messages if re.match(TABLES, name)]
    rows = [_with_job(frames, name) for name in sorted(names)]
    if not rows:
        return frames
    told = pl.concat(rows)
    listed = told["_job"].drop_nulls().unique()
    known = _of_output(frames)
    if listed.len() < 2 and not known:
        return frames
    known = known or numbered(frames)["job"].cast(pl.String).unique().to_list()
    gone = told.filter(~pl.col("_job").is_in(known).fill_null(True))
    key = ["source", "line", "message"]

    def keep(frame: pl.DataFrame) -> pl.DataFrame:
        if not set(key) <= set(frame.columns):
            return frame
        return frame.join(gone, on=key, how="anti", maintain_order="left")

    kept = {name: keep(frame) for name, frame in frames.messages.items()}
    rest = {**frames.tables, "events": keep(frames["events"])}
    ours = Frames(rest, {name: f for name, f in kept.items() if f.height})
    if known:
        return ours
    text = NOTE.format(count=listed.len())
    return ours.noting(Note("correlate", text, told["source"][0]))


def _with_job(frames: Frames, name: str) -> pl.DataFrame:
    """Return `source line message _job` of the rows of one message."""
    lines = frames.message(name)
    job = pl.col("text").str.extract(r"^\s*(\d+)")
    if name == STATE:
        own = pl.col("job") if "job" in lines.columns else pl.lit(None, pl.String)
        lines = lines.with_columns(own.cast(pl.String).alias("_own"))
        job = pl.col("_own")
        if SHOWN in frames.messages:
            heads = frames.message(SHOWN).select("source", "line", _above="job")
            lines = lines.sort("line").join_asof(
                heads.sort("line"), on="line", by="source", check_sortedness=False
            )
            job = pl.coalesce("_own", pl.col("_above").cast(pl.String))
    return lines.select("source", "line", "message", job.alias("_job"))


def _of_output(frames: Frames) -> list[str]:
    """Return the numbers of jobs that slurmstepd and srun print into their output."""
    own = frames.message(*OWN)
    if "job" not in own.columns:
        return []
    return own["job"].drop_nulls().cast(pl.String).unique().to_list()
