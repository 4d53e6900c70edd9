"""Two looks: evidence of one rank that was taken twice while its process lived.

A rank that moved between two looks works; one that did not is at a standstill. One look
shows neither. So `looks` is derived here. After that the last look at each rank counts,
and the earlier ones are left out: two states of one rank would be taken for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import (
    dump_motion,
    dump_series,
    duplicate_files,
    log_motion,
    machine_motion,
    process_motion,
    step_motion,
)
from ncclforensics.correlate.traces import call_summary, process_stacks
from ncclforensics.model import tables
from ncclforensics.model.folding import are, count, name_ranks
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# frames that a dump's rows are dropped from; `stacks` are shared with other dumps
OF_A_DUMP = ("templates", "outline", "collectives", "positions", "groups")
FOLDED = 60  # characters of ranks in a note


def last(frames: Frames) -> Frames:
    """Keep the last look at each rank, and add `looks` if a rank has two.

    Earlier dumps stay in `sources` under another kind, with a note. RAS reports and
    logs are kept whole: what reads them expects them to continue.
    """
    spied = log_motion.stacks(frames)
    told = [
        step_motion.with_steps(frames, _without_steps(frames, log_motion.spied(spied))),
        log_motion.reported(frames),
        log_motion.logged(frames),
        process_motion.worked(frames),
        machine_motion.seen(frames),
    ]
    kept = _without_stacks(frames, spied)
    dumps = _several(frames)
    if dumps.height:
        made = dump_series.calls(frames, dumps)
        taken = dump_series.described(frames, dumps, made)
        single = duplicate_files.without_copies(taken)
        pairs = dump_series.paired(single, made, frames)
        newest = pairs.unique("rank", keep="last", maintain_order=True)
        alone = _alone(frames, pairs)
        told = [dump_motion.moved(newest, made, frames), alone, *told]
        twice = taken.join(single, on="source", how="anti")["source"]
        notes = _notes(pairs, twice, alone)
        kept = _without_dumps(kept, pairs["source_a"], twice, notes)
    looks = pl.concat(told)
    if looks.is_empty():
        return kept
    looks = looks.sort("rank", "kind", "source", maintain_order=True)
    return kept.adding(looks=looks)


def _without_steps(frames: Frames, looks: pl.DataFrame) -> pl.DataFrame:
    """Let equal stacks prove nothing of ranks that may have made steps in between."""
    steps = pl.col("rank").is_in(list(process_motion.steps(frames)))
    proves = pl.col("moved") | ~steps
    return looks.with_columns(pl.when(proves).then("moved").alias("moved"))


def _several(frames: Frames) -> pl.DataFrame:
    """Return `source rank` of the dumps of ranks that have more than one."""
    dumps = call_summary.dumps(frames).select("source", "rank")
    if dumps.height < 2:
        return dumps.clear()
    told = [
        frames[name].select("source", "rank").unique()
        for name in ("templates", "positions")
    ]
    known = pl.concat([dumps, *told]).drop_nulls().unique(maintain_order=True)
    known = known.join(dumps, on="source", how="semi", maintain_order="left")
    one = known.filter(pl.len().over("source") == 1)
    return one.filter(pl.len().over("rank") > 1)


def _alone(frames: Frames, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return `looks` rows for the ranks that are only in an earlier look.

    That is known if looks have folders of their own.
    """
    early = pairs["folder_a"].unique()
    early = early.filter(~early.is_in(pairs["folder"].unique().implode()))
    folder = pl.col("source").str.extract(r"^(.*)/").fill_null("")
    rows = call_summary.dumps(frames).filter(
        folder.is_in(early.implode())
        & ~pl.col("rank").is_in(pairs["rank"].unique().implode())
    )
    return tables.conform(
        "looks",
        rows.drop_nulls("rank").select(
            "rank",
            pl.lit("dump").alias("kind"),
            pl.lit("in the earlier look only").alias("what"),
            pl.col("modified").alias("t"),
            "source",
        ),
    )


def _notes(
    pairs: pl.DataFrame, twice: pl.Series, alone: pl.DataFrame
) -> Iterator[Note]:
    if pairs.height:
        ranks = pairs["rank"].n_unique()
        text = (
            f"{count(pairs.height, 'dump')} {are(pairs.height)} earlier snapshots of "
            f"{count(ranks, 'rank')}: compared with the last one, which counts"
        )
        yield Note("correlate", text, pairs["source_a"][0])
    if twice.len():
        many = f"{count(twice.len(), 'dump')} {are(twice.len())}"
        text = f"{many} copies of others and left out"
        yield Note("correlate", text, twice[0])
    if alone.height:
        who = name_ranks(alone["rank"], most=FOLDED)
        text = f"no later snapshot of {who}: it is older than those of the peers"
        yield Note("correlate", text, alone["source"][0])


def _without_dumps(
    frames: Frames,
    earlier: pl.Series,
    twice: pl.Series,
    notes: Iterable[Note],
) -> Frames:
    """Drop the rows of the `earlier` and `twice` dumps, and mark these in `sources`."""
    gone = pl.concat([earlier, twice])
    if gone.is_empty():
        return frames
    theirs = pl.col("source").is_in(gone.implode())
    kept = dict(frames.tables)
    if "entries" in kept:
        templates = frames["templates"].filter(theirs)["template"]
        of_them = pl.col("template").is_in(templates.implode())
        kept["entries"] = frames["entries"].filter(~of_them)
    for name in OF_A_DUMP:
        if name in kept:
            kept[name] = kept[name].filter(~theirs.fill_null(False))
    is_copy = pl.col("source").is_in(twice.implode())
    prefix = (
        pl.when(is_copy).then(pl.lit("a copy, ")).otherwise(pl.lit("earlier look, "))
    )
    kept["sources"] = frames["sources"].with_columns(
        pl.when(theirs)
        .then(pl.concat_str(prefix, "kind"))
        .otherwise("kind")
        .alias("kind"),
        pl.when(theirs).then(None).otherwise("rank").alias("rank"),
    )
    return Frames(kept, frames.messages).noting(*notes)


def _without_stacks(frames: Frames, spied: pl.DataFrame) -> Frames:
    """Drop the earlier looks at a process that was looked at again."""
    if spied.is_empty():
        return frames
    last_ = spied.unique(log_motion.PROCESS, keep="last", maintain_order=True)
    gone = spied.join(last_, on=log_motion.LOOK, how="anti").select(log_motion.LOOK)
    lines = process_stacks.lines(frames).join(gone, on=log_motion.LOOK, how="semi")
    on = log_motion.LINE
    kept = {
        name: frames.messages[name].join(lines, on=on, how="anti")
        for name in process_stacks.STACKS
        if name in frames.messages
    }
    is_stack = pl.col("message").is_in(process_stacks.STACKS)
    events = frames["events"]
    earlier = events.filter(is_stack).join(lines, on=on, how="semi")
    events = events.join(earlier, on=["message", *on], how="anti")
    return Frames({**frames.tables, "events": events}, {**frames.messages, **kept})
