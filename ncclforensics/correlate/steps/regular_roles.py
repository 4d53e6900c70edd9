"""Which number of a regular line is the rank that prints it, and which its step.

The number of a step grows on each rank, and ranks share it. Who prints a line is told
by its prefix, or by a number from 0 on with which each step's number stands once.
"""

from __future__ import annotations

import re
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

_RANK = re.compile(r"(?i)^(?:(?:global|world)_?)?(?:r|rk|rank)$|rank|worker|proc")
_COLUMN = re.compile(r"(?i)^(?:(?:global|world)_?)?rank$")
_STEP = re.compile(r"(?i)step|iter|^it$|batch|update|tick|round")
_EPOCH = re.compile(r"(?i)epoch|round|outer|cycle|^pass$")
_HOST = r"(?:^|[\s=@\[(\"'])([A-Za-z][A-Za-z0-9.-]*[A-Za-z-]\d[A-Za-z0-9.-]*)"
FEW = 4  # steps
MOST_NUMBERS = 6  # of a line, of which two may be its epoch and step
MOSTLY = 0.95  # share of the lines
SHARED = 0.5  # share of the steps that several ranks tell


class Roles(NamedTuple):
    """The `rank` and the `step` of each line, Int64; null where nothing tells it."""

    rank: pl.Series
    step: pl.Series


def roles(lines: pl.DataFrame, cells: pl.DataFrame) -> Roles | None:
    """Return who prints each of some lines of one form, at which step; or None.

    `lines` has `source line text rank`, the last from their prefixes; `cells` are those
    that all of them have. A log of one rank need not name it.
    """
    whole = cells.filter(pl.col("whole").all().over("slot"))
    numbers = [
        (str(own["name"][0] or ""), own["number"].cast(pl.Int64, strict=False))
        for _, own in whole.group_by("slot", maintain_order=True)
    ]
    numbers = [one for one in numbers if not one[1].null_count()]
    known = lines["rank"]
    told = known.null_count() < (1 - MOSTLY) * known.len()
    ranks = [one for one in numbers if _are_ranks(one[1])]
    # a log of rank 0 has a column of all ranks
    told &= not (known.n_unique() == 1 and any(_COLUMN.search(n) for n, _ in ranks))
    ranks.sort(
        key=lambda one: (
            *(not _RANK.search(one[0]), bool(_STEP.search(one[0]))),
            *(not _places(lines, one[1]), _leads(one[1])),
            -one[1].n_unique(),
        )
    )
    steps = [one for one in numbers if one[1].n_unique() >= FEW]
    steps.sort(key=lambda one: not _STEP.search(one[0]))
    alone = lines["source"].rank("dense").cast(pl.Int64)  # each log is of one rank
    nothing = pl.Series([None], dtype=pl.Int64).new_from_index(0, lines.height)
    who = [known] if told else [rank for _, rank in ranks]
    if (both := _fitting(lines, who, [step for _, step in steps])) is not None:
        return both
    epochs = [*_in_epochs(numbers, alone)]
    if (both := _fitting(lines, who, epochs)) is not None:
        return both
    named = [
        rank for name, rank in ranks if _RANK.search(name) or _is_of_logs(rank, alone)
    ]
    for rank in [known] if told else named:
        return Roles(rank, nothing)
    for _, step in steps:
        if _grows(lines, alone, step):
            return Roles(nothing, step)
    for step in epochs:
        if _fit(lines, alone, step):
            return Roles(nothing, step)
    return None


def _fitting(
    lines: pl.DataFrame, ranks: list[pl.Series], steps: list[pl.Series]
) -> Roles | None:
    """Return the first of some ranks and of some steps that fit each other."""
    for rank, step in product(ranks, steps):
        if rank is not step and _fit(lines, rank, step):
            return Roles(rank, step)
    return None


def _in_epochs(
    numbers: list[tuple[str, pl.Series]], log: pl.Series
) -> Iterator[pl.Series]:
    """Yield steps that two numbers count together, as those that begin anew in epochs.

    They are numbered as they come; each log tells them, but for those that are cut.
    """
    several = [one for one in numbers if one[0] and one[1].n_unique() > 1]
    for (name, one), (its, other) in combinations(several[:MOST_NUMBERS], 2):
        if not (_EPOCH.search(name) or _EPOCH.search(its)):
            continue  # the minutes and seconds of a time are counted together, too
        both = pl.DataFrame({"one": one, "other": other, "log": log}).with_row_index()
        first = pl.col("index").min().over("one", "other")
        both = both.select("log", step=first.rank("dense").cast(pl.Int64))
        logs = both.group_by("step").agg(pl.col("log").n_unique())["log"]
        shared = float(str((logs == log.n_unique()).mean()))
        if logs.len() >= FEW and shared > SHARED:
            yield both["step"]


def _is_of_logs(rank: pl.Series, log: pl.Series) -> bool:
    """Whether each of these numbers stands in one of several logs, and is a rank's."""
    both = pl.DataFrame({"rank": rank, "log": log}).unique()
    return both["log"].n_unique() > 1 and both.height == both["rank"].n_unique()


def _places(lines: pl.DataFrame, numbers: pl.Series) -> bool:
    """Whether the names with a number in lines, as of hosts, go with these numbers."""
    name = pl.col("text").str.extract(_HOST)
    told = lines.select(name.alias("name")).with_columns(numbers.alias("of"))
    hosts, of = (
        told["name"].n_unique(),
        told.group_by("of").agg(pl.col("name").n_unique()),
    )
    return 1 < hosts <= of.height and bool((of["name"] == 1).all())


def _leads(numbers: pl.Series) -> bool:
    """Whether numbers grow from line to line, as those of steps do."""
    return float(str((numbers.diff() >= 0).mean() or 0.0)) >= MOSTLY


def _are_ranks(numbers: pl.Series) -> bool:
    many = numbers.n_unique()
    return many > 1 and numbers.min() == 0 and numbers.max() == many - 1


def _grows(lines: pl.DataFrame, rank: pl.Series, step: pl.Series) -> bool:
    """Whether each rank tells each step once, in order."""
    told = lines.select("source", "line").with_columns(
        rank.alias("rank"), step.alias("step")
    )
    told = told.drop_nulls("rank").sort("source", "line")
    again = told.select(pl.struct("rank", "step").is_duplicated().mean()).item()
    grows = pl.col("step").diff().over("rank") >= 0
    in_order = told.select(grows.mean()).item()
    return float(again or 0) <= 1 - MOSTLY <= MOSTLY <= float(in_order or 0)


def _fit(lines: pl.DataFrame, rank: pl.Series, step: pl.Series) -> bool:
    """Whether each rank tells each step once, in order, and others tell it as well."""
    both = pl.DataFrame({"rank": rank, "step": step}).drop_nulls("rank")
    if both["rank"].n_unique() < 2:
        return False
    shared = both.group_by("step").agg(pl.col("rank").n_unique() > 1)["rank"].mean()
    return float(str(shared or 0)) > SHARED and _grows(lines, rank, step)
