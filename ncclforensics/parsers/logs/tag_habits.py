"""Numbers of processes in front of a program's lines: `[3] `, `[stage 3] `, `[1/4] `.

Such a number may also count steps, or be of a GPU. It is of the process that writes if
the file's lines show it: the numbers are all from 0 on, each begins several lines, and
each is still there when the last one has come. A number with a word (of a stage, of a
worker) or with a total has to show more. A counter goes on by one or begins anew, and
what several processes count they print alike; a process goes on from line to line. And
the numbers have to be as many as the total, or as the ranks that torch shows.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.last_words import shape
from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.lines import FILE

_HMS = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
# `15:16:25 [3] `, `Nov 28 15:16:25 [1/4] `, `(stage 3) `, `[2026-11-28 15:16:25,5,2] `
TAG = ascii_only(
    rf"^((?:(?:\d{{4}}-\d\d-\d\d[T ])?{_HMS} |[A-Z][a-z]{{2}} +\d{{1,2}} {_HMS} )?)"
    r"(?:\[(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{1,9}),|[\[(]([a-z]{2,12})[ =:_-]"
    r"|\[)(\d{1,3})(?:/(\d{1,4}))?[\])] "
)
PARTS = ("stamp", "inner", "word", "number", "total")  # the groups of TAG
# what `framing` knows itself
_KNOWN = ("rank", "local", "pid")
# NCCL puts the device there, behind a host name that people cut off
_DEVICE = ascii_only(r"^\[\d{1,3}\] (?:NCCL |[\w/.]+\.(?:cu|cc|h):\d)")
_TORCH = ascii_only(r"^\[rank(\d{1,6})\]: ?")
FEWEST = 3  # lines that make a habit
PLACE = ["file", "place"]
WIDTH = 9  # digits of a number that are compared


def written(lines: pl.DataFrame, text: pl.Expr) -> pl.DataFrame:
    """Return `lines` (`line`, `raw`) with the tags of processes as known prefixes.

    `text` are the lines without colours. `[3] ` becomes torchrun's prefix of a local
    rank: a number of a console, which may be of one node of several. `[1/4] ` is a
    rank of all.
    """
    told = _told(lines, text)
    whole = _whole(told)
    if whole.is_empty():
        return lines
    devices = lines.filter(text.str.contains(_DEVICE)).select(_file())
    whole = whole.join(devices.unique(), on="file", how="anti")
    told = told.join(whole, on=PLACE, how="inner", maintain_order="left")
    of_all = _of_all(whole.filter(~pl.col("is_plain")), lines, text)
    if of_all.height:
        some = told.join(of_all, on=PLACE, how="semi", maintain_order="left")
        of_all = of_all.join(_grown(some), on=PLACE, how="semi")
        of_all = of_all.join(_jumping(some), on=PLACE, how="semi")
    shown = pl.concat([whole.filter("is_plain"), of_all])
    told = told.join(shown, on=PLACE, how="semi")
    of_node = pl.format("[local{}]:", "number")
    prefix = pl.coalesce(
        pl.when("is_plain").then(of_node), pl.format("[rank={}] ", "number")
    )
    head = pl.coalesce(pl.format("[{}] ", "inner"), "stamp")
    new = told.select("row", (prefix + head + pl.col("rest")).alias("new"))
    joined = lines.with_row_index("row").join(
        new, on="row", how="left", maintain_order="left"
    )
    return joined.with_columns(pl.coalesce("new", "raw").alias("raw")).drop(
        "row", "new"
    )


def _told(lines: pl.DataFrame, text: pl.Expr) -> pl.DataFrame:
    """Return `row line file place rest`, and PARTS, of lines that begin with a tag."""
    part = text.str.extract_groups(TAG).struct
    begun = lines.with_row_index("row").filter(text.str.contains(TAG))
    held = begun.select(
        "row",
        "line",
        _file(),
        *(part.field(str(n + 1)).alias(name) for n, name in enumerate(PARTS)),
        text.str.replace(TAG, "").alias("rest"),
    )
    known = held.filter(~pl.col("word").is_in(_KNOWN).fill_null(False))
    inner, word, total = (pl.col(c).fill_null("") for c in ("inner", "word", "total"))
    place = pl.concat_str((inner != "").cast(pl.String), word, total, separator="/")
    return known.with_columns(
        place.alias("place"), pl.col("number", "total").cast(pl.Int64)
    )


def _file() -> pl.Expr:
    return (pl.col("line") // FILE).alias("file")


def _whole(told: pl.DataFrame) -> pl.DataFrame:
    """Return PLACE `last total is_plain` of tags with all numbers up to the `last`.

    Each is there early and late. Numbers that grow with time come one after the other.
    """
    each = told.group_by(*PLACE, "number").agg(
        pl.len(),
        pl.col("line").min().alias("first"),
        pl.col("line").max().alias("until"),
        pl.col("total").first(),
        (pl.col("word").is_null() & pl.col("total").is_null()).first().alias("plain"),
    )
    of = each.group_by(PLACE).agg(
        pl.col("number").max().alias("last"),
        pl.col("total").first(),
        pl.col("plain").first().alias("is_plain"),
        together=pl.col("first").max() < pl.col("until").min(),
        many=pl.len() == pl.col("number").max() + 1,
        several=(pl.col("len").min() >= FEWEST) & (pl.len() > 1),
    )
    return of.filter("together", "many", "several").select(
        *PLACE, "last", "total", "is_plain"
    )


def _jumping(told: pl.DataFrame) -> pl.DataFrame:
    """Return PLACE of numbers that no counter prints: it goes on by one, or to 0."""
    after = pl.col("number").shift(1).over(PLACE)
    jumps = (pl.col("number") > after + 1) | (
        (pl.col("number") < after) & (pl.col("number") > 0)
    )
    return (
        told.group_by(PLACE)
        .agg(jumps.sum().alias("jumps"))
        .filter(pl.col("jumps") >= FEWEST)
    )


def _grown(told: pl.DataFrame) -> pl.DataFrame:
    """Return PLACE where each number has lines of one kind whose numbers only grow."""
    digits = pl.col("rest").str.extract_all(r"\d+")
    padded = digits.list.eval(pl.element().str.zfill(WIDTH)).list.join(" ")
    kinds = [*PLACE, "kind"]
    said = told.with_columns(shape(pl.col("rest")).alias("kind"), padded.alias("at"))
    grows = pl.col("at") > pl.col("at").shift(1)
    of = said.group_by(*kinds, "number").agg(pl.len(), grows.all().alias("grows"))
    good = of.filter(pl.col("grows") & (pl.col("len") >= FEWEST)).group_by(kinds)
    every = told.group_by(PLACE).agg(pl.col("number").n_unique().alias("all"))
    many = good.agg(pl.len().alias("many")).join(every, on=PLACE)
    return many.filter(pl.col("many") == pl.col("all")).select(PLACE).unique()


def _of_all(places: pl.DataFrame, lines: pl.DataFrame, text: pl.Expr) -> pl.DataFrame:
    """Return those `places` whose numbers are as many as the ranks of the job."""
    seen = lines.select(_file(), text.str.extract(_TORCH).cast(pl.Int64).alias("rank"))
    ranks = (
        seen.drop_nulls()
        .group_by("file")
        .agg(pl.col("rank").max().alias("top"), pl.col("rank").n_unique().alias("many"))
    )
    known = places.join(ranks, on="file", how="left")
    torch = (pl.col("many") > 1) & (pl.col("top") <= pl.col("last"))
    fits = pl.coalesce(pl.col("total") == pl.col("last") + 1, torch)
    return known.filter(fits.fill_null(False)).select(places.columns)
