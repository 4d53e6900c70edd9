"""Jobs: evidence of several in one directory, separated before it is compared.

A scheduler numbers jobs, and file names carry the number. Such a number may also be a
pid or a date: two numbers are two jobs only if the files of each hold lines of most
ranks. The last job that failed is the one to explain. Files without a number, such as a
kernel log, belong to all jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import failing
from ncclforensics.correlate.traces import call_summary, communicators
from ncclforensics.model import tables
from ncclforensics.model.errors import UsageError
from ncclforensics.model.frames import Frames, needing
from ncclforensics.model.notes import Note
from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from collections.abc import Iterable

# slurm-50917.out, train-50917.err, 50917_3.out, job_50917/…; no date, no NCCL file
NUMBER = (
    r"(?i)(?:^|/)(?:job[-_.]?)?([0-9]{4,9})(?:[-_.][^/]*)?/|(?:^|/)(?:[a-z][a-z0-9.]*[-_.])*?"
    r"([0-9]{4,9})(?:[-_.][0-9]+)?\.(?:out|err|log)(?:\.gz)?$|\.[oe]([0-9]{4,9})$"
)
DIGITS = r"[0-9]{4}"  # of a number
NO_NUMBER = r"(?i)^(?:19|20)\d\d(?:\d{4})?$"
OF_A_PROCESS = r"(?i)(?:^|/)nccl|(?:^|/)(?:dmesg|kern|journal|syslog)|pid"
# of a rank; messages share a number, and so do the calls of a coalesced group
CALL = ("rank", "pg_id", "is_p2p", "seq", "p2p_seq", "op_id", "op")
MOST_FOLDERS = 6  # nesting depth
MOST = 0.5  # share of the ranks that numbered files have
NONE = pl.DataFrame(
    schema={"source": pl.String(), "job": pl.Int64(), "name": pl.String()}
)
PART = {"key": pl.String(), "source": pl.String(), "rank": pl.Int64()}


def last(frames: Frames, wanted: str | None = None) -> Frames:
    """Keep the rows of the job to explain, or of the one that is `wanted`.

    Each other job leaves a note and a row in `others`.
    """
    numbers, jobs = numbered(frames), []
    if numbers.height:
        told = _ranks(frames).join(numbers, on="source")
        known = told["rank"].n_unique()
        counts = told.group_by("job").agg(pl.col("rank").n_unique())
        jobs = counts.filter(pl.col("rank") > MOST * known)["job"].sort().to_list()
    if len(jobs) < 2 or _are_looks(frames, numbers):
        numbers = _folders(frames)
        jobs = numbers["job"].unique().sort().to_list()
    if len(jobs) < 2:
        return frames
    failed = failing(frames).join(numbers, on="source")
    wrong = [job for job in jobs if (failed["job"] == job).any()]
    chosen: int = max(wrong or jobs)
    names: dict[int, str] = dict(numbers.select("job", "name").unique().iter_rows())
    chosen = next((job for job in jobs if names[job] == wanted), chosen)
    others = [job for job in jobs if job != chosen]
    gone = numbers.filter(pl.col("job").is_in(others))["source"]
    dumps, owner = _dumps_of_one(frames, numbers)
    if chosen != owner and not (owner is None and wanted is None):
        gone = pl.concat([gone, dumps])
    notes = [_note(job, numbers, failed, names[chosen]) for job in others]
    kept = _without(frames, gone, notes)
    left = tables.rows(
        "others", [{"job": names[job], "attempt": None} for job in others]
    )
    return kept.adding(others=left)


def _dumps_of_one(
    frames: Frames, numbers: pl.DataFrame
) -> tuple[pl.Series, int | None]:
    """Return the dumps that no name assigns to a job, and the job that ran then.

    The job is None if times do not show one. The dumps are then of the job to explain,
    and of no other.
    """
    named = pl.col("source").is_in(numbers["source"].implode())
    dumps = call_summary.dumps(frames).filter(~named)["source"]
    calls = call_summary.outline(frames).filter(pl.col("source").is_in(dumps.implode()))
    first, last = calls["t"].min(), calls["t"].max()
    if first is None:
        return dumps, None
    ran = (
        frames["events"]
        .select("source", "t")
        .drop_nulls()
        .join(numbers, on="source")
        .group_by("job")
        .agg(pl.col("t").min().alias("began"), pl.col("t").max().alias("ended"))
        .filter((pl.col("began") <= last) & (pl.col("ended") >= first))["job"]
    )
    return dumps, ran[0] if ran.len() == 1 else None


def without_dumps(frames: Frames) -> Frames:
    """Leave out the dumps: each attempt overwrites them, so they are the last one's."""
    return _without(frames, call_summary.dumps(frames)["source"], ())


def find(frames: Frames, part: str) -> tuple[str | None, int | None]:
    """Return the job and the attempt that `part` names, as `correlate` takes them.

    `frames` are those of the job and attempt that are explained; if `part` names these,
    both are None. Raises UsageError on a name that is neither here nor in `others`.
    """
    others = frames["others"].select("job", "attempt").rows()
    named = {str(n) if job is None else job: (job, n) for job, n in others}
    own = frames["events"]["attempt"].drop_nulls().unique().cast(pl.String)
    if part not in named and part not in {*own, *numbered(frames)["name"]}:
        parts = ", ".join(sorted({*named, *own})) or "one run, without a name"
        raise UsageError(f"no job or attempt {part!r} in this evidence; it has {parts}")
    return named.get(part, (None, None))


def numbered(frames: Frames) -> pl.DataFrame:
    """Return `source job name`: the job number in a file's path, if it has one."""
    name = pl.col("source")
    names = frames["sources"].filter(name.str.contains(DIGITS)).select(name)
    if names.is_empty():
        return NONE
    found = name.str.extract_groups(NUMBER).struct
    # the number in such a file's name is a process or a host
    file = pl.when(~name.str.contains(OF_A_PROCESS)).then(
        pl.coalesce(found.field("2"), found.field("3"))
    )
    number = pl.coalesce(found.field("1"), file)
    return collected(
        names.lazy()
        .unique(maintain_order=True)
        .with_columns(number.alias("number"))
        .drop_nulls("number")
        .filter(~pl.col("number").str.contains(NO_NUMBER))
        .select(
            "source",
            pl.col("number").cast(pl.Int64).alias("job"),
            pl.col("number").alias("name"),
        )
    )


def _folders(frames: Frames) -> pl.DataFrame:
    """Return `source job name`: the folder of a job, if each is known to have one.

    That is known if communicators share no process, if torchrun started a rank twice,
    if two agents had the same rank, or if two dumps of a rank hold different calls.
    Jobs are numbered by start time.
    """
    parts = pl.col("source").str.split("/")
    met = communicators.strangers(frames)
    files = tables.without_rows(PART)
    if met.height:
        met = met.explode("sources")
        files = met.select("key", source="sources", rank=pl.lit(None, pl.Int64))
    for told in (_launches, _agents, _dumps):
        files = files if files.height else told(frames)
    if files.is_empty():
        return NONE
    for depth in range(1, MOST_FOLDERS):
        name = parts.list.head(depth).list.join("/")
        # `name` must be a folder, and a folder above all of them is of no one job
        inside = files.filter(parts.list.len() > depth).with_columns(name.alias("name"))
        if inside["name"].n_unique() > 1:
            break
    folders = inside.select("key", "name").unique()
    twice = inside.drop_nulls("rank").select("name", "rank").is_duplicated().any()
    ours = met.is_empty() or folders["name"].is_unique().all()
    if inside.height < files.height or not folders["key"].is_unique().all():
        folders = folders.clear()
    if twice or not ours:
        folders = folders.clear()
    placed = frames["sources"].select("source", name.alias("name"))
    placed = placed.join(folders, on="name", how="semi", maintain_order="left")
    times = frames["events"].select("source", t=pl.coalesce("t", "yearless"))
    began = (
        placed.join(times, on="source", how="left")
        .group_by("name")
        .agg(pl.col("t").min())
        .sort("t", "name")
        .with_row_index("job")
        .select("name", pl.col("job").cast(pl.Int64))
    )
    return placed.join(began, on="name").select("source", "job", "name")


@needing("events", otherwise=PART)
def _launches(frames: Frames) -> pl.DataFrame:
    """Return `key source rank`: torchrun's log folders, if it started a rank twice.

    Each launch on each host creates a folder with a unique name. In its first attempt
    each process has one stderr file there.
    """
    own = frames["sources"].filter(
        (pl.col("stream") == "stderr")
        & (pl.col("attempt") == 0)
        & pl.col("local_rank").is_not_null()
    )
    if own.is_empty():
        return tables.without_rows(PART)
    key = pl.col("source").str.extract(r"^(.*)/attempt_0/")
    heard = frames["events"].select("source", "rank").drop_nulls().unique()
    ranks = heard.filter(pl.len().over("source") == 1)
    files = own.select(key.alias("key"), "source").join(ranks, on="source", how="left")
    keys = files.drop_nulls().group_by("rank").agg(pl.col("key").n_unique())
    return files if (keys["key"] > 1).any() else files.clear()


@needing("exits", otherwise=PART)
def _agents(frames: Frames) -> pl.DataFrame:
    """Return `key source rank`: agents' logs, if two of them had the same rank.

    Each must then name another process for it.
    """
    ended = frames["exits"].filter(pl.col("reported_by") == "torchelastic")
    told = ended.select(key="source", source="source", rank="rank", pid="pid")
    told = told.drop_nulls().unique(maintain_order=True)
    of = told.group_by("rank").agg(pl.col("key", "pid").n_unique())
    found = of.filter((pl.col("key") > 1) & (pl.col("pid") > 1))
    return told.drop("pid") if found.height else told.drop("pid").clear()


@needing("outline", "collectives", otherwise=PART)
def _dumps(frames: Frames) -> pl.DataFrame:
    """Return `key source rank`: dumps, if two of a rank date one call differently.

    A call keeps its time in every dump of its process. Of several looks at one process,
    in separate folders, only the last is returned.
    """
    told = _dated(frames)
    dated = told.group_by(CALL).agg(pl.col("source", "t").n_unique())
    strange = dated.filter((pl.col("source") > 1) & (pl.col("t") > 1))
    folder = pl.col("source").str.extract(r"^(.*)/").fill_null("")
    files = told.select(folder.alias("key"), "source", "rank").unique()
    if strange.is_empty():
        return files.clear()
    newest = told.group_by("source").agg(pl.col("t").max()).sort("t", "source")
    later = pl.col("source").last().over(*CALL, "t")
    looks = told.join(newest.with_row_index("age").drop("t"), on="source").sort("age")
    earlier = looks.filter(pl.col("source") != later)["source"].unique()
    return files.filter(~pl.col("source").is_in(earlier.implode()))


def _dated(frames: Frames) -> pl.DataFrame:
    """Return `source t` and CALL of the calls in dumps that tell when they began."""
    told = call_summary.outline(frames).select("source", "t", *CALL)
    return told.drop_nulls(["source", "t", *CALL[:4]])


@needing("outline", "collectives", otherwise=False)
def _are_looks(frames: Frames, numbers: pl.DataFrame) -> bool:
    """Whether numbers are of looks at one job: a call in the dumps of two has one time.

    Collectors name folders and archives by the time of day.
    """
    told = _dated(frames).join(numbers, on="source")
    both = told.group_by(*CALL, "t").agg(pl.col("job").n_unique())
    return bool((both["job"] > 1).any())


def _ranks(frames: Frames) -> pl.DataFrame:
    """Return `source rank`: the ranks whose lines a file holds, if lines show it."""
    events = frames["events"]
    parts = [
        events.select("source", pl.coalesce("rank", "task").alias("rank")),
        communicators.inits(frames).select("source", pl.col("comm_rank").alias("rank")),
        frames["sources"].select("source", "rank"),
    ]
    return pl.concat(parts).drop_nulls().unique()


def _note(job: int, numbers: pl.DataFrame, failed: pl.DataFrame, chosen: str) -> Note:
    mine = numbers.filter(pl.col("job") == job)
    lines = failed.filter(pl.col("job") == job).sort("t", "source", "line")
    says = f" (it says: {str(lines['text'][0])[:100]})" if lines.height else ""
    return Note(
        "correlate",
        f"job {mine['name'][0]} is left out: this is about job {chosen}; "
        f"give its files alone to see it{says}",
        mine["source"][0],
        lines["line"][0] if lines.height else None,
    )


def _without(frames: Frames, gone: pl.Series, notes: Iterable[Note]) -> Frames:
    """Drop the rows of the sources in `gone`, and mark these in `sources`."""

    def keep(frame: pl.DataFrame) -> pl.DataFrame:
        if "source" not in frame.columns:
            return frame
        return frame.filter(~pl.col("source").is_in(gone.implode()).fill_null(False))

    kept = frames.each(keep, ("sources", "notes"))
    theirs = pl.col("source").is_in(gone.implode()).fill_null(False)
    sources = frames["sources"].with_columns(
        pl.when(theirs)
        .then(pl.concat_str(pl.lit("another job's "), "kind"))
        .otherwise("kind")
        .alias("kind"),
        pl.when(theirs).then(None).otherwise("rank").alias("rank"),
    )
    return kept.noting(*notes, sources=sources)
