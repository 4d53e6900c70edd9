"""Steps as lines tell them that are alike but for their numbers, whatever their words.

`{"seat": 3, "tick": 71, "us": {"feed": 14659}}` needs no word that is known: what its
numbers do tells which is what (`regular_roles`). A line with a time and no number but
these marks where its rank is.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclforensics.correlate.steps.regular_cells import cells, with_units, words
from ncclforensics.correlate.steps.regular_roles import Roles, roles
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.step_parts import UNSAID, WHOLE, kinds, named
from ncclforensics.model.tables import TIME

LINES = "timers.regular"
_NAME_WITH_NUMBER = r"[A-Za-z][\w.-]*#[\w.#-]*"
_HOST = r"[A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*"
# what tells only that a number is a time: the other words of the line name it
_TOOK = (
    r"(?i)^(?:dur(?:ation)?|elapsed|took|time|latency|value|wall)"
    r"(?:_?(?:[mu]?s|secs?))?$"
)
MOSTLY = 0.5  # share of the steps
MOST_FORMS = 24
SAMPLE = 4096  # lines of all logs that tell whether a form is of steps, in equal shares
LEAST_OF_EACH = 8  # of a log and form: twice the steps that `roles` needs
MOMENT = 1e8  # seconds: a number as large is a time of day since 1970
EVENTS = 2  # forms without numbers, at least, that mark steps
WHO = {
    **dict.fromkeys(("rank", "line", "record", "step"), pl.Int64()),
    **dict.fromkeys(("source", "told_host"), pl.String()),
    "t": TIME,
}
TOLD = {
    **WHO,
    **dict.fromkeys(("log", "raw", "unit"), pl.String()),
    "number": pl.Float64(),
}
MARK = {**WHO, "at": TIME, "text": pl.String(), "words": pl.String()}


class _Form(NamedTuple):
    """Lines of one form, with WHO, `at` and `text`; their values; the words in one."""

    lines: pl.DataFrame
    values: pl.DataFrame
    words: frozenset[str]


def told(frames: Frames) -> Frames:
    """Return frames with regular lines only if these tell the steps of a training.

    They count as rows of the sources that have no others.
    """
    lines = frames.message(LINES)
    if not tell_steps(frames):
        rest = {name: frames.message(name) for name in frames.messages if name != LINES}
        return Frames(frames.tables, rest)
    many = lines.group_by("source").agg(pl.len().cast(pl.Int64).alias("regular"))
    sources = frames["sources"]
    counted = sources.join(many, on="source", how="left", maintain_order="left")
    rows = pl.when(pl.col("rows") == 0).then(pl.coalesce("regular", "rows"))
    counted = counted.with_columns(rows.otherwise("rows").alias("rows"))
    return frames.adding(sources=counted.select(sources.columns))


def tell_steps(frames: Frames) -> bool:
    """Whether lines are those of a training: of ranks in step, or of parts of steps."""
    for form in _sampled(frames):
        names = form.values.select(kind=kinds(named(pl.col("raw"))))
        known = names.select((pl.col("kind") != UNSAID).any()).item()
        known = known or form.values["unit"].count() > 0
        ranks = form.lines.drop_nulls("rank")["rank"].n_unique()
        counts = form.lines["step"].count() > 0
        if ((counts or ranks > 1) and known) or (counts and ranks > 1):
            return True
    return False


def steps(frames: Frames) -> pl.DataFrame:
    """Return `source step rank line form` of a sample of lines that tell a step."""
    kept = ("source", "step", "rank", "line")
    told = [
        form.lines.select(kept).with_columns(form=pl.lit(number))
        for number, form in enumerate(_sampled(frames))
    ]
    empty = pl.DataFrame(schema={c: WHO[c] for c in kept} | {"form": pl.Int32()})
    return pl.concat([empty, *told]).drop_nulls("step")


def numbers(frames: Frames) -> pl.DataFrame:
    """Return TOLD: a row for each number that a line has besides its rank and step.

    `rank` is null of a log that names none. `log` is what a rank writes to: a file, or
    the folder of files that tell one part each.
    """
    forms = _forms(frames)
    own = _named([form for form in forms if form.values.height])
    told = [form.values.select(TOLD.keys()) for form in own]
    heads = [form.lines.select(WHO.keys()).drop_nulls("step") for form in forms]
    if not told or not heads:
        return pl.concat([pl.DataFrame(schema=TOLD), *told])
    told = [_with_hosts(pl.concat(told), forms)]
    return _in_steps(_in_blocks(pl.concat(told), pl.concat(heads)))


def _with_hosts(told: pl.DataFrame, forms: list[_Form]) -> pl.DataFrame:
    """Give numbers of a rank the one host that its lines of any form tell."""
    lines = [form.lines.select("rank", host="told_host") for form in forms]
    hosts = pl.concat(lines).drop_nulls().unique().unique("rank", keep="none")
    told = told.join(hosts, on="rank", how="left", maintain_order="left")
    return told.with_columns(pl.coalesce("told_host", "host").alias("told_host")).drop(
        "host"
    )


def _in_steps(told: pl.DataFrame) -> pl.DataFrame:
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


def _in_blocks(told: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
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
    return pl.concat([known, below.select(TOLD.keys())]).sort("source", "line")


def marks(frames: Frames) -> pl.DataFrame:
    """Return MARK: lines with a time that tell how far a rank is in its step.

    `words` are those of a line that tell it from the others.
    """
    forms = [form for form in _forms(frames) if form.lines["at"].count()]
    if sum(form.values.is_empty() for form in forms) < EVENTS:
        return pl.DataFrame(schema=MARK)
    common = frozenset.intersection(*(form.words for form in forms))
    told = [
        form.lines.with_columns(words=_said(form.words - common)).select(MARK.keys())
        for form in forms
    ]
    return pl.concat(told).drop_nulls(["rank", "at"])


@remembered
def _forms(frames: Frames) -> list[_Form]:
    return _found(_formed(frames))


@remembered
def _sampled(frames: Frames) -> list[_Form]:
    """Return the forms of the last lines of each log: whether they are of steps."""
    lines = _formed(frames)
    each = max(SAMPLE // max(lines["source"].n_unique(), 1), LEAST_OF_EACH)
    behind = pl.int_range(pl.len(), 0, -1).over("source", "form")
    return _found(lines.filter(behind <= each))


def _found(lines: pl.DataFrame) -> list[_Form]:
    common = lines["form"].value_counts().sort("count", "form")["form"]
    found = (
        _of_form(lines.filter(pl.col("form") == one))
        for one in common.reverse().head(MOST_FORMS)
    )
    return [form for form in found if form is not None]


@remembered
def _formed(frames: Frames) -> pl.DataFrame:
    """Return the regular lines with `record form at`, and a rank that may be theirs."""
    lines = frames.message(LINES)
    if "shape" not in lines.columns:
        return pl.DataFrame(schema={"source": pl.String, "form": pl.String})
    form = pl.col("shape").str.replace_all(_NAME_WITH_NUMBER, "@")
    # `[Rank 3]` of a line that is about no group; below an agent, a task is a node
    own = pl.when(pl.col("pg").is_null()).then("group_rank")
    agents = any(name.startswith("torchelastic.") for name in frames.messages)
    task = pl.when(pl.col("local_rank").is_null() & pl.lit(not agents)).then("task")
    return lines.with_columns(
        pl.coalesce("rank", own, task).alias("rank"),
        form=form,
        at=pl.coalesce("t", "yearless", "dayless"),
    ).with_row_index("record")


def _of_form(lines: pl.DataFrame) -> _Form | None:
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
            grows=((more >= 0).all() & ((more > 0).mean() > MOSTLY)).over("slot")
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
    return _Form(own.with_columns(record="place"), values, words(lines))


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


def _named(forms: list[_Form]) -> list[_Form]:
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
                    .then(pl.coalesce(_said(form.words - common), "raw"))
                    .otherwise("raw")
                )
            ).with_columns(raw="name")
        )
        if any(form is one for one in bare)
        else form
        for form in forms
    ]


def _said(words: frozenset[str]) -> pl.Expr:
    """Return the words that tell one form of lines from the others, as a literal."""
    return pl.lit(" ".join(sorted(words)) or None, pl.String)


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
