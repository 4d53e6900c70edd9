"""The rank of a file from the number in its name, if the files beside it confirm it.

A launcher may number its output files by task, `train-5071_3.out`, or by something
else. The number is the rank if it is that for every such file whose own lines tell a
rank, and at least two do. So a rank that prints nothing of itself is known by its file.
A stack tells no rank at all: files that hold the stack of one process each, and are
numbered from 0 without a gap, are numbered by rank, and so are those that hold the
times of the steps of one, `timing_3.csv`, but not by node or pod. So are files that are
numbered as all ranks are which dumps list, and files that are numbered through the
folders of several hosts, with several in each: nodes have one; or by node and on it,
`worker-1/proc-3.log`, if all nodes have as many. Numbered anew on each host, none is a
rank. Beside `log.txt.rank1`, `log.txt` is rank 0's, as detectron2's `setup_logger`
names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.traces import call_summary
from ncclforensics.model.tables import without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SPIED = "stacks.pyspy"
# what has several ranks, or a number of another kind, in front of that number
OF_SEVERAL = r"(?i)(?:node|host|pod|worker|machine|server|agent|trainer)s?[-_.]?\d"
AGREE = 2  # files whose lines confirm the number
OWNERS = {"source": pl.String(), "rank": pl.Int64()}
NUMBERS = 4  # of a path, from its end, that are tried


def owners(frames: Frames, claims: pl.DataFrame) -> pl.DataFrame:
    """Return `source rank` of files whose number is their rank, but for dumps.

    `claims` have `source` and `rank`. If several numbers of a path are possible, the
    last one counts.
    """
    told = claims.drop_nulls(["source", "rank"])
    told = told.group_by("source").agg(pl.col("rank").unique().alias("told"))
    logs = frames["sources"].filter(pl.col("kind").is_in(["log", "empty", "unknown"]))
    logs = logs.select("source", "host").unique("source", maintain_order=True)
    files = logs.join(told, on="source", how="left")
    if not files["told"].null_count():  # none is left to be told
        return without_rows(OWNERS)
    own = _of_own_steps(frames)
    single = own.filter(~own.str.contains(OF_SEVERAL))
    stacks = pl.concat([_of_one_process(frames), single]).unique()
    everyone = _everyone(frames)
    unsure = files["told"].count() < AGREE and stacks.is_empty() and not everyone
    alone = pl.col("told").list.len() == 1
    confirming = files.filter(alone & pl.col("source").is_in(stacks.implode()))
    found = [
        _through_folders(files),
        _of_nodes(files, own),
        _without_a_number(files),
        confirming.select("source", rank=pl.col("told").list.first()),
    ]
    if not unsure:  # else nothing more can confirm it
        ways = [*(_by_place(files, n) for n in range(NUMBERS)), _by_all(files)]
        numbered = (_numbered(named, stacks, everyone) for named in ways)
        found = [*numbered, *found]
    ranks = pl.concat(found).unique("source", keep="first", maintain_order=True)
    return _once(ranks.join(files, on="source", how="left", maintain_order="left"))


def _once(ranks: pl.DataFrame) -> pl.DataFrame:
    """Return `source rank` but for files that are numbered anew on each host."""
    name = pl.col("source").str.replace(r"^.*/", "").str.replace_all(r"\d+", "#")
    hosts = pl.col("host").drop_nulls().n_unique().over("name", "rank")
    again = (hosts > 1).any().over("name")
    return ranks.with_columns(name=name).filter(~again).select("source", "rank")


def _through_folders(files: pl.DataFrame) -> pl.DataFrame:
    """Return `source rank` of files that are numbered through several folders.

    Each has several of them, as a host has ranks.
    """
    if files.height < AGREE * AGREE:
        return without_rows(OWNERS)
    parts = r"^(?:(.*)/)?([^/]*?)(\d{1,6})(\D*)$"
    named = (
        files.with_columns(pl.col("source").str.extract_groups(parts).alias("of"))
        .unnest("of")
        .drop_nulls("3")
        .with_columns(rank=pl.col("3").cast(pl.Int64), alike=pl.struct("2", "4"))
    )
    folders = pl.col("1").n_unique().over("alike")
    in_folder = pl.len().over("alike", "1").min().over("alike")
    several = (folders >= AGREE) & (in_folder >= AGREE)
    return _confirmed(named, several & _are_all())


def _of_nodes(files: pl.DataFrame, stacks: pl.Series) -> pl.DataFrame:
    """Return `source rank` of files by the numbers of their node and on it.

    All nodes, from 0 on, have as many files of one process each, from 0 on.
    """
    node_ = r"^(.*(?:node|host|pod|worker|machine|server)s?[-_.]?)(\d{1,4})"
    parts = node_ + r"(\D.*\D|\D)(\d{1,2})(\D*)$"
    named = (
        files.with_columns(pl.col("source").str.extract_groups(parts).alias("of"))
        .unnest("of")
        .with_columns(
            pl.col("2", "4").cast(pl.Int64),
            alike=pl.struct(pl.col("1", "3", "5").str.replace_all(r"\d+", "#")),
        )
        .drop_nulls(["2", "4"])
    )
    node, turn = pl.col("2"), pl.col("4")
    many, each = ((n.max() + 1).over("alike") for n in (node, turn))
    once = pl.struct("2", "4").n_unique().over("alike") == pl.len().over("alike")
    all_ = (many * each == pl.len().over("alike")) & (many > 1) & (each > 1) & once
    alone = pl.col("source").is_in(stacks.implode()).all().over("alike")
    return _confirmed(named.with_columns(rank=node * each + turn), all_ & alone)


def _without_a_number(files: pl.DataFrame) -> pl.DataFrame:
    """Return `source rank` of rank 0's file, beside those of the ranks behind it."""
    parts = pl.col("source").str.extract_groups(r"^(.*)\.rank(\d{1,6})$").struct
    named = files.select(of=parts.field("1"), number=parts.field("2").cast(pl.Int64))
    least = named.drop_nulls().group_by("of").agg(pl.col("number").min())
    of = least.filter(pl.col("number") > 0)["of"]
    first = files.filter(pl.col("source").is_in(of.implode()))
    return first.select("source", rank=pl.lit(0, pl.Int64))


def _of_one_process(frames: Frames) -> pl.Series:
    """Return the files that py-spy wrote of one process, each of another one."""
    heads = frames.message(SPIED)
    if heads.is_empty():
        return heads["source"]
    of = heads.group_by("source").agg(pl.col("pid").unique())
    one = of.filter(pl.col("pid").list.len() == 1).explode("pid").drop_nulls()
    return one.unique("pid", keep="none")["source"]


def _of_own_steps(frames: Frames) -> pl.Series:
    """Return the files that hold the times of steps, each step once, and no rank."""
    told = regular_forms.steps(frames)
    once = pl.struct("step", "form").is_unique().all()
    whole = once & pl.col("rank").is_null().all()
    return told.group_by("source").agg(own=whole).filter("own")["source"]


def _everyone(frames: Frames) -> int:
    """Return how many ranks dumps list, from 0 to the last; 0 if they are few."""
    dumped = call_summary.dumps(frames)["rank"]
    if dumped.null_count() == dumped.len():
        return 0
    ranks = pl.concat([dumped, frames["groups"]["members"].explode()])
    ranks = ranks.drop_nulls().unique().sort()
    whole = ranks.to_list() == [*range(ranks.len())]
    return ranks.len() if whole and ranks.len() > AGREE else 0


def _by_place(files: pl.DataFrame, after: int) -> pl.DataFrame:
    """Return files with the `rank` that `after` other numbers follow, if it is one."""
    parts = rf"^(|.*\D)(\d{{1,6}})((?:\D+\d+){{{after}}}\D*)$"
    source = pl.col("source")
    return files.with_columns(
        source.str.replace(parts, "$1\n$3").alias("alike"),
        source.str.extract(parts, 2).cast(pl.Int64).alias("rank"),
    ).drop_nulls("rank")


def _by_all(files: pl.DataFrame) -> pl.DataFrame:
    """Return files with the `rank` that all their numbers are: `replica_3@site3`."""
    source = pl.col("source")
    numbers = source.str.extract_all(r"\d{1,6}")
    again = (numbers.list.len() > 1) & (numbers.list.n_unique() == 1)
    return files.filter(again).with_columns(
        source.str.replace_all(r"\d+", "\n").alias("alike"),
        numbers.list.first().cast(pl.Int64).alias("rank"),
    )


def _numbered(named: pl.DataFrame, stacks: pl.Series, everyone: int) -> pl.DataFrame:
    """Return `source rank` by the number that may be the `rank` of files `alike`.

    `stacks` are the files that hold the stack or the steps of one process.
    """
    if named.is_empty():
        return named.select("source", "rank")
    spied = pl.col("source").is_in(stacks.implode()).all().over("alike")
    as_many = (pl.len().over("alike") > AGREE) & spied
    as_many |= pl.len().over("alike") == everyone
    agree = _is_rank().fill_null(False).sum().over("alike") >= AGREE
    return _confirmed(named, agree | (as_many & _are_all()))


def _is_rank() -> pl.Expr:
    """Whether the number of a file is the rank that its lines tell; null of none."""
    told = pl.col("told")
    return (told.list.len() == 1) & (told.list.first() == pl.col("rank"))


def _are_all() -> pl.Expr:
    """Whether files alike are of all ranks of a job, from the first to the last."""
    first, last = pl.col("rank").min(), pl.col("rank").max() + 1
    return ((first == 0) & (last == pl.len())).over("alike")


def _confirmed(named: pl.DataFrame, sure: pl.Expr) -> pl.DataFrame:
    """Return `source rank` of files that tell no rank, of which a number is it.

    None of the files alike tells another rank, and each number is of one of them.
    """
    none_other = _is_rank().fill_null(True).all().over("alike")
    alone = pl.len().over("alike", "rank") == 1
    unknown = pl.col("told").is_null()
    return named.filter(none_other & sure & alone & unknown).select("source", "rank")
