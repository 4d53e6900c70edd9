"""A mark in front of each line: of a quotation, a comment, a list, or its number.

A mark counts if most lines bear it. Numbers count if they are those of lines: `cat -n`,
`less -N` and editors count by one, `grep -n` upwards. `srun -l` labels its lines by
task as well, from 0 on, and more than once each.
"""

from __future__ import annotations

import polars as pl

MOST = 2 / 3
DEPTH = 3  # a list in a quotation of a quotation
ONE_BY_ONE = 0.9  # share of line numbers that are one more than the last
LEAST_NUMBERED = 4
# a table row also ends with its mark
_BAR = r"\|"
_ROW = r"\|\s*$"
_REST = r"(?:[ \t]|$)"
_EACH = ("#", "//", _BAR, ">+", "[-*+\u2022\u00b7]")
MARKS = tuple(rf"^[ \t]*{mark}{_REST}" for mark in _EACH)
_ANY = rf"^[ \t]*(?:{'|'.join(_EACH)}){_REST}"
OF_ROWS = rf"^[ \t]*{_BAR}{_REST}"
# how a line's number ends; the blank belongs to it if it follows nearly every number
_SIGN = r"[:.)|\]-]"
NUMBERS = tuple(
    rf"^[ \t]*(\d{{1,7}})(?:{end}|$)" for end in (rf"{_SIGN} ", _SIGN, r"\t", " ")
)
NEARLY_ALL = 0.95
GREP = r"^(\d{1,7})[:-]"
_NUMBER = rf"^[ \t]*([0-9]{{1,7}})(?:{_SIGN}|[ \t]|$)"  # in all of these forms
PROCESSES = r"^\s*PID\s"


def may_be() -> pl.Expr:
    """Whether enough lines bear a mark, or a number and one of these is higher."""
    raw = pl.col("raw")
    enough = raw.str.contains(r"\S").sum() * MOST
    number = raw.str.extract(_NUMBER).cast(pl.Int64).drop_nulls()
    rises = (number.len() >= enough) & (number.diff() > 0).any()
    return rises | (raw.str.contains(_ANY).sum() > enough)


def found(lines: pl.DataFrame) -> tuple[str, ...] | None:
    """Return the patterns of the marks, outermost first."""
    marks: list[str] = []
    for _ in range(DEPTH):
        mark = _mark(lines["raw"])
        if mark is None:
            break
        marks.append(mark)
        lines = undone(lines, (mark,))
    return tuple(marks) or None


def undone(lines: pl.DataFrame, how: tuple[str, ...]) -> pl.DataFrame:
    """Strip the marks."""
    raw = pl.col("raw")
    for mark in how:
        bare = raw.str.replace(mark, "")
        row = raw.str.contains(_ROW) if mark == OF_ROWS else pl.lit(False)
        lines = lines.with_columns(pl.when(row).then(raw).otherwise(bare))
    return lines


def says(how: tuple[str, ...]) -> str:
    """Say what was stripped."""
    kinds = dict.fromkeys("marks" if m in MARKS else "line numbers" for m in how)
    return f"{' and '.join(kinds)} in front of the lines are left out"


def _mark(raw: pl.Series) -> str | None:
    said = raw.filter(raw.str.contains(r"\S"))
    if said.len() < 2:
        return None
    for mark in MARKS:
        bears = said.str.contains(mark)
        if mark == OF_ROWS:
            bears &= ~said.str.contains(_ROW)
        if bears.sum() > max(1, said.len() * MOST):
            return mark
    return _numbers(said)


def _numbers(said: pl.Series) -> str | None:
    """Return the pattern of line numbers, None if these are none.

    A column of processes is no line number, though they may have been started at once.
    """
    if said.str.contains(PROCESSES).any():
        return None
    for form in (*NUMBERS, GREP):
        number = said.str.extract(form).cast(pl.Int64, strict=False).drop_nulls()
        share = NEARLY_ALL if form is NUMBERS[0] else MOST
        if number.len() < max(LEAST_NUMBERED, said.len() * share) or number[0] < 1:
            continue
        step = number.diff().drop_nulls()
        counts = (step > 0) if form is GREP else (step == 1)
        if counts.sum() >= step.len() * (1 if form is GREP else ONE_BY_ONE):
            return form
    return None
