"""The numbers of regular lines, each with the word in front of it and its unit.

Of a text a cell is `forward 58.3 ms`, `"fwd_ms": 58.3`, `Data (t): 0.021`; of a table
it is what stands between two separators, and its name stands above the rows.
"""

from __future__ import annotations

import re

import polars as pl

from ncclforensics.model.step_parts import UNSAID, kinds, named

_NUMBER = r"\d{1,19}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?"
_WORD = r"[\p{L}_][\p{L}_./+-]*(?:\d+[\p{L}_][\p{L}\d_./-]*)?"
_UNIT = "[mun]?s"
# words, the last with its unit, what stands between, a timedelta's hours and minutes, a
# number, its unit, and what makes it a rate
_TOKEN = (
    rf"(?:((?:[\p{{L}}_][\p{{L}}_-]* ){{0,3}})({_WORD}(?:\(\w+\))??)"
    rf"(?: ?\(({_UNIT}|t)\))?)?"
    r"[\"']?[\s:=#|@~-]{0,12}([\"'(\[{]{0,2})"
    rf"(?:(0{{1,2}}):(\d\d):)?({_NUMBER})(?: ?({_UNIT}|secs?)\b)?(/ ?\p{{L}}+|%)?"
)
# the unit of all that a record holds: `"spans_us": {"forward": 67955, …}`
_OF_ALL = rf"(?:[\"'](?:[a-z_]*_)?({_UNIT})[\"'] ?: ?\{{|time \((ms)\) ?\|)"
_PER_STEP = r"^/ ?(?:it|iter|iteration|step|batch)$"
_RATE = r"(?i)(?:/|_per_)(?:s|sec|seconds?|min|minute|hour|h|day)$"
_IN_NAME = rf"(?i)(?:[_(]|tim(?:e|ing|er)_)({_UNIT})(?:\)|/.*)?$"
# a column of one rank among others: `rank_3/forward_s`, `forward.r3`
_OF_RANK = r"(?i)^(?:(.*?)[/_. ])?r(?:an)?k?[_-]?(\d{1,5})(?:[/_. ](.*))?$"
_NUMBERED_NAME = r"[A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*"
_PLAIN = r"[^\W\d][\w./-]*"
_BEGINS, _ENDS = (
    rf"(?i)^(?:t_)?(?:{at})(?:_(?:time|ts|s))?$" for at in ("begin|start", "end|stop")
)
_OF_DAY = (1e8, 1e10)  # seconds since 1970
_SHARE = r"(?i)%|(?:^|_)(?:pctg?|percent)(?:_|$)"
_PATH = r"^(.*?)([^/]+?)(?:\.[a-z]+)?$"
_CUTS = r"\s*[,;\t|│┃]\s*"
_NUMBERED = rf"^\"?(?:[A-Za-z]+[-_])?({_NUMBER}) ?({_UNIT})?\"?$"  # also `trainer-12`


def cells(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `record slot name number unit whole of_rank log`, a row a number.

    `log` is null where that is the source, else the folder of tables of one part each.
    `slot` is its place in the line, `whole` whether it is written without a point,
    `of_rank` the rank in its name. Rates are left out. `lines` has `record source text
    names`.
    """
    told = _of_table(lines) if lines["names"].count() else _of_text(lines)
    told = told.filter(~pl.col("name").str.contains(_RATE).fill_null(value=False))
    told = told.with_columns(of_rank=pl.col("name").str.extract_groups(_OF_RANK))
    ranked = pl.col("of_rank").struct
    rest = pl.concat_str(ranked.field("1"), ranked.field("3"), ignore_nulls=True)
    of_rank = ranked.field("2").cast(pl.Int64)
    told = told.with_columns(
        of_rank=of_rank, rest=pl.when(of_rank.is_not_null()).then(rest)
    )
    # a table of one part has the name of its file
    path = pl.col("source").str.extract_groups(_PATH).struct
    paths = lines.select("record", folder=path.field("1"), table=path.field("2"))
    told = told.join(paths, on="record", maintain_order="left").with_columns(
        name=pl.when(pl.col("rest") == "")
        .then("table")
        .otherwise(pl.coalesce("rest", "name")),
        log=pl.when(pl.col("rest") == "").then("folder"),
    )
    return _with_spans(with_units(told.drop("rest", "folder", "table")))


def _with_spans(told: pl.DataFrame) -> pl.DataFrame:
    """Return numbers with how long it took for `begin=… end=…`, two times of day."""
    begins, ends = (pl.col("name").str.contains(name) for name in (_BEGINS, _ENDS))
    moment = (begins | ends) & pl.col("number").is_between(*_OF_DAY)
    both = ((begins & moment).sum() == 1) & ((ends & moment).sum() == 1)
    spans = told.filter(moment & both.fill_null(value=False).over("record"))
    if spans.is_empty():
        return told
    took = spans.group_by("record", maintain_order=True).agg(
        pl.all().last(), took=pl.col("number").max() - pl.col("number").min()
    )
    took = took.with_columns(number="took", name=pl.lit("took"), unit=pl.lit("s"))
    rest = told.join(spans, on=["record", "slot"], how="anti", maintain_order="left")
    return pl.concat([rest, took.select(told.columns)]).sort("record", "slot")


def words(lines: pl.DataFrame) -> frozenset[str]:
    """Return the words of lines of one form, of a table its cells, but for numbers."""
    if lines["names"].count():
        bare = {cell.strip() for cell in re.split(_CUTS, lines["text"][0])}
        return frozenset(cell for cell in bare if re.search(r"[^\W\d]", cell))
    text = re.sub(_NUMBERED_NAME, " ", lines["text"][0])
    return frozenset(re.findall(_PLAIN, text))


def with_units(told: pl.DataFrame) -> pl.DataFrame:
    """Return numbers with the unit that their name tells, without shares."""
    name = pl.col("name")
    told = told.filter(~name.str.contains(_SHARE).fill_null(value=False))
    return told.with_columns(
        pl.coalesce("unit", name.str.extract(_IN_NAME)).alias("unit")
    )


def _of_text(lines: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("text")
    token = pl.col("groups").struct
    hours, minutes = (token.field(n).cast(pl.Float64) for n in ("5", "6"))
    name, of_name = token.field("2"), token.field("3")
    behind = token.field("9")
    unit = pl.coalesce(
        token.field("8").str.replace("^secs?$", "s"),
        pl.when(of_name != "t").then(of_name),
        pl.when(hours.is_not_null()).then(pl.lit("s")),
        pl.when(pl.col("slot") >= pl.col("outside")).then("of_all"),
    )
    told = (
        lines.select(
            "record",
            of_all=pl.coalesce(*(text.str.extract(_OF_ALL, n) for n in (1, 2))),
            outside=text.str.extract(rf"^(.*?){_OF_ALL}").str.count_matches(_TOKEN),
            token=text.str.extract_all(_TOKEN),
        )
        .explode("token")
        .drop_nulls("token")
        .with_columns(
            slot=pl.int_range(pl.len()).over("record"),
            # once, as each use of an expression would search again
            groups=pl.col("token").str.extract_groups(_TOKEN),
        )
        # `Data: 0.021 (0.035)`: the mean so far stands behind it
        .filter(
            name.is_not_null()
            | (pl.col("slot") == 0)
            | ~token.field("4").str.contains("(", literal=True)
        )
        # `2458.9/s` is a rate, `252 ms/it` a time
        .filter((behind.fill_null("%") == "%") | token.field("8").is_not_null())
        .select(
            "record",
            "slot",
            name=pl.when(name.is_null() & behind.str.contains(_PER_STEP))
            .then(pl.lit("step_time"))
            .when(of_name == "t")
            .then(name + "_time")
            .otherwise(name),
            phrase=token.field("1") + name,
            number=token.field("7").cast(pl.Float64, strict=False)
            + (3600 * hours + 60 * minutes).fill_null(0.0),
            unit=unit,
            whole=~token.field("7").str.contains(r"[.eE]"),
        )
    )
    return _with_phrases(told)


def _with_phrases(told: pl.DataFrame) -> pl.DataFrame:
    """Name numbers by the words in front of the last one, where that says nothing.

    `microbatch math 18.6s, blocked on grads 0.02s`, `Epoch Time: 11.03`
    """
    word, phrase = (kinds(named(pl.col(c))) for c in ("name", "phrase"))
    more = (word == UNSAID) & phrase.is_not_null() & (phrase != UNSAID)
    more |= pl.col("name").str.contains(r"^(?i:time)$") & phrase.ne_missing(UNSAID)
    names = told.select("name", "phrase").unique()
    names = names.with_columns(
        pl.when(more).then("phrase").otherwise("name").alias("n")
    )
    told = told.join(
        names,
        on=["name", "phrase"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return told.drop("name", "phrase").rename({"n": "name"})


def _of_table(lines: pl.DataFrame) -> pl.DataFrame:
    def split(column: str) -> pl.Expr:
        bare = pl.col(column).str.strip_chars(' |│┃"')
        return bare.str.replace_all(_CUTS, "\x1f").str.split("\x1f")

    names = lines.select("names").unique()
    named_ = names.select("names", name=split("names")).explode("name")
    named_ = named_.with_columns(
        pl.col("name").str.strip_chars('"'), slot=pl.int_range(pl.len()).over("names")
    )
    cell = pl.col("cell").str.extract_groups(_NUMBERED).struct
    return (
        lines.select("record", "names", cell=split("text"))
        .explode("cell")
        .with_columns(slot=pl.int_range(pl.len()).over("record"))
        .filter(pl.col("cell").str.contains(_NUMBERED))
        .join(named_, on=["names", "slot"], how="left", maintain_order="left")
        .select(
            "record",
            "slot",
            "name",
            number=cell.field("1").cast(pl.Float64),
            unit=cell.field("2"),
            whole=~cell.field("1").str.contains(r"[.eE]"),
        )
    )
