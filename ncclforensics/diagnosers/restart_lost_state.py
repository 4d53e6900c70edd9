"""The job was restarted and began again from the first step: its state was lost.

What it means
    The launcher restarted the job after a failure, but nothing loaded a checkpoint. The
    job looks healthy, and it repeats all work since the start.

How we know
    A restart (torchrun's attempts, `will restart worker group`), and a step counter
    that in the last attempt starts where the first attempt started, although it had
    advanced from there. The last attempt itself did not fail.

What to do
    Load the newest checkpoint on every start, not only where a flag says so. Save
    often, to storage that all nodes see. Count steps from the checkpoint.

Looks like
    A restart that resumed: its counter starts after the first step, maybe where the
    attempt before had resumed as well. An attempt that
    failed again: then that failure is what matters, and this class says nothing.

References
    torchrun: Failure modes, and saving snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.evidence import common
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "launch"
NEEDS = ("python.step",)
MISSING = "no line that counts steps"
NEXT_TIME = "log the step with each loss, and keep the log of each attempt"
EXPLAINS = ("crashed-rank", "gpu-oom", "host-oom", "timeout-masking", "missing-rank")
SPREADS = True

# what an agent logs before new steps; at the level WARNING it does not say `restart`
RESTARTS = ("torchelastic.restart", "torchelastic.failed")
MOST_RESTARTS = 1_000_000  # in one log
FAR = 2  # steps that an earlier attempt must have gone beyond the first step

REMEDY = (
    'ls -lt "$CHECKPOINT_DIR" | head -3; df -hT "$CHECKPOINT_DIR"   # on every node: '
    "the same newest one, on storage that all of them mount?",
    "torch.load(max(Path(checkpoint_dir).iterdir(), key=os.path.getmtime))   "
    "# at every start-up, a restart or not",
    'echo "restart $TORCHELASTIC_RESTART_COUNT on $(hostname)"   '
    "# before training, beside its first step",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report that the last attempt counts from where the first one began."""
    steps = job.steps_of_all(frames)
    if steps.is_empty():
        return
    steps = _with_turns(frames, steps)
    is_last = pl.col("turn") == pl.col("turn").max()
    now = steps.filter(is_last)
    past = _past(frames, steps.filter(~is_last), now)
    if past.is_empty() or _failed_again(frames, now):
        return
    began = int(str(past["first_step"].min()))
    farthest = past.sort("step", maintain_order=True).tail(1)
    reached = int(farthest["step"][0])
    again = now.sort("step", maintain_order=True).head(1)
    step = int(again["step"][0])
    # a count that does not begin at its start shows that a state was loaded
    between = now["step"].unique().sort().diff().drop_nulls().min()
    loaded = between is not None and step > int(str(between))
    if step > began or reached < began + FAR or loaded:
        return
    said = next((m for name in RESTARTS if (m := frames.message(name)).height), again)
    cited = [farthest, said.head(1), again]
    yield Finding(
        slug="restart-lost-state",
        confidence="likely",
        headline=f"the job was restarted and began again at step {step:,}, "
        f"after step {reached:,}",
        evidence=common.cites(
            pl.concat([frame.select("text", "source", "line") for frame in cited])
        ),
        explanation=f"Before the restart it had reached step {reached:,}. The attempt "
        f"after it counts from {step:,} again, where the first one began: no state "
        "was loaded.",
        remedy=REMEDY,
        first_seen=common.first_seen(now),
    )


def _past(frames: Frames, steps: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Return `first_step step text source line`: how far earlier attempts got.

    `steps` are those before `now` in the files of the attempt that is explained.
    """
    first = pl.col("step").alias("first_step")
    here = steps.select(first, "step", "text", "source", "line")
    earlier = pl.col("attempt") < pl.lit(now["attempt"].min())
    left_out = frames["others"].filter(earlier).drop_nulls("step")
    return pl.concat([left_out.select(here.columns), here])


def _with_turns(frames: Frames, steps: pl.DataFrame) -> pl.DataFrame:
    """Add `turn` (i64): the attempt, then the restarts logged before the step.

    Those above it in its file, or before it by the clock in the file of any agent: the
    node that counts anew may have joined with the restart.
    """
    place = ["source", "line"]
    steps = steps.with_columns(pl.col("attempt").fill_null(0))
    logged = frames.message(*RESTARTS)
    if logged.is_empty():
        return steps.with_columns(turn=pl.col("attempt") * MOST_RESTARTS)
    restarts = logged.select("source", pl.col("line").alias("at"), "t")
    beside = steps.join(restarts, on="source").filter(pl.col("line") > pl.col("at"))
    counted = beside.group_by(place).agg(pl.len().alias("_above"))
    times = restarts.drop_nulls("t").sort("t").select("t").with_row_index("_before", 1)
    times = times.unique("t", keep="last", maintain_order=True)
    dated = steps.select("source", "line", "t").drop_nulls("t").sort("t")
    dated = dated.join_asof(times, on="t").drop("t").unique(place)
    number = pl.max_horizontal("_above", "_before").fill_null(0).cast(pl.Int64)
    return (
        steps.join(counted, on=place, how="left", maintain_order="left")
        .join(dated, on=place, how="left", maintain_order="left")
        .with_columns(turn=pl.col("attempt") * MOST_RESTARTS + number)
        .drop("_above", "_before")
    )


def _failed_again(frames: Frames, now: pl.DataFrame) -> bool:
    """Whether something failed after the last attempt began."""
    began = now.group_by("source").agg(pl.col("line").min().alias("began"))
    bad = frames["events"].filter(
        pl.col("role").is_in(["culprit", "victim"])
        | pl.col("message").str.starts_with("torchelastic.child_failed")
        | (pl.col("message") == "python.traceback")
    )
    attempt = now["attempt"].max()
    beside = bad.join(began, on="source", how="left")
    later = beside.filter(
        (pl.col("attempt") == attempt) & (pl.lit(int(str(attempt))) > 0)
        | (pl.col("line") > pl.col("began")).fill_null(False)
        | pl.col("message").str.starts_with("torchelastic.child_failed")
    )
    return later.height > 0
