"""Several records in one line: the newlines were lost in a field of a ticket.

The lines are split again where a launcher's prefix, a header, a frame of a traceback or
its exception begins, and counted as they are then. Text counts as run on if its lines
are far longer than a program writes and hold several such beginnings each. JSON is left
alone.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs import headers
from ncclforensics.parsers.logs.ascii_regex import ascii_only

LONG = 200  # characters; three beginnings of records are longer
SHORT = 100  # of a line that itself begins with one: a table has times in its columns
SEVERAL = 3  # beginnings inside one line
_PREFIX = (
    r"\[rank\d{1,9}\]: |\[[a-z]+\d{1,6}\]:|\[(?:1,)?\d{1,9}\]<std(?:out|err)>: ?|\[pod/"
    r"|\(\w+ pid=\d+[^)\n]{0,60}\) |slurmstepd: |srun: "
)
_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
_RECORD = (
    rf"(?:{_PREFIX})?{headers.ANY}|{_PREFIX}|Traceback \(most recent call"
    rf"|{_STAMP}|During handling of the above"
    r"|The above exception was|Exception raised from |frame #\d+: |={8,}|-{8,}"
    r"|terminate called after |what\(\): |Last error: |Fatal Python error: "
    r"|Extension modules: "
)
# what begins a stack, and a line of Python's logging or of the kernel
_STACK = (
    r"(?:Current thread|Thread) 0x[0-9A-Fa-f]{4,16} (?:\[[^\]\n]{0,40}\] )?"
    r"\(most recent"
    r"|Timeout \(\d{1,3}:\d\d:\d\d\)!|Process \d{1,10}: |Thread \d{1,20} \([a-z]"
    r"|Thread \d{1,6} \((?:Thread|LWP)|#\d{1,3} +(?:0x[0-9a-f]+ in )?\S{1,300} \("
    r"|<no Python frame>|={3} [Rr]ank \d{1,6}\b|Process \d{1,10} exit with status"
    r"|Python v\d"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{1,80}:|\[ {0,6}\d{1,8}\.\d{6}\] "
)
_JSON = r"^\s*[\[{]\s*[\"{]"
_ESCAPED = r'\\n {2,}File \\?"'  # a traceback in a string, whose newlines are spelt
_BEGINS = ascii_only(rf" +({_RECORD}|{_STACK})")
_STARTS = ascii_only(rf"^(?:{_PREFIX}|{headers.ANY}|{_STAMP})")
# what stands in front of one record: a pod, a time, a launcher's and a rank's prefix
_LEAD = ascii_only(
    rf"^(?:(?:\[pod/[^\]\n]{{1,200}}\]|(?:{_PREFIX})|{_STAMP}[\d.,:Z+-]*"
    r"|std(?:out|err) [FP]) *)+"
)
_RULES = r"^[-=+| ]+$"  # under the heads of a table's columns
# what each of these holds: they themselves take ten times as long to prepare
_HOLDS = ascii_only(
    r"NCCL [A-Z]{4}|\[[IWEF](?:\d| )|\b[DIWEC]\d{4} |torch\.|\[rank\d"
    r"|\[[a-z]+\d{1,6}\]:|\]<std|\[pod/| pid=\d|slurmstepd: |srun: |Traceback "
    r"|\d{4}-\d\d-\d\d[T ]|During handling|The above|Exception raised|frame #\d"
    r"|={3}|-{8}|terminate called|what\(\)|Last error: |Fatal Python|Extension mod"
    r"|[Tt]hread |Timeout \(|Process \d|#\d|<no Python|Python v\d"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):|\[ *\d+\.\d{6}\]|File \"|\.py:\d"
)
_FRAME = ascii_only(r' +(File "[^"\n]{1,500}", line \d{1,7}, in \S{1,200}) ')
# faulthandler's frames have no code below them
_BARE_FRAME = ascii_only(r' +(File "[^"\n]{1,500}", line \d{1,7} in \S{1,200})')
_OF_PYSPY = ascii_only(r" +([\w<>.:]{1,200} \([\w./<>+-]{1,500}\.py:\d{1,7}\))")
_FRAMES = (_FRAME, _BARE_FRAME, _OF_PYSPY)
_CAUSE = ascii_only(
    r" +((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt): )"
)
# the fields and entries of torchelastic's table, and its rules
_FIELD = r" +((?:time|host|rank|exitcode|traceback) +: |error_file: )"
_ENTRY = r"(?m) +(\[\d{1,5}\]:)$"
_RULE = r"(?m)^(-{8,}|={8,}) +"
# NCCL's last error stands on a line of its own
_LAST = r"(?m)^(Last error:) +"
# what was raised without words, behind the code that raised it
_WORDLESS = ascii_only(
    r"(?m)^( {4}\S.*?) +((?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Exit|Interrupt):?) *$"
)
_MARKED = r"(?m)^( {4}\S.*?) +([~^]+)$"  # carets below the code that they mark
# launchers' prefixes from which the exception behind them was split
_BARE = ascii_only(rf"(?m)^((?:{_PREFIX.replace(': ', ':')}){{1,3}}) *\n")


def may_be() -> pl.Expr:
    """Whether any line is that long, no JSON, and may hold so many beginnings."""
    return (_long().str.count_matches(_HOLDS) >= SEVERAL).any()


def found(lines: pl.DataFrame) -> str | None:
    """Return the pattern of the beginnings, if records run on."""
    many = (_begun(_long()) >= SEVERAL).any()
    return _BEGINS if lines.select(many).item() else None


def _long() -> pl.Expr:
    """Return the long lines that are no JSON."""
    long = pl.col("raw").filter(_is_long(pl.col("raw")))
    return long.filter(~long.str.contains(f"{_JSON}|{_ESCAPED}"))


def _is_long(raw: pl.Expr) -> pl.Expr:
    """Whether a line is longer than a program's, by how it begins, and no rule."""
    size = raw.str.len_bytes()
    long = (size > LONG) | ((size > SHORT) & raw.str.contains(_STARTS))
    return long & ~raw.str.contains(_RULES)


def _begun(raw: pl.Expr) -> pl.Expr:
    """Return how many records, stacks and frames begin inside each line.

    A row of a table has times as well: they count where one begins the line, too.
    """
    starts = raw.str.contains(_STARTS)
    raw = raw.str.replace(_LEAD, "")
    each = [raw.str.count_matches(form) for form in (_BEGINS, *_FRAMES)]
    times = raw.str.count_matches(rf" +{_STAMP}")
    of_rows = pl.when(starts).then(0).otherwise(times)
    return pl.sum_horizontal(each).cast(pl.Int64) - of_rows.cast(pl.Int64)


def undone(lines: pl.DataFrame, how: str) -> pl.DataFrame:
    """Split the lines, and number them anew: what stands above what must be known."""
    raw = pl.col("raw")
    runs_on = _is_long(raw) & (_begun(raw) >= SEVERAL)
    runs_on &= ~raw.str.contains(_ESCAPED)
    split = (
        raw.str.replace_all(how, "\n$1")
        .str.replace_all(_FRAME, "\n  $1\n    ")
        .str.replace_all(_BARE_FRAME, "\n  $1")
        .str.replace_all(_OF_PYSPY, "\n    $1")
        .str.replace_all(_CAUSE, "\n$1")
        .str.replace_all(_BARE, "$1 ")
        .str.replace_all(_FIELD, "\n  $1")
        .str.replace_all(_ENTRY, "\n$1")
        .str.replace_all(_RULE, "$1\n")
        .str.replace_all(_LAST, "$1\n")
        .str.replace_all(_WORDLESS, "$1\n$2")
        .str.replace_all(_MARKED, "$1\n    $2")
        .str.split("\n")
    )
    apart = lines.with_columns(
        pl.when(runs_on).then(split).otherwise(pl.concat_list(raw))
    ).explode("raw")
    return apart.with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line")
    )


def says(how: str) -> str:
    """Say what was split."""
    return "records that stand in one line are read, and counted, as lines of their own"
