"""Several records in one line: the newlines were lost in a field of a ticket.

The lines are split again where a launcher's prefix, a header, a frame of a traceback or
its exception begins. Text counts as run on if its lines are far longer than a program
writes and hold several such beginnings each. JSON is left alone.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs import headers
from ncclforensics.parsers.logs.ascii_regex import ascii_only

LONG = 200  # characters; three beginnings of records are longer
SEVERAL = 3  # beginnings inside one line
_PREFIX = (
    r"\[rank\d{1,9}\]: |\[[a-z]+\d{1,6}\]:|\[1,\d{1,9}\]<std(?:out|err)>: ?|\[pod/"
    r"|\(\w+ pid=\d+[^)\n]{0,60}\) |slurmstepd: |srun: "
)
_RECORD = (
    rf"(?:{_PREFIX})?{headers.ANY}|{_PREFIX}|Traceback \(most recent call"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|During handling of the above"
    r"|The above exception was|Exception raised from |frame #\d+: |={8,}|-{8,}"
    r"|terminate called after |what\(\): |Last error: "
)
_JSON = r"^\s*[\[{]\s*[\"{]"
_BEGINS = ascii_only(rf" +({_RECORD})")
# what each of them holds: they themselves take ten times as long to prepare
_HOLDS = ascii_only(
    r"NCCL [A-Z]{4}|\[[IWEF](?:\d| )|\b[DIWEC]\d{4} |torch\.|\[rank\d"
    r"|\[[a-z]+\d{1,6}\]:|\]<std|\[pod/| pid=\d|slurmstepd: |srun: |Traceback "
    r"|\d{4}-\d\d-\d\d[T ]"
    r"|During handling|The above|Exception raised|frame #\d|={8}|-{8}|terminate called"
    r"|what\(\)|Last error: "
)
_FRAME = ascii_only(r' +(File "[^"\n]{1,500}", line \d{1,7}, in \S{1,200}) ')
_CAUSE = ascii_only(
    r" +((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt): )"
)
# the fields and entries of torchelastic's table, and its rules
_FIELD = r" +((?:time|host|rank|exitcode|traceback) +: |error_file: )"
_ENTRY = r"(?m) +(\[\d{1,5}\]:)$"
_RULE = r"(?m)^(-{8,}|={8,}) +"
# NCCL's last error stands on a line of its own
_LAST = r"(?m)^(Last error:) +"
# a launcher's prefix from which the exception behind it was split
_BARE = ascii_only(rf"(?m)^((?:{_PREFIX.replace(': ', ':')})) *\n")


def may_be() -> pl.Expr:
    """Whether any line is that long, no JSON, and may hold so many beginnings."""
    return (_long().str.count_matches(_HOLDS) >= SEVERAL).any()


def found(lines: pl.DataFrame) -> str | None:
    """Return the pattern of the beginnings, if records run on."""
    many = (_long().str.count_matches(_BEGINS) >= SEVERAL).any()
    return _BEGINS if lines.select(many).item() else None


def _long() -> pl.Expr:
    """Return the long lines that are no JSON."""
    raw = pl.col("raw")
    long = raw.filter(raw.str.len_bytes() > LONG)
    return long.filter(~long.str.contains(_JSON))


def undone(lines: pl.DataFrame, how: str) -> pl.DataFrame:
    """Split the lines; all parts keep the number of their line."""
    raw = pl.col("raw")
    runs_on = (raw.str.len_bytes() > LONG) & (raw.str.count_matches(how) >= SEVERAL)
    split = (
        raw.str.replace_all(how, "\n$1")
        .str.replace_all(_FRAME, "\n  $1\n    ")
        .str.replace_all(_CAUSE, "\n$1")
        .str.replace_all(_BARE, "$1 ")
        .str.replace_all(_FIELD, "\n  $1")
        .str.replace_all(_ENTRY, "\n$1")
        .str.replace_all(_RULE, "$1\n")
        .str.replace_all(_LAST, "$1\n")
        .str.split("\n")
    )
    return lines.with_columns(
        pl.when(runs_on).then(split).otherwise(pl.concat_list(raw))
    ).explode("raw")


def says(how: str) -> str:
    """Say what was split."""
    return "records that stand in one line are read as lines of their own"
