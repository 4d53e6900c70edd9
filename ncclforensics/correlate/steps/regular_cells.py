"""The numbers of regular lines, each with the word in front of it and its unit.

Of a text a cell is `forward 58.3 ms`, `"fwd_ms": 58.3`, `Data (t): 0.021`; of a table
it is what stands between two separators, and its name stands in the first line.
"""

from __future__ import annotations

import polars as pl

_NUMBER = r"\d{1,19}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?"
_WORD = r"[\p{L}_][\p{L}_./-]*(?:\d+[\p{L}_][\p{L}\d_./-]*)?"
# a word with its unit, what stands between, a timedelta's hours and minutes, a number,
# its unit, and what makes it a rate
_TOKEN = (
    rf"(?:({_WORD})(?: ?\(([mu]?s|t)\))?)?"
    r"[\"']?[\s:=#|@~-]{0,12}([\"'(\[{]{0,2})"
    rf"(?:(0{{1,2}}):(\d\d):)?({_NUMBER})(?: ?([mu]?s|secs?)\b)?(/ ?\p{{L}}+|%)?"
)
# the unit of all that a record holds: `"spans_us": {"forward": 67955, …}`
_OF_ALL = r"(?:[\"'](?:[a-z_]*_)?([mu]?s)[\"'] ?: ?\{|time \((ms)\) ?\|)"
_PER_STEP = r"^/ ?(?:it|iter|iteration|step|batch)$"
_RATE = r"(?i)(?:/|_per_)(?:s|sec|seconds?|min|minute|hour|h|day)$"
_IN_NAME = r"(?i)(?:[_(]|tim(?:e|ing|er)_)([mu]?s)(?:\)|/.*)?$"
_CUTS = r"\s*[,;\t|]\s*"


def cells(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `record slot name number unit whole`, a row a number of `lines`.

    `slot` is its place in the line, `whole` whether it is written without a point.
    Rates are left out. `lines` has `record text names`.
    """
    told = _of_table(lines) if lines["names"].count() else _of_text(lines)
    in_name = pl.col("name").str.extract(_IN_NAME)
    told = told.filter(~pl.col("name").str.contains(_RATE).fill_null(value=False))
    return told.with_columns(pl.coalesce("unit", in_name).alias("unit"))


def _of_text(lines: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("text")
    token = pl.col("token").str.extract_groups(_TOKEN).struct
    hours, minutes = (token.field(n).cast(pl.Float64) for n in ("4", "5"))
    name, of_name = token.field("1"), token.field("2")
    unit = pl.coalesce(
        token.field("7").str.replace("^secs?$", "s"),
        pl.when(of_name != "t").then(of_name),
        pl.when(hours.is_not_null()).then(pl.lit("s")),
        pl.when(pl.col("slot") >= pl.col("outside")).then("of_all"),
    )
    return (
        lines.select(
            "record",
            of_all=pl.coalesce(*(text.str.extract(_OF_ALL, n) for n in (1, 2))),
            outside=text.str.extract(rf"^(.*?){_OF_ALL}").str.count_matches(_TOKEN),
            token=text.str.extract_all(_TOKEN),
        )
        .explode("token")
        .drop_nulls("token")
        .with_columns(slot=pl.int_range(pl.len()).over("record"))
        .with_columns(behind=token.field("8"))
        # `Data: 0.021 (0.035)`: the mean so far stands behind it
        .filter(name.is_not_null() | ~token.field("3").str.contains("(", literal=True))
        # `2458.9/s` is a rate, `252 ms/it` a time
        .filter(
            (pl.col("behind").fill_null("%") == "%") | token.field("7").is_not_null()
        )
        .select(
            "record",
            "slot",
            name=pl.when(name.is_null() & pl.col("behind").str.contains(_PER_STEP))
            .then(pl.lit("step_time"))
            .when(of_name == "t")
            .then(name + "_time")
            .otherwise(name),
            number=token.field("6").cast(pl.Float64, strict=False)
            + (3600 * hours + 60 * minutes).fill_null(0.0),
            unit=unit,
            whole=~token.field("6").str.contains(r"[.eE]"),
        )
    )


def _of_table(lines: pl.DataFrame) -> pl.DataFrame:
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
