"""Restarts: evidence of several attempts of one job, separated before comparison.

An elastic agent restarts all workers under new pids, and sequence numbers start over.
The attempt of a row is known from the path (`attempt_1/`), from the number of the
agent's `failed (exitcode: …)` lines above it, or from a new communicator of all ranks
on the same GPUs under new pids. The attempt to explain is the last one that began to
work: one that could not even connect shows how the restart failed, not the original
failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.traces import communicators
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, needing
from ncclforensics.model.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED = "torchelastic.failed"
# printed once by an agent: when it starts, and when it gives up
ONCE = ("torchelastic.started", "torchelastic.child_failed")
RAISED = ("python.traceback", "torchelastic.error_file")
# an attempt with only these failures never began to work
START_UP = (
    r"^(?:c10d\.(?:store\.(?:connect|bind|missing|unresolved|wait_timeout)|env_missing"
    r"|gloo\.connect_failed)|torchelastic\.rendezvous\.(?:failed|lost|left)"
    r"|nccl\.bootstrap\.)"
)
WORKED = r"^(?:nccl\.init\.complete|nccl\.coll$|c10d\.(?:watchdog|desync|fingerprint))"
BOUND = {"source": pl.String(), "line": pl.Int64(), "_attempt": pl.Int64()}
NOT_SPLIT = ("sources", "notes", "ranks", "stacks", "entries")


def labelled(frames: Frames) -> Frames:
    """Fill in `attempt` where lines show it; note communicators of two jobs."""
    bounds = pl.concat([_by_agent(frames), _by_wave(frames)])
    told = frames.noting(*_two_jobs(frames))
    if bounds.is_empty():
        return told
    bounds = bounds.unique(["source", "line"], keep="first").sort("line")
    split = bounds["source"].unique().implode()

    def label(frame: pl.DataFrame) -> pl.DataFrame:
        if not {"attempt", "line", "source"} <= set(frame.columns) or frame.is_empty():
            return frame
        numbered = frame.with_row_index("_row").sort("line", maintain_order=True)
        found = numbered.join_asof(
            bounds, on="line", by="source", check_sortedness=False
        )
        first = pl.when(pl.col("source").is_in(split)).then(0)
        attempt = pl.coalesce("attempt", "_attempt", first).cast(pl.Int64)
        return (
            found.with_columns(attempt.alias("attempt"))
            .sort("_row")
            .drop("_row", "_attempt")
        )

    return told.each(label, NOT_SPLIT)


def last(frames: Frames, wanted: int | None = None) -> Frames:
    """Keep the rows of the attempt to explain, or of the one that is `wanted`.

    Each other attempt leaves a note and a row in `others`. Rows of unknown attempt are
    kept.
    """
    seen = frames["events"].drop_nulls("attempt")
    numbers = sorted(seen["attempt"].unique().to_list())
    if len(numbers) < 2:
        return frames
    worked = [n for n in numbers if _worked(seen.filter(pl.col("attempt") == n))]
    chosen: int = max(worked or numbers)
    if wanted is not None and wanted in numbers:
        chosen = wanted
    theirs = frames["sources"].drop_nulls("attempt")
    files = theirs.filter(pl.col("attempt") != chosen)["source"].unique().implode()

    def keep(frame: pl.DataFrame) -> pl.DataFrame:
        if "attempt" in frame.columns:
            return frame.filter(
                pl.col("attempt").eq_missing(chosen) | pl.col("attempt").is_null()
            )
        return frame.filter(~pl.col("source").is_in(files).fill_null(False))

    notes = [_note(frames, n, chosen) for n in numbers if n != chosen]
    kept = {
        name: frame if name in NOT_SPLIT else keep(frame)
        for name, frame in frames.tables.items()
    }
    left = pl.DataFrame({"attempt": [n for n in numbers if n != chosen]})
    left = left.join(_reached(frames), on="attempt", how="left", maintain_order="left")
    kept["others"] = pl.concat([frames["others"], tables.conform("others", left)])
    messages = {name: keep(frame) for name, frame in frames.messages.items()}
    return Frames(kept, messages).noting(*notes)


def _reached(frames: Frames) -> pl.DataFrame:
    """Return `attempt first_step step text source line`: how far each attempt got."""
    steps = job.steps_of_all(frames).drop_nulls("attempt").sort("source", "line")
    if steps.is_empty():
        return pl.DataFrame(schema={"attempt": pl.Int64()})
    last = pl.col("text", "source", "line").sort_by("step", maintain_order=True).last()
    return steps.group_by("attempt").agg(
        pl.col("step").min().alias("first_step"), pl.col("step").max(), last
    )


def _worked(events: pl.DataFrame) -> bool:
    """Whether an attempt got further than the rendezvous of its processes."""
    message = events["message"]
    if message.str.contains(WORKED).any():
        return True
    return not message.str.contains(START_UP).any()


def _note(frames: Frames, number: int, chosen: int) -> Note:
    events = frames["events"].filter(pl.col("attempt") == number)
    first = events.sort("source", "line").row(0, named=True)
    raised = frames.message(*RAISED).filter(pl.col("attempt") == number)
    says = ""
    if "exception" in raised.columns and "message_text" in raised.columns:
        named = pl.concat_str("exception", pl.lit(": "), "message_text")
        texts = raised.select(named.str.head(80)).to_series().drop_nulls()
        shown = texts.unique(maintain_order=True).head(3).to_list()
        says = f" (it raised {'; '.join(shown)})" if shown else ""
    what = "an earlier attempt" if number < chosen else "a later one that never began"
    text = f"attempt {number} is left out, {what}{says}"
    return Note("correlate", text, first["source"], first["line"])


@needing(FAILED, otherwise=BOUND)
def _by_agent(frames: Frames) -> pl.DataFrame:
    """Return `source line _attempt`: attempt n begins after an agent's failure n."""
    lines = frames.message(FAILED).filter(pl.col("attempt").is_null())
    # failures that several agents log to one stream are of one attempt
    agents = frames["events"].filter(pl.col("message").is_in(ONCE))
    printed = agents.group_by("source", "message").len().group_by("source")
    alone = lines.join(
        printed.agg(pl.col("len").max()).filter(pl.col("len") == 1),
        on="source",
        how="semi",
    )
    # the last failure is followed by the table of that same attempt
    return (
        alone.sort("source", "line")
        .with_columns(pl.int_range(1, pl.len() + 1).over("source").alias("_attempt"))
        .filter(pl.col("line") < pl.col("line").max().over("source"))
        .select("source", pl.col("line") + 1, pl.col("_attempt").cast(pl.Int64))
    )


@needing(*communicators.INITS, otherwise=BOUND)
def _by_wave(frames: Frames) -> pl.DataFrame:
    """Return `source line _attempt`: where new processes replace earlier ones.

    There a rank of the communicator of all ranks has the same GPU and another pid than
    before, in one stream.
    """
    known = communicators.inits(frames).filter(pl.col("attempt").is_null())
    world = known.filter(pl.col("nranks") == pl.col("nranks").max())
    world = world.drop_nulls(["pid", "bus_id", "key"]).filter(pl.col("nranks") > 1)
    places = world.group_by("comm_rank").agg(
        pl.struct("host", "bus_id").n_unique().alias("gpus")
    )
    if places.is_empty() or int(str(places["gpus"].max())) > 1:
        return pl.DataFrame(schema=BOUND)
    shared = world.filter(pl.col("comm_rank").n_unique().over("source") > 1)
    born = shared.group_by("source", "comm_rank", "pid").agg(pl.col("line").min())
    waves = born.with_columns(
        (pl.col("line").rank("dense").over("source", "comm_rank") - 1)
        .cast(pl.Int64)
        .alias("_attempt")
    )
    return (
        waves.filter(pl.col("_attempt") > 0)
        .group_by("source", "_attempt")
        .agg(pl.col("line").min())
        .select("source", "line", "_attempt")
    )


def _two_jobs(frames: Frames) -> Iterator[Note]:
    """Yield a note on communicators of all ranks that share no process."""
    members = communicators.strangers(frames)
    if members.is_empty():
        return
    row = members.row(0, named=True)
    keys = ", ".join(members["key"].to_list()[:4])
    many = f"{members.height} jobs or attempts of {row['nranks']} ranks"
    text = f"{many} are mixed here: communicators {keys} share no process"
    yield Note("correlate", text, row["source"], row["line"])
