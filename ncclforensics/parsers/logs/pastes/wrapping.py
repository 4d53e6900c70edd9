"""Lines that were broken to fit a width: by a terminal, a mail program, a page.

A terminal breaks at its last column, inside a word if need be; most others at a blank.
A line was broken if the first word of the next one had no room on it and that one does
not begin like a record. A log counts as wrapped if this is true of some of its lines,
and what stands below them begins unlike its other lines: lines of equal length that are
records begin alike. tmux drops blanks at the end of a line; rich indents what goes on.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from ncclforensics.model.plans import collected
from ncclforensics.parsers.logs import framing, grammar
from ncclforensics.parsers.logs.pastes import seams
from ncclforensics.parsers.logs.record_starts import BEGINS

if TYPE_CHECKING:
    from collections.abc import Mapping

NARROWEST, WIDEST = 40, 250  # columns of a terminal or a page
LEAST, SHARE = 2, 0.02  # broken lines, and their share, of a log that is wrapped
BEGINNING = 5  # leading characters that identify lines of one kind
AT_COLUMN = 0.6  # share of broken lines of full width, if a terminal broke them
TRIMMED = 1  # blanks that may be missing at the end of a line
SLACK = 5  # columns by which a word that was broken may be wider than all lines
HANGING_SHARE = 0.8  # of the lines with that indentation that are continuations
INDENTS = 2  # that are tried
COLUMN = 8  # columns that a log handler needs for its times at least
HANGING = 3  # a continuation that is indented has at least so many blanks

_RULED = r"^[=*-]{4,}$"  # a ruled line is whole, unless more of it is below
_BARS = r"\|.*\|"
_GAP, GAPS = r"\S {2,}", 3  # between the cells of a row
_POINTS = r"^\s*[~^]+\s*$"  # Python's carets, at any indentation
_CLOSES = r"[,;:.!?)\]}>\"']$"  # a line that ends like this ends with a word
_OPEN = r"[,:(\[=] ?$"
_MIDDLE = r"^\s?[a-z0-9,.;:)]"  # a program's line rarely begins like this


class Wrap(NamedTuple):
    """How lines were broken, after `width` columns.

    `inside_words` is whether a terminal did it, `indent` how many blanks stand before
    the rest, `trimmed` how many may be missing at the end of a line.
    """

    width: int
    inside_words: bool
    indent: int
    trimmed: int


def may_be() -> pl.Expr:
    """Whether a line is long enough, and none with a blank is too long."""
    length = pl.col("raw").str.len_chars()
    too_long = (length > WIDEST) & pl.col("raw").str.contains(" ", literal=True)
    return (length >= NARROWEST).any() & ~too_long.any()


def likely(lines: pl.DataFrame) -> set[int]:
    """Return in which logs, by `log`, a full line may go on: in others none is broken.

    The lines of a log stand together.
    """
    log, length = pl.col("log"), pl.col("length")
    hangs, own = pl.col("below_indent"), pl.col("indent")
    even = (hangs == 0) | (length == pl.col("width"))
    goes_on = (even & ~pl.col("below_begins")) | ((hangs > own) & (hangs >= HANGING))
    # most lines are not nearly full: what is measured of them is only their length
    nearly = length + 1 + pl.col("below").str.len_chars() > pl.col("width")
    may_go_on = collected(
        lines.lazy()
        .select("log", "raw", below=pl.when(log == log.shift(-1)).then(_BELOW))
        .with_columns(_length(pl.col("raw")).alias("length"))
        .with_columns(_widest().over("log").alias("width"))
        .filter(nearly & (length > 0))
        .with_columns(expr.alias(name) for name, expr in _measures().items())
        .filter(_is_full(pl.col("width")) & pl.col("below_speaks"))
    )
    if may_go_on.is_empty():
        return set()
    begins = _below_begins().alias("below_begins")
    return {*may_go_on.with_columns(begins).filter(goes_on)["log"]}


def found(lines: pl.DataFrame) -> Wrap | None:
    """Return how these lines were broken, None if they were not."""
    told = _measured(lines)
    width = told.select(_widest()).item()
    if width is None:
        return None
    for indent in (0, *_indents(told, width)):
        breaks = told.select(_breaks(width, indent)).to_series()
        many = int(breaks.sum())
        if not many or not _leave_rests(told, breaks, width):
            continue
        if _are_words(told.filter(breaks), width):
            continue
        enough = many >= max(LEAST, SHARE * lines.height)
        enough = enough or _is_deepest(told, indent) or _all_begin(told, breaks)
        if enough and _unlike(told, breaks, indent):
            return _how(told.filter(breaks), width, indent)
    return None


def undone(lines: pl.DataFrame, how: Wrap) -> pl.DataFrame:
    """Join what was broken; a joined line has the number of its first piece."""
    told = _measured(lines)
    raw, length = pl.col("raw"), pl.col("length")
    breaks = _breaks(how.width, how.indent)
    blank = pl.lit(" ")
    # a blank that stands at the break is the one between the words
    stands = pl.col("below").str.starts_with(" ") & (how.indent == 0)
    if how.inside_words:
        breaks &= length >= how.width - how.trimmed
        lost = blank if how.trimmed else pl.lit("")
        padded = raw.str.pad_end(how.width)
        glue = (
            pl.when((seams.are_two_words() | seams.is_pause()) & ~stands)
            .then(lost)
            .otherwise(pl.lit(""))
        )
        piece = pl.when(length < how.width).then(padded).otherwise(raw + glue)
    else:
        # a word is broken only if it does not fit on a line of its own
        cut = (length == how.width) & ~raw.str.contains(_CLOSES)
        room = how.width - how.indent
        cut &= pl.col("last_word") + pl.col("first_word") > room
        whole = cut | raw.str.ends_with(" ") | stands
        piece = pl.when(whole).then(raw).otherwise(raw + blank)
    goes_on = breaks.shift(1, fill_value=False)
    text = pl.when(goes_on & (how.indent > 0)).then(raw.str.strip_chars_start(" "))
    told = told.with_columns(breaks.alias("breaks"), goes_on.alias("goes_on"))
    told = told.with_columns(text.otherwise("raw").alias("raw"))
    return (
        told.group_by((~pl.col("goes_on")).cum_sum(), maintain_order=True)
        .agg(
            pl.col("line").first(),
            pl.when("breaks").then(piece).otherwise("raw").str.join("").alias("raw"),
        )
        .select("line", "raw")
    )


def says(how: Wrap) -> str:
    """Say what was joined."""
    return f"lines broken at {how.width} columns are joined"


def _length(raw: pl.Expr) -> pl.Expr:
    """Return the columns of lines, without what pads them."""
    trimmed = raw.str.strip_chars_end(" ")
    return pl.when(raw.str.ends_with("  ")).then(trimmed).otherwise(raw).str.len_chars()


@cache
def _widest() -> pl.Expr:
    """Return the width of the widest line; a single word may be wider than all."""
    length, words = pl.col("length"), pl.col("raw").str.contains(r"\S\s+\S")
    several, widest = length.filter(words).max().fill_null(0), length.max()
    width = pl.when(widest <= several + SLACK).then(widest).otherwise(several)
    return pl.when(width.is_between(NARROWEST, WIDEST)).then(width)


_BELOW = pl.col("raw").shift(-1)


@cache
def _measures() -> Mapping[str, pl.Expr]:
    """Return what tells whether each line was broken, of `raw` and `below`."""
    raw, below = pl.col("raw"), pl.col("below")
    return {
        "length": _length(raw),
        "last_word": raw.str.extract(r"(\S*)$").str.len_chars(),
        "first_word": below.str.extract(r"^\s*(\S*)").str.len_chars(),
        "indent": raw.str.extract(r"^( *)").str.len_chars(),
        "below_indent": below.str.extract(r"^( *)").str.len_chars(),
        "below_speaks": below.str.contains(r"\S").fill_null(False),
    }


@cache
def _below_begins() -> pl.Expr:
    """Return whether `below` begins like a record; it takes long to prepare."""
    # nothing that breaks a line indents the rest by a tab
    return pl.col("below").str.contains(rf"^\t|{BEGINS}")


def _measured(lines: pl.DataFrame) -> pl.DataFrame:
    """Add `below`, the next line, and what tells whether each line was broken."""
    below = lines.lazy().with_columns(_BELOW.alias("below"))
    measures = {**_measures(), "below_begins": _below_begins()}
    measured = below.with_columns(e.alias(n) for n, e in measures.items())
    return collected(measured)


def _breaks(width: int, indent: int) -> pl.Expr:
    """Return whether each line goes on in the next one.

    A line that is indented like the one above it is the next entry of a list.
    """
    length = pl.col("length")
    hangs, own = pl.col("below_indent"), pl.col("indent")
    inside = (length == width) & (hangs != own)
    goes_on = ~pl.col("below_begins") & ((hangs == 0) | inside)
    deep = (hangs == indent) & ~pl.col("below").str.contains(_POINTS)
    fits = deep if indent else goes_on
    breaks = _is_full(width) & (length > 0) & fits & pl.col("below_speaks")
    ruled = pl.col("raw").str.contains(_RULED)
    breaks &= ~ruled | pl.col("below").str.contains(_RULED)
    # what is padded beyond its text had room for more
    breaks &= ~pl.col("raw").str.ends_with("  ")
    # the last row of a table is as wide as the others, whatever stands below it
    bars = pl.col("raw").str.replace_all(r"[^|]", " ")
    breaks &= ~(bars.str.contains(_BARS) & (bars == bars.shift(1))).fill_null(False)
    gaps = pl.col("raw").str.count_matches(_GAP)
    breaks &= ~((gaps >= GAPS) & (gaps == gaps.shift(1))).fill_null(False)
    if not indent:
        return breaks
    first = own.first().over(breaks.fill_null(False).rle_id())
    return breaks & (first < indent)


def _how(broken: pl.DataFrame, width: int, indent: int) -> Wrap:
    """Tell by broken lines what broke them.

    Only a terminal breaks a word that has room on a line; only what breaks at blanks
    leaves room before one, or a blank at the end of a line that is not full.
    """
    near = pl.col("length") >= width - TRIMMED
    room = pl.col("last_word") + pl.col("first_word") <= width
    blank = pl.col("raw").str.ends_with(" ")
    at_column, blanks, inside, early = broken.select(
        near.mean().alias("at_column"),
        (near & blank).sum().alias("blanks"),
        (seams.is_one_word() & room).sum().alias("inside"),
        ((blank | seams.are_two_words() | seams.is_pause()) & ~near)
        .sum()
        .alias("early"),
    ).row(0)
    column = inside >= early if inside + early else at_column >= AT_COLUMN
    return Wrap(width, column and not indent, indent, 0 if blanks else TRIMMED)


def _is_deepest(told: pl.DataFrame, indent: int) -> bool:
    """Whether what goes on stands below a column of times, and nothing else so deep."""
    if indent < COLUMN:
        return False
    blank = ~pl.col("raw").str.contains(r"\S")
    deepest = told.filter(~blank & ~pl.col("raw").str.contains(_POINTS))["indent"].max()
    return bool(deepest == indent)


def _all_begin(told: pl.DataFrame, breaks: pl.Series) -> bool:
    """Whether one break is enough: it goes on in the middle, all else begins anew.

    What goes on is no message by itself.
    """
    below = breaks.shift(1, fill_value=False)
    broken = told.filter(breaks)
    open_ = broken["raw"].str.contains(_OPEN) | broken["below"].str.contains(_MIDDLE)
    if not open_.all():
        return False
    others = told["raw"].filter(~below & told["raw"].str.contains(r"\S"))
    if not others.str.contains(BEGINS).all():
        return False
    rests = framing.frame(told.filter(below).select("line", "raw"))
    known = grammar.match(rests, grammar.strict())
    return not any(not name.startswith(grammar.NET) for name in known)


def _indents(told: pl.DataFrame, width: int) -> list[int]:
    """Return the most frequent deep indentations below full lines, at most `INDENTS`.

    The code under the frames of a traceback is one of them.
    """
    full = told.filter(_is_full(width) & (pl.col("below_indent") > pl.col("indent")))
    deep = full.filter(pl.col("below_indent") >= HANGING).group_by("below_indent").len()
    often = deep.sort(-pl.col("len").cast(pl.Int64), "below_indent")["below_indent"]
    return often.head(INDENTS).to_list()


def _is_full(width: int | pl.Expr) -> pl.Expr:
    """Whether the first word of the next line has no room on this one."""
    length = pl.col("length")
    return (length == width) | (length + 1 + pl.col("first_word") > width)


def _leave_rests(told: pl.DataFrame, breaks: pl.Series, width: int) -> bool:
    """Whether broken records end with less than a line; rows of a table do not."""
    ends = breaks.shift(1, fill_value=False) & ~breaks
    return bool((told["length"].filter(ends) < width - TRIMMED).any())


def _are_words(broken: pl.DataFrame, width: int) -> bool:
    """Whether most lines are full only because each is one word, as names in a list."""
    alone = ~pl.col("raw").str.contains(r"\S\s+\S") & (pl.col("length") < width)
    return bool(broken.select(alone.mean() > 1 / 2).item())


def _unlike(told: pl.DataFrame, breaks: pl.Series, indent: int) -> bool:
    """Whether what goes on begins unlike the lines that do not."""
    below = breaks.shift(1, fill_value=False)
    if indent:
        points = told["raw"].str.contains(_POINTS)
        hangs = below.filter((told["indent"] == indent) & ~points)
        return bool(hangs.sum() >= HANGING_SHARE * hangs.len())
    begins = told["raw"].str.head(BEGINNING)
    under, usual = begins.filter(below), begins.filter(~below).unique()
    return bool(under.is_in(usual.implode()).sum() * 2 < under.len())
