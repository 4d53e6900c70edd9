"""Lines of one form: who prints each, at which step, and the values in them."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclforensics.correlate.steps.regular_cells import cells, words
from ncclforensics.correlate.steps.regular_roles import Roles, roles
from ncclforensics.model.tables import TIME

_HOST = r"[A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*"
MOSTLY = 0.5  # share of the steps
MOMENT = 1e8  # seconds: a number as large is a time of day since 1970
WHO = {
    **dict.fromkeys(("rank", "line", "record", "step"), pl.Int64()),
    **dict.fromkeys(("source", "told_host"), pl.String()),
    "t": TIME,
}


class Form(NamedTuple):
    """Lines of one form, with WHO, `at` and `text`; their values; the words in one."""

    lines: pl.DataFrame
    values: pl.DataFrame
    words: frozenset[str]


def of_form(lines: pl.DataFrame) -> Form | None:
    """Return what some lines of one form tell; None if nothing tells ranks or steps."""
    told = cells(lines)
    told = told.filter(pl.len().over("slot") == lines.height)
    if (who := roles(lines, told)) is None:
        return None
    if told["of_rank"].n_unique() > 1:
        who = who._replace(
            rank=pl.Series([None], dtype=pl.Int64).new_from_index(0, lines.height)
        )
    own = _placed(lines, who)
    number, more = pl.col("number"), pl.col("more")
    told_who = own.select("record", "place", *(c for c in WHO if c != "record"))
    values = (
        told.join(told_who, on="record", maintain_order="left")
        .with_columns(pl.coalesce("rank", "of_rank").alias("rank"))
        .filter(
            ((number.n_unique() > 1).over("slot") | pl.col("name").is_not_null())
            & ~(pl.col("whole").all().over("slot") & pl.col("unit").is_null())
        )
        .with_columns(more=number.diff().over("rank", "source", "slot"))
        .with_columns(
            grows=((more >= 0).all() & ((more > 0).mean() > MOSTLY))
            .fill_null(value=False)  # of one line of each rank nothing is known
            .over("slot")
        )
        # a total of times grows by what a step takes; else what only grows counts
        .with_columns(
            pl.when(~pl.col("grows") | (number > MOMENT))
            .then(number)
            .when(pl.col("unit").is_not_null())
            .then(more)
            .alias("number")
        )
        .drop_nulls("number")
        .with_columns(
            pl.coalesce("log", "source").alias("log"),
            raw=pl.coalesce("name", pl.format("column_{}", "slot")),
            record="place",
        )
    )
    own = _timed(own, told, own["rank"])
    return Form(own.with_columns(record="place"), values, words(lines))


def _timed(lines: pl.DataFrame, told: pl.DataFrame, rank: pl.Series) -> pl.DataFrame:
    """Return lines with `at`: as it is, or by a number that only grows, in seconds."""
    if lines["at"].count():
        return lines
    number, whole = pl.col("number"), pl.col("whole").all().over("slot")
    clock = (
        told.filter(~whole & pl.col("unit").is_null())
        .join(
            lines.select("record", "source", rank), on="record", maintain_order="left"
        )
        .with_columns(more=number.diff().over("rank", "source", "slot"))
        .filter((pl.col("more") >= 0).fill_null(value=True).all().over("slot"))
        .filter(pl.col("slot") == pl.col("slot").min())
        .select("record", at=(number * 1e9).cast(pl.Int64, strict=False).cast(TIME))
    )
    return lines.drop("at").join(clock, on="record", how="left", maintain_order="left")


def _placed(lines: pl.DataFrame, who: Roles) -> pl.DataFrame:
    """Return lines with WHO."""
    own = lines.with_columns(who.rank.alias("rank"), who.step.alias("step"))
    own = own.join(_hosts(own), on="rank", how="left", maintain_order="left")
    return own.with_columns(told_host=pl.coalesce("host", "printed"))


def _hosts(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `rank printed`: a name in each line of a rank, that blocks of ranks share.

    Such a name has a number; each stands for as many ranks.
    """
    names = (
        lines.select("rank", name=pl.col("text").str.extract_all(_HOST))
        .with_columns(place=pl.int_ranges(pl.col("name").list.len()))
        .explode("name", "place")
        .drop_nulls()
        .unique()
        .filter((pl.len() == 1).over("rank", "place"))
        .with_columns(of=pl.len().over("place", "name"), all=pl.len().over("place"))
        .filter(
            (pl.col("of").n_unique() == 1).over("place")
            & (pl.col("all") == lines["rank"].n_unique())
            & (pl.col("of") > 1)
            & (pl.col("name").n_unique() > 1).over("place")
        )
    )
    first = names.filter(pl.col("place") == pl.col("place").min())
    return first.select("rank", printed="name").unique("rank", keep="first")
