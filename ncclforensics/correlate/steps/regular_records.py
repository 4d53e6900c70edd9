"""Numbers of several forms of lines: their names, hosts, and the records they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.steps.regular_cells import with_units
from ncclforensics.model.step_parts import UNSAID, WHOLE, kinds, named

if TYPE_CHECKING:
    from ncclforensics.correlate.steps.regular_form import Form

# what tells only that a number is a time: the other words of the line name it
_TOOK = (
    r"(?i)^(?:dur(?:ation)?|elapsed|took|time|latency|value|wall)"
    r"(?:_?(?:[mu]?s|secs?))?$"
)


def with_names(forms: list[Form]) -> list[Form]:
    """Return forms in which what is only called a time has the words of its line.

    `{"span": "forward", "dur_ms": 12.5}` tells another part in each form.
    """
    took = pl.col("raw").str.contains(_TOOK)
    # beside parts of a step it is that of all
    is_part = ~kinds(named(pl.col("raw"))).is_in((UNSAID, WHOLE))
    alone = took.any() & ~(is_part & ~took).any()
    bare = [form for form in forms if form.values.select(alone).item()]
    if len(bare) < 2:
        return forms
    common = frozenset.intersection(*(form.words for form in bare))
    return [
        form._replace(
            values=with_units(
                form.values.with_columns(
                    name=pl.when(took)
                    .then(pl.coalesce(said(form.words - common), "raw"))
                    .otherwise("raw")
                )
            ).with_columns(raw="name")
        )
        if any(form is one for one in bare)
        else form
        for form in forms
    ]


def said(words: frozenset[str]) -> pl.Expr:
    """Return the words that tell one form of lines from the others, as a literal."""
    return pl.lit(" ".join(sorted(words)) or None, pl.String)


def with_hosts(told: pl.DataFrame, forms: list[Form]) -> pl.DataFrame:
    """Give numbers of a rank the one host that its lines of any form tell."""
    lines = [form.lines.select("rank", host="told_host") for form in forms]
    hosts = pl.concat(lines).drop_nulls().unique().unique("rank", keep="none")
    told = told.join(hosts, on="rank", how="left", maintain_order="left")
    return told.with_columns(pl.coalesce("told_host", "host").alias("told_host")).drop(
        "host"
    )


def in_steps(told: pl.DataFrame) -> pl.DataFrame:
    """Let lines of one step be one record, if each part stands in one of them."""
    log, step = ("rank", "log"), pl.col("step")
    once = pl.struct("step", "raw").is_unique().all().over(log)
    first = pl.col("record").min().over(*log, "step")
    return told.with_columns(
        pl.when(once & step.is_not_null())
        .then(first)
        .otherwise("record")
        .alias("record")
    )


def in_blocks(told: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """Give lines without a step that of the line above which has one.

    They are of one record with it if it has each part once below it.
    """
    of = ["rank", "source"]
    head = heads.select(*of, "line", at_step="step", block="line").sort("line")
    rest = told.filter(pl.col("step").is_null()).sort("line")
    below = rest.join_asof(head, on="line", by=of, check_sortedness=False)
    once = pl.struct("block", "raw").is_unique().all().over(of)
    below = below.with_columns(
        step="at_step", record=pl.when(once).then("block").otherwise("record")
    )
    below = below.with_columns(pl.coalesce("record", "line").alias("record"))
    known = told.filter(pl.col("step").is_not_null())
    return pl.concat([known, below.select(told.columns)]).sort("source", "line")
