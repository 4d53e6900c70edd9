"""Prefixes that only a file's habit shows: stern's, a pid, a tag, pdsh's host.

Such words may also begin a sentence, or name a logger. They are a prefix in a file most
of whose lines begin so, with few names; they are written as prefixes that `framing`
knows.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs import tag_habits
from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.lines import ANSI, FILE

# stern puts `pod container ` in front of each line, of several namespaces `namespace
# pod container `. Such words may also begin a sentence, so most lines of the file have
# to begin with a few such pairs.
STERN = ascii_only(
    r"^([a-z0-9][a-z0-9-]{0,250}-(?:\d+|[a-z0-9]{5})) "
    r"([a-z][a-z0-9-]{2,62}) "
)
STERN_SPACES = r"^[a-z0-9][a-z0-9-]{0,62} " + STERN.removeprefix("^")
# a launcher of the site's own may put `(4711) ` in front of each line of a process
PID = ascii_only(r"^\((\d{1,7})\) ")
_SENTENCE = (
    r"^\S+ (?:has|was|did|had|failed|exited|lost|died|joined|left|not|with|and|ranks) "
)
# pdsh and DeepSpeed put `host: ` in front of each line, and so do loggers with their
# name: it is a host if torch's own prefix, which begins a line, stands behind it. A
# number alone is a task of srun.
_NAME = r"\d{0,9}[A-Za-z][\w.-]{0,80}"
PDSH = ascii_only(rf"^({_NAME}): ")
_TORCH = ": [rank"  # a literal of each such line: looked for first, as it is cheap
_TORCH_BEHIND = ascii_only(rf"^({_NAME}): \[rank\d{{1,9}}\]: ?")
# how all these begin but pdsh's: they themselves take longer to prepare
_MAY_BE = ascii_only(
    r"^(?:[a-z0-9][a-z0-9-]* )?[a-z0-9][a-z0-9-]*-[a-z0-9]+ [a-z][a-z0-9-]+ "
    r"|^\(\d{1,7}\) "
    r"|^(?:[\d:., T-]* |[A-Z][a-z]+ +\d+ [\d:.,]+ )?[\[(](?:[a-z]{2,12}[ =:_-])?\d"
)
FEWEST, MOST = 3, 2 / 3  # lines, and their share of a file, that make a habit


def rewritten(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `lines`, `line` and `raw`, with the prefixes that their files show."""
    raw, colourless = pl.col("raw"), pl.col("raw").str.replace_all(ANSI, "")
    torch = raw.str.contains(_TORCH, literal=True)
    if not lines.select((colourless.str.contains(_MAY_BE) | torch).any()).item():
        return lines
    sentence = raw.str.contains(_SENTENCE)
    for stern in (STERN_SPACES, STERN):
        lines = _written_as(lines, stern, 2, "[pod/$1/$2] ", colourless, ~sentence)
    lines = _written_as(lines, PID, 1, "(pid=$1) ", colourless, pl.lit(True))
    lines = tag_habits.written(lines, colourless)
    behind = lines.filter(torch)["raw"]
    if behind.is_empty():
        return lines
    hosts = behind.str.extract(_TORCH_BEHIND).drop_nulls().unique()
    if hosts.is_empty():
        return lines
    known = raw.str.extract(PDSH).is_in(hosts.implode()).fill_null(False)
    bare = pl.when(known).then(raw)
    # torch's own prefix behind each is proof enough that the names are of hosts
    return _written_as(lines, PDSH, 1, "[host/$1] ", bare, known, most_names=1)


def _written_as(
    lines: pl.DataFrame,
    prefix: str,
    name: int,
    known: str,
    text: pl.Expr,
    also: pl.Expr,
    most_names: float = 1 / FEWEST,
) -> pl.DataFrame:
    """Replace a prefix in files where most lines bear it, and few names vary.

    `name` is the group of the pattern `prefix` that has to have few values, at most
    `most_names` per such line; `also` is what a line has to fulfil as well.
    """
    raw, file = pl.col("raw"), pl.col("line") // FILE
    if not lines.select(text.str.contains(prefix).any()).item():
        return lines
    said = lines.filter(raw.str.contains(r"\S")).select(file.alias("file"), text)
    bears = raw.str.contains(prefix) & also
    of = said.group_by("file").agg(
        bears.sum().alias("marked"),
        raw.filter(bears).str.extract(prefix, name).n_unique().alias("names"),
        pl.len(),
    )
    shipped = of.filter(
        (pl.col("marked") > pl.max_horizontal(FEWEST - 1, pl.col("len") * MOST))
        & (pl.col("names") <= pl.col("marked") * most_names)
    )
    return lines.with_columns(
        pl.when(file.is_in(shipped["file"].implode()))
        .then(pl.coalesce(text.str.replace(prefix, known), raw))
        .otherwise(raw)
    )
