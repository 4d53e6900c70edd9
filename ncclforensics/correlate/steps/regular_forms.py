"""Steps as lines tell them that are alike but for their numbers, whatever their words.

`{"seat": 3, "tick": 71, "us": {"feed": 14659}}` needs no word that is known: what its
numbers do tells which is what (`regular_roles`). A line with a time and no number but
these marks where its rank is.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.steps import regular_records
from ncclforensics.correlate.steps.regular_form import WHO, Form, of_form
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.step_parts import UNSAID, kinds, named
from ncclforensics.model.tables import TIME

LINES = "timers.regular"
_NAME_WITH_NUMBER = r"[A-Za-z][\w.-]*#[\w.#-]*"
MOST_FORMS = 24
SAMPLE = 4096  # lines of all logs that tell whether a form is of steps, in equal shares
LEAST_OF_EACH = 8  # of a log and form: twice the steps that `roles` needs
EVENTS = 2  # forms without numbers, at least, that mark steps
TOLD = {
    **WHO,
    **dict.fromkeys(("log", "raw", "unit"), pl.String()),
    "number": pl.Float64(),
}
MARK = {**WHO, "at": TIME, "text": pl.String(), "words": pl.String()}


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
    own = regular_records.with_names([form for form in forms if form.values.height])
    told = [form.values.select(TOLD.keys()) for form in own]
    heads = [form.lines.select(WHO.keys()).drop_nulls("step") for form in forms]
    if not told or not heads:
        return pl.concat([pl.DataFrame(schema=TOLD), *told])
    told = [regular_records.with_hosts(pl.concat(told), forms)]
    return regular_records.in_steps(
        regular_records.in_blocks(pl.concat(told), pl.concat(heads))
    )


def marks(frames: Frames) -> pl.DataFrame:
    """Return MARK: lines with a time that tell how far a rank is in its step.

    `words` are those of a line that tell it from the others.
    """
    forms = [form for form in _forms(frames) if form.lines["at"].count()]
    if sum(form.values.is_empty() for form in forms) < EVENTS:
        return pl.DataFrame(schema=MARK)
    common = frozenset.intersection(*(form.words for form in forms))
    told = [
        form.lines.with_columns(words=regular_records.said(form.words - common)).select(
            MARK.keys()
        )
        for form in forms
    ]
    return pl.concat(told).drop_nulls(["rank", "at"])


@remembered
def _forms(frames: Frames) -> list[Form]:
    return _found(_formed(frames))


@remembered
def _sampled(frames: Frames) -> list[Form]:
    """Return the forms of the last lines of each log: whether they are of steps."""
    lines = _formed(frames)
    each = max(SAMPLE // max(lines["source"].n_unique(), 1), LEAST_OF_EACH)
    behind = pl.int_range(pl.len(), 0, -1).over("source", "form")
    return _found(lines.filter(behind <= each))


def _found(lines: pl.DataFrame) -> list[Form]:
    common = lines["form"].value_counts().sort("count", "form")["form"]
    found = (
        of_form(lines.filter(pl.col("form") == one))
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
