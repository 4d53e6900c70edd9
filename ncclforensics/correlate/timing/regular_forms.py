"""What the numbers of regular lines are, by what they do: rank, step, and times.

The number of a step grows on each rank, and ranks share it. Who prints a line is told
by its prefix, or by a number from 0 on with which each step's number stands once. So
`{"seat": 3, "tick": 71, "us": {"feed": 14659}}` needs no word that is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.frames import Frames

LINES = "timers.regular"
_NUMBER = r"\d{1,19}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?"
# a word, what stands between, a number, its unit
_TOKEN = (
    r"(?:([A-Za-z_][A-Za-z_./-]*(?:\d+[A-Za-z_][\w./-]*)?)(?: ?\(([mu]?s)\))?)?"
    rf"[\"']?[\s:=#|@]{{0,8}}[\"'(\[{{]{{0,2}}({_NUMBER})(?: ?([mu]?s|secs?)\b)?"
)
_OF_ALL = r"[\"'](?:[a-z_]*_)?([mu]?s)[\"'] ?: ?\{"
_NAME_WITH_NUMBER = r"[A-Za-z][\w.-]*#[\w.#-]*"
_HOST = r"[A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*"
_CUTS = r"\s*[,;\t|]\s*"
_RANKS = r"(?i)^(?:(?:global|world)_?)?r(?:an)?k?$|rank|worker|proc"
_STEPS = r"(?i)step|iter|^it$|batch|update|tick|round"
FEW = 4  # steps
MOSTLY = 0.95  # share of the lines
MOST_FORMS = 16
MOMENT = 1e8  # seconds: a number as large is a time of day since 1970
MARK = {
    **dict.fromkeys(("rank", "line", "step"), pl.Int64()),
    **dict.fromkeys(("source", "host", "event"), pl.String()),
    "t": TIME,
    "at": TIME,
}
TOLD = {
    **dict.fromkeys(("rank", "line", "record", "step"), pl.Int64()),
    **dict.fromkeys(("source", "told_host", "raw", "unit"), pl.String()),
    "t": TIME,
    "number": pl.Float64(),
}


def numbers(frames: Frames) -> pl.DataFrame:
    """Return TOLD: a row for each `number` that a rank's line has besides its step."""
    told = [told for told, _ in _forms(frames)]
    return pl.concat([pl.DataFrame(schema=TOLD), *told])


def marks(frames: Frames) -> pl.DataFrame:
    """Return MARK: the lines that tell with a time, and no number, where a rank is."""
    told = [marks for _, marks in _forms(frames)]
    return pl.concat([pl.DataFrame(schema=MARK), *told])


@remembered
def _forms(frames: Frames) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Return the numbers and marks of each form: of lines alike but for numbers."""
    lines = frames.message(LINES)
    if "shape" not in lines.columns or lines.is_empty():
        return []
    form = pl.col("shape").str.replace_all(_NAME_WITH_NUMBER, "@").alias("form")
    lines = lines.with_columns(form).with_row_index("record")
    common = lines["form"].value_counts(sort=True).sort("count", "form")["form"]
    found = (
        _of_form(lines.filter(pl.col("form") == one))
        for one in common.reverse().head(MOST_FORMS)
    )
    return [form for form in found if form is not None]


def _of_form(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    told = _cells(lines) if lines["names"].count() else _tokens(lines)
    told = told.filter(pl.len().over("slot") == lines.height)
    for rank, step in _roles(lines, told):
        return _read(lines, told, rank, step)
    return None


def _tokens(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `record slot name number unit whole` of the numbers of a text."""
    text = pl.col("text")
    token = pl.col("token").str.extract_groups(_TOKEN).struct
    return (
        lines.select(
            "record",
            of_all=text.str.extract(_OF_ALL),
            outside=text.str.extract(rf"^(.*?){_OF_ALL}").str.count_matches(_TOKEN),
            token=text.str.extract_all(_TOKEN),
        )
        .explode("token")
        .drop_nulls("token")
        .with_columns(slot=pl.int_range(pl.len()).over("record"))
        .select(
            "record",
            "slot",
            name=token.field("1"),
            number=token.field("3").cast(pl.Float64, strict=False),
            unit=pl.coalesce(
                token.field("4").str.replace("^secs?$", "s"),
                token.field("2"),
                pl.when(pl.col("slot") >= pl.col("outside")).then("of_all"),
            ),
            whole=~token.field("3").str.contains(r"[.eE]"),
        )
    )


def _cells(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the same of the rows of a table, whose first line has the names."""

    def split(column: str) -> pl.Expr:
        return pl.col(column).str.replace_all(_CUTS, "\x1f").str.split("\x1f")

    names = lines.select("names").unique()
    named = names.select("names", name=split("names")).explode("name")
    named = named.with_columns(slot=pl.int_range(pl.len()).over("names"))
    cell = pl.col("cell")
    return (
        lines.select("record", "names", cell=split("text"))
        .explode("cell")
        .with_columns(slot=pl.int_range(pl.len()).over("record"))
        .filter(cell.str.contains(rf"^{_NUMBER}$"))
        .join(named, on=["names", "slot"], how="left", maintain_order="left")
        .select(
            "record",
            "slot",
            "name",
            number=cell.cast(pl.Float64),
            unit=pl.lit(None, pl.String),
            whole=~cell.str.contains(r"[.eE]"),
        )
    )


def _roles(
    lines: pl.DataFrame, told: pl.DataFrame
) -> Iterator[tuple[pl.Series, pl.Series]]:
    """Yield the rank and the step of each line, as they may be; the likeliest first."""
    ints = told.filter(pl.col("whole").all().over("slot"))
    slots = {
        int(str(slot)): (own["name"][0] or "", own["number"].cast(pl.Int64))
        for (slot,), own in ints.group_by("slot", maintain_order=True)
    }
    ranks = [(name, numbers) for name, numbers in slots.values() if _are_ranks(numbers)]
    ranks.sort(key=lambda one: (not _has(one[0], _RANKS), -one[1].n_unique()))
    known = lines["rank"]
    who = [known] if known.null_count() < (1 - MOSTLY) * known.len() else []
    steps = sorted(
        (one for one in slots.values() if one[1].n_unique() >= FEW),
        key=lambda one: not _has(one[0], _STEPS),
    )
    for rank in [*who, *(numbers for _, numbers in ranks)]:
        for _, step in steps:
            if rank is not step and _fit(lines, rank, step):
                yield rank.alias("rank"), step.alias("step")


def _has(name: str, words: str) -> bool:
    return bool(pl.Series([name]).str.contains(words)[0])


def _are_ranks(numbers: pl.Series) -> bool:
    many = numbers.n_unique()
    return many > 1 and numbers.min() == 0 and numbers.max() == many - 1


def _fit(lines: pl.DataFrame, rank: pl.Series, step: pl.Series) -> bool:
    """Whether each rank tells each step once, in order, and others tell it as well."""
    both = lines.select("source", "line").with_columns(
        rank.alias("rank"), step.alias("step")
    )
    both = both.drop_nulls("rank").sort("source", "line")
    again = both.select(pl.struct("rank", "step").is_duplicated().mean()).item()
    grows = both.select((pl.col("step").diff().over("rank") >= 0).mean()).item()
    shared = both.group_by("step").agg(pl.col("rank").n_unique() > 1)["rank"].mean()
    return (
        float(again or 0) <= 1 - MOSTLY
        and float(grows or 0) >= MOSTLY
        and float(str(shared or 0)) > 1 / 2
        and both["rank"].n_unique() > 1
    )


def _read(
    lines: pl.DataFrame, told: pl.DataFrame, rank: pl.Series, step: pl.Series
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the numbers of a form and its marks, once rank and step are known."""
    own = lines.with_columns(rank.cast(pl.Int64), step)
    own = own.join(_hosts(own), on="rank", how="left", maintain_order="left")
    own = own.with_columns(told_host=pl.coalesce("host", "printed"))
    number = pl.col("number")
    counts = (number.diff().over("rank", "slot") >= 0).fill_null(True)
    values = (
        told.join(own.select("record", "rank"), on="record", maintain_order="left")
        .filter(
            (number.n_unique() > 1).over("slot")
            & (number < MOMENT).all().over("slot")
            # what only grows counts something
            & ~(counts & pl.col("whole")).all().over("slot")
            & ~(pl.col("whole").all().over("slot") & pl.col("unit").is_null())
        )
        .drop("rank")
    )
    raw = pl.coalesce("name", pl.format("column_{}", "slot"))
    numbers_ = values.join(own.drop("record_id", strict=False), on="record").select(
        *(
            pl.col("line").alias("record") if c == "record" else _of(c, raw)
            for c in TOLD
        )
    )
    if values.height:
        return numbers_, pl.DataFrame(schema=MARK)
    event = pl.col("text").str.replace_all(rf"\[[^\]]*\]|{_HOST}|[#\d.:]+", " ")
    at = own.with_columns(
        at=pl.coalesce("t", "yearless", "dayless"),
        event=event.str.replace_all(r"\s+", " ").str.strip_chars(),
        host="told_host",
    ).drop_nulls("at")
    return numbers_, at.select(MARK.keys())


def _of(column: str, raw: pl.Expr) -> pl.Expr:
    return raw.alias("raw") if column == "raw" else pl.col(column)


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
        )
    )
    first = names.filter(pl.col("place") == pl.col("place").min())
    return first.select("rank", printed="name").unique("rank", keep="first")
