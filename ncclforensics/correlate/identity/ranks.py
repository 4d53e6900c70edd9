"""Maps each global rank to its host, process and GPU, from all evidence together.

Each line and each file makes claims: a `[rank7]:` prefix, the agent's table, the path
of a log, a communicator that spans the whole job. Claims are joined on what identifies
a process (its file, its host and pid) and never on a number that only looks like a
rank: the device, a communicator's own rank, a task that holds several ranks. Claims
that contradict each other become a note, and the value stays unknown.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.exits import containers, exit_records, silent_child
from ncclforensics.correlate.identity import (
    announced_files,
    group_ranks,
    host_names,
    legacy_rank_prefix,
    node_order,
    numbered_files,
    placements,
    process_tables,
    quoted_children,
    rank_claims,
    stated,
)
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, needing
from ncclforensics.model.notes import Note
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import CITE

PARALLEL = "launchers.pdsh.exited"  # implies several nodes, even if one is seen
RANKLESS = {"groups", "stacks", "notes"}  # their ranks are not filled in
TOLD = ("host", "pid", "local_rank", "device", "bus_id")


def identify(frames: Frames) -> Frames:
    """Return frames with `rank` and `host` filled in, one `ranks` row per rank."""
    ranked = group_ranks.as_global(process_tables.placed(host_names.same(frames)))
    ranked = _of_others(ranked, quoted_children.repeated(ranked))
    exited = process_tables.hosts_of_exits(ranked)
    ranked = _filled(ranked, exited, ["source", "pid"], "host")
    children = quoted_children.local_ranks(ranked)
    ranked = _filled(ranked, children, ["source", "line"], "local_rank")
    for told in (quoted_children.ranks, quoted_children.logged):
        ranked = _filled(ranked, told(ranked), ["source", "line"])
    ranked = _filled(ranked, legacy_rank_prefix.speakers(ranked), ["source", "line"])
    claims = rank_claims.claims(ranked)
    for key in (["source"], ["host", "pid"], ["source", "local_rank"]):
        owners = _owners(claims, key)
        if "local_rank" in key:
            owners = owners.join(_shared(ranked, key), on=key, how="anti")
        ranked = _filled(ranked, owners, key)
        claims = rank_claims.claims(ranked)
    if (tasks := _tasks(ranked)) is not None:
        ranked = _filled(ranked, tasks, ["task"])
        claims = rank_claims.claims(ranked)
    if (local := _single_node(claims, ranked)) is not None:
        ranked = _filled(ranked, local, ["local_rank"])
        claims = rank_claims.claims(ranked)
    ranked = _filled(ranked, _beside(ranked, claims), ["source"])
    for stream in (["source"], ["source", "in_pod"]):
        ranked = _filled(ranked, announced_files.owners(ranked, stream), stream)
    numbered = numbered_files.owners(ranked, rank_claims.claims(ranked))
    ranked = _filled(ranked, numbered, ["source"], skip=frozenset())
    claims = rank_claims.claims(ranked)
    if claims["attempt"].drop_nulls().n_unique() <= 1:
        # within one attempt, a host and local rank belong to one rank
        place = ["host", "local_rank"]
        ranked = _filled(ranked, _owners(claims, place), place, skip=frozenset())
        for node in ("source", "host"):
            turns = node_order.owners(rank_claims.claims(ranked), node)
            ranked = _filled(ranked, turns, [node, "local_rank"], skip=frozenset())
        claims = rank_claims.claims(ranked)
        claims = node_order.placed(claims, _owners(claims, place))
    # all rows read from one line belong to one rank
    spoken = ranked["events"].drop_nulls(["rank", "line"])
    ranked = _filled(ranked, _owners(spoken, ["source", "line"]), ["source", "line"])
    ranked = _filled(ranked, silent_child.owners(ranked), ["source", "line"])
    resolved, notes = _resolved(claims)
    known = ranked.adding(ranks=resolved)
    known = _filled(known, placements.by_slots(known), ["rank"], "host")
    known = _filled(known, node_order.in_blocks(known["ranks"]), ["rank"], "host")
    tasks = exit_records.hosts_of_tasks(known)
    resolved = _filled(known, tasks.drop(CITE), ["rank"], "host")["ranks"]
    unheard = tasks.join(resolved, on="rank", how="anti")
    resolved = pl.concat([resolved, tables.conform("ranks", unheard)]).sort("rank")
    hosts = resolved.select("rank", "host").drop_nulls()
    ranked = _filled(ranked, hosts, ["rank"], "host")
    # what a kernel or a list of processes says of a pid that has a host by now
    process = ["host", "pid"]
    there = pl.coalesce("host", rank_claims.only_host(claims))
    owners = resolved.select("rank", there, "pid").drop_nulls()
    ranked = _filled(ranked, owners.unique(process, keep="none"), process)
    ranked = _filled(ranked, containers.owners(ranked["exits"], resolved), [*CITE])
    return ranked.noting(*notes, ranks=resolved)


def _of_others(frames: Frames, told: pl.DataFrame) -> Frames:
    """Return frames in which the lines `told` are of their `rank`, whoever prints them.

    What identifies a process there is of the one that prints.
    """
    if told.is_empty():
        return frames
    theirs = told.rename({"rank": "_theirs"})

    def give(frame: pl.DataFrame) -> pl.DataFrame:
        if not {"source", "line", "rank"} <= {*frame.columns}:
            return frame
        both = frame.join(
            theirs, on=["source", "line"], how="left", maintain_order="left"
        )
        others = pl.col("_theirs") != pl.col("rank").fill_null(-1)
        kept = (
            pl.when(~others.fill_null(value=False)).then(c).alias(c)
            for c in TOLD
            if c in frame.columns
        )
        return both.with_columns(*kept, rank=pl.coalesce("_theirs", "rank")).drop(
            "_theirs"
        )

    return frames.each(give, RANKLESS)


def _denied(claims: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """Return the `source`s whose process other claims give a different rank."""
    if owners.is_empty():
        return owners
    process = ["host", "pid"]
    # a process may have a million lines that all make the same claim
    told = claims.lazy()
    other = told.drop_nulls([*process, "rank"]).select(
        *process, pl.col("rank").alias("other")
    )
    return collected(
        told.drop_nulls(["source", *process])
        .select("source", *process)
        .unique(maintain_order=True)
        .join(other.unique(maintain_order=True), on=process)
        .join(owners.lazy(), on="source")
        .filter(pl.col("other") != pl.col("rank"))
    )


def _owners(claims: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return `key` and `rank` of each `key` that belongs to one rank only.

    A file belongs to one rank if its path says so or if one process wrote it. That only
    one rank prints its name into a shared stream proves nothing. A file does not count
    either if an agent knows its process as another rank: it holds the lines of other
    ranks.
    """
    if any(claims[c].null_count() == claims.height for c in key):
        return claims.clear().select(*key, "rank")
    known = claims.lazy().drop_nulls(key)
    if key == ["source"]:
        whole = known.group_by("source").agg(
            pl.col("rank").drop_nulls().unique().alias("ranks"),
            pl.struct("host", "pid").filter(pl.col("pid").is_not_null()).n_unique(),
            (pl.col("line").is_null() & pl.col("local_rank").is_not_null()).any(),
            pl.col("local_rank").drop_nulls().n_unique(),
        )
        alone = pl.col("local_rank") <= 1
        one = ((pl.col("host") == 1) & alone) | pl.col("line")
        owners = collected(
            whole.filter(one & (pl.col("ranks").list.len() == 1)).select(
                "source", pl.col("ranks").list.first().alias("rank")
            )
        )
        return owners.join(_denied(claims, owners), on="source", how="anti")
    return collected(
        known.drop_nulls("rank")
        .group_by(key)
        .agg(pl.col("rank").unique().alias("ranks"))
        .filter(pl.col("ranks").list.len() == 1)
        .select(*key, pl.col("ranks").list.first().alias("rank"))
    )


def _beside(frames: Frames, claims: pl.DataFrame) -> pl.DataFrame:
    """Return `source rank` of files beside a known file in torchrun's `--log-dir`.

    A process writes stdout.log and stderr.log to one folder; either may show its rank.
    """
    folder = (
        pl.col("source").str.extract(r"^(.*attempt_\d+/\d+)/[^/]+$").alias("folder")
    )
    known = _owners(claims, ["source"]).with_columns(folder).drop_nulls("folder")
    if known.is_empty():
        return known.select("source", "rank")
    one = known.group_by("folder").agg(pl.col("rank").unique())
    one = one.filter(pl.col("rank").list.len() == 1).explode("rank")
    files = frames["sources"].select("source", folder).unique("source")
    return files.join(one, on="folder").select("source", "rank")


@needing("events", otherwise=None)
def _tasks(frames: Frames) -> pl.DataFrame | None:
    """Return `task rank` if each launcher task is shown to be one rank, else None.

    Under torchrun a task is a node's agent, unless each states the rank that is its
    number. Every known rank must equal its task, each task must have one process, and
    at least one rank must be known.
    """
    said = stated.stated(frames).select(*CITE, "told").unique([*CITE], keep="none")
    lines = (
        frames["events"]
        .filter(pl.col("task").is_not_null())
        .join(said, on=[*CITE], how="left", maintain_order="left")
        .with_columns(pl.coalesce("rank", "told").alias("rank"))
    )
    both = lines.drop_nulls("rank")
    agents = any(name.startswith("torchelastic.") for name in frames.messages)
    shared = lines.group_by("task").agg(pl.col("pid").drop_nulls().n_unique())
    all_say = both["task"].n_unique() == lines["task"].n_unique() > 1
    if (
        both.is_empty()
        or (not all_say and (agents or lines["local_rank"].count()))
        or (both["rank"] != both["task"]).any()
        or (shared["pid"] > 1).any()
    ):
        return None
    return lines.select("task", pl.col("task").alias("rank")).unique()


def _single_node(claims: pl.DataFrame, frames: Frames) -> pl.DataFrame | None:
    """Return `local_rank rank`, both equal, if one agent ran the whole job.

    None otherwise.
    """
    local = claims.drop_nulls("local_rank")
    if local.is_empty():
        return None
    both = local.drop_nulls("rank")
    hosts = claims["host"].drop_nulls().n_unique()
    agents = frames.message("torchelastic.child_failed")["source"].n_unique()
    highest = claims["rank"].max()
    top = max(int(str(local["local_rank"].max() or 0)), _children(frames) - 1)
    same = both.filter(pl.col("rank") != pl.col("local_rank")).is_empty()
    beyond = isinstance(highest, int) and highest > top
    several = hosts > 1 or agents > 1 or not frames.message(PARALLEL).is_empty()
    if several or not same or beyond:
        return None
    folders = (
        frames["sources"]
        .filter(pl.col("local_rank").is_not_null())
        .select(pl.col("source").str.extract(r"^(.*?/?)attempt_\d+/"))["source"]
    )
    if folders.n_unique() > 1:
        return None
    ranks = local.select("local_rank").unique()
    return ranks.with_columns(pl.col("local_rank").alias("rank"))


def _children(frames: Frames) -> int:
    """Count the processes that an agent ended or saw fail; 0 if it restarted some."""
    told = exit_records.told_to_end(frames)["child"]
    if frames.message("torchelastic.restart").height or told.is_empty():
        return 0
    failed = frames["exits"].filter(pl.col("reported_by") == "torchelastic")["pid"]
    return pl.concat([told, failed]).drop_nulls().n_unique()


@needing("events", otherwise={"source": pl.String(), "local_rank": pl.Int64()})
def _shared(frames: Frames, key: list[str]) -> pl.DataFrame:
    """Return the values of `key` in whose lines several hosts are named."""
    lines = frames["events"].drop_nulls([*key, "host"])
    hosts = lines.group_by(key).agg(pl.col("host").n_unique())
    return hosts.filter(pl.col("host") > 1).select(key)


def _filled(
    frames: Frames,
    owners: pl.DataFrame,
    key: list[str],
    column: str = "rank",
    skip: frozenset[str] = frozenset({"sources"}),
) -> Frames:
    """Return frames with nulls of `column` filled from `owners`, by `key`.

    Of a key with several rows, as a traceback that several ranks raised, there is a row
    for each. The rank in `sources` is the one that a file's name tells.
    """
    if owners.is_empty():
        return frames
    theirs = owners.lazy().rename({column: "_theirs"})

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        columns = frame.columns
        if not {column, *key} <= {*columns} or not frame[column].null_count():
            return frame
        if any(frame[c].null_count() == frame.height for c in key):
            return frame
        filled = collected(
            frame.lazy()
            .join(theirs, on=key, how="left", maintain_order="left")
            .select(
                pl.coalesce(c, "_theirs").alias(c) if c == column else c
                for c in columns
            )
        )
        same = filled[column].null_count() == frame[column].null_count()
        return frame if same else filled

    told = frames.each(fill, skip | (RANKLESS if column == "rank" else set()))
    # what was asked of the frames before is known of them, if they stay the same
    return frames if told.holds_the_same_as(frames) else told


def _resolved(claims: pl.DataFrame) -> tuple[pl.DataFrame, list[Note]]:
    """Return one row per rank, and notes on conflicts, which become null."""
    known = claims.lazy().drop_nulls("rank").filter(pl.col("rank") >= 0)
    # after a restart the last attempt counts; the log of its agent names no attempt
    attempt = pl.col("attempt")
    current = known.filter(attempt.is_null() | (attempt == attempt.max().over("rank")))
    values = collected(
        current.group_by("rank").agg(
            *(pl.col(c).drop_nulls().unique(maintain_order=True) for c in TOLD),
            pl.col("attempt").max(),
            *(pl.col(c).first() for c in CITE),
        )
    )
    one = collected(
        values.lazy()
        .with_columns(
            pl.when(pl.col(c).list.len() == 1).then(pl.col(c).list.first()).alias(c)
            for c in TOLD
        )
        .sort("rank")
    )
    # only host and GPU mark a conflict: pids differ because a process forks helpers
    torn = [
        Note(
            "correlate",
            f"rank {row['rank']} is claimed by {len(row[c])} {what}: "
            f"{', '.join(sorted(row[c])[:4])}",
            row["source"],
            row["line"],
        )
        for c, what in (("host", "hosts"), ("bus_id", "GPUs"))
        if (values[c].list.len() > 1).any()
        for row in values.filter(pl.col(c).list.len() > 1).sort("rank").to_dicts()
    ]
    return tables.conform("ranks", one), torn
