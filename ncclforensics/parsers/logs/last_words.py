"""The last line that each rank's program printed before its file tells of trouble.

No grammar knows such lines: they are free text, read only where everything else leaves
open who was waited for. A line of level ERROR is part of the trouble below it. In a
file without trouble it is the last line of all. Lines that the file repeats, but for
their numbers, are told as well, and the line right above the trouble, for its time; and
which of the last lines says that the rank has no more data, or leaves. A progress bar
tells how long it has been drawn, and the line above it since when. Lines with a count
that goes on, as `wrote shard 7/12`, show that their program is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.last_words import (
    BAR,
    COUNT,
    DONE,
    EPOCH,
    GAVE_UP,
    LAST,
    USUAL,
    shape,
)
from ncclforensics.model.tables import FAILING, SCHEMAS, TIME
from ncclforensics.parsers.logs import framing, timestamps
from ncclforensics.parsers.logs.lines import FILE, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.sources import Source

MOST_FILES = 1024
MOST_BYTES = 1 << 20  # of a file
ABOVE = 256  # lines above the first trouble that are looked at
TOGETHER = 4096  # lines of several files that are framed at once
WHOSE = ("rank", "local_rank", "task")  # what a prefix tells of a line's writer
STAMPS = ("t", "yearless", "dayless")
LINES = {"line": pl.Int64(), "raw": pl.String()}
OF_OTHERS = ("c10d.dump.observed", "c10d.dump.requested", "c10d.dump.preparing")
REPEATED = 3  # lines that are alike
CLOSING = 3  # last lines that may say that the loop is over
PEERS = 8  # ranks whose lines are enough to compare those of a few with
# a line in which its writer names itself: `[rank 3] batch 250`, `rank=3: saved`
NAMED = (
    r"(?i)\[(?:world_|global_)?rank[ =:]?(\d{1,6})[\] ,]"
    r"|\brank[ =](\d{1,6}):|^\(rank (\d{1,6})\)"
)
TAG = r"^\[(\d{1,5})\] "  # a number that may be a rank: `[3] batch 250`
ISO = r"^.{0,24}?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
US = r"^\[?(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d)"
# words of programs whose data or steps are used up, or that leave in peace
OVER = (
    r"(?i)\b(?:exhausted|StopIteration|end of (?:the )?data\b"
    r"|(?:ran|run|is|are) out of (?:data|batches|samples|inputs)"
    r"|no more (?:data|batches|samples)|max_(?:epochs|steps)=\S+ reached"
    r"|(?:training|all [a-z]+|fit(?:\(\))?) (?:is |are |has |was )?(?:finished|"
    r"completed?|done|over|returned)|(?:exiting|leaving|bye)\b"
    r"|exit(?:s|ed)?(?: with)?(?: code| status)? 0\b"
    r"|exit[.!]?$"
    r"|(?:done|finished|completed?)[:,]?(?: after| in| with)? \d+ (?:steps|epochs"
    r"|batches|iterations)\b)"
)
# ranks say this in health as well, but all of them
EPOCH_OVER = (
    r"(?i)\bend of epoch\b"
    r"|\b(?:ep(?:och)?[ =:]+\S+|e(?:p(?:och)?)?\d+) (?:is |was )?"
    r"(?:finished|done|complete|over\b|ended)"
)
# of how many, or a share of all: `shard 7/12`, `36% written`
COUNTED = r"(\d{1,9})(?: ?/ ?| of )\d{1,9}\b|(\d{1,3}(?:\.\d{1,3})?) ?%"
# tqdm's: its title, and how long it has been drawn
BARS = r"^(.{0,80}?)\d{1,3}%\|.*\[(?:(\d{1,3}):)?(\d{1,2}):(\d\d)<"
# a line that a program prints as trouble, by its level, or because a signal came
ERRORS = (
    r"^.{0,120}?\b(?:ERROR|CRITICAL|FATAL|(?:[Rr]eceived|[Cc]aught|[Gg]ot) (?:a )?"
    r"(?:SIG(?:TERM|INT|HUP|USR[12]|ABRT)|signal))\b"
)
# a line that a runtime prints, not the program
RUNTIMES = (
    r"^(?:NCCL|\w+:\d+:\d+ \[|\s|(?:Current thread|Thread) 0x|Timeout \([\d:]+\)!)"
)


def read(
    sources: Sequence[Source], told: Frames, whose: frozenset[int] = frozenset()
) -> pl.DataFrame:
    """Return rows of `events` for what ranks printed last.

    `told` are the frames of `sources`, with ranks. A file is of one rank, or each line
    tells its rank, local rank, task or process. Large files have no such rows. If
    `whose` names ranks, their files are read, those of a few peers, and those that
    several ranks share.
    """
    owners = dict(told.writers().unique("source", keep="none").iter_rows())
    logs = [s for s in sources if s.kind == "log" and s.bytes <= MOST_BYTES]
    if whose:
        peers = sorted({*owners.values()} - whose)[:PEERS]
        looked = {*whose, *peers}
        logs = [s for s in logs if owners.get(s.name) in {None, *looked}]
    if not logs or len(logs) > MOST_FILES:
        return tables.empty("events")
    bad = trouble(told)
    first = dict(bad.group_by("source").agg(pl.col("line").min()).iter_rows())
    lines = (_lines(log, log.name in owners, first.get(log.name)) for log in logs)
    framed = (some for some in _framed(logs, lines) if some.height)
    of_pid = dict(told.processes().select("pid", "rank").iter_rows())
    by_path = told["sources"].drop_nulls("rank")["source"]
    tagged = (_tagged(some, by_path, _everyone(told)) for some in framed)
    rows = [_rows(some, owners, of_pid, bad) for some in tagged]
    return pl.concat([tables.empty("events"), *rows])


def trouble(told: Frames) -> pl.DataFrame:
    """Return `source rank local_rank task line` of the lines that tell of trouble.

    A traceback counts where it begins: its event is cited where it ends. What dumps
    stacks is no program's log. That another rank asks for dumps ends no work.
    """
    is_stack = pl.col("message").str.starts_with("stacks.")
    fails = pl.col("role").is_in(FAILING) & ~pl.col("message").is_in(OF_OTHERS)
    bad = told["events"].filter(fails | is_stack)
    heads = told.message("python.traceback")
    return pl.concat([part.select("source", *WHOSE, "line") for part in (bad, heads)])


def _lines(log: Source, has_owner: bool, first: int | None) -> pl.DataFrame:
    """Return `line raw` of what is looked at; nothing of an unreadable file."""
    try:
        with log.open() as stream:
            read_ = (block.lines.select("line", "raw") for block in blocks(stream))
            return _above(read_, first) if has_owner else _all(read_)
    except (OSError, EOFError, ValueError):
        return tables.without_rows(LINES)


def _framed(
    logs: Sequence[Source], files: Iterable[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Yield the segments of some files, with their `source` and whether `is_error`.

    The lines of files, `line raw` each, are framed together up to a limit.
    """
    held: list[pl.DataFrame] = []
    names = pl.Series([log.name for log in logs], dtype=pl.String)
    done = 0
    for index, lines in enumerate(files):
        held.append(lines.with_columns(pl.col("line") + (index - done) * FILE))
        many = sum(part.height for part in held)
        if many < TOGETHER and index + 1 < len(names):
            continue
        numbered = pl.concat(held)
        bad = numbered.filter(pl.col("raw").str.contains(ERRORS))["line"]
        file = done + pl.col("line") // FILE
        yield framing.frame(numbered).with_columns(
            pl.col("line") % FILE,
            pl.col("line").is_in(bad.implode()).alias("is_error"),
            file.map_batches(names.gather, pl.String()).alias("source"),
        )
        held, done = [], index + 1


def _rows(
    framed: pl.DataFrame,
    owners: dict[str, int],
    of_pid: dict[int, int],
    failing: pl.DataFrame,
) -> pl.DataFrame:
    """Return the rows of some files, in the order of the files.

    `framed` are their segments, `owners` and `of_pid` the ranks of files and processes;
    of the lines `failing` each file's count for itself.
    """
    file, process = (
        pl.col(column).replace_strict(ranks, default=None, return_dtype=pl.Int64)
        for column, ranks in (("source", owners), ("pid", of_pid))
    )
    its = pl.coalesce("rank", file, _named(), process)
    file = pl.col("source").rle_id().alias("file")
    framed = framed.with_columns(file, its.alias("rank"), *_stamps()).with_columns(
        pl.coalesce("t", timestamps.absolute("iso", "us")).alias("t")
    )
    # a line without a time was printed after the time of the last one above it
    stamp = pl.struct(STAMPS)
    timed = pl.any_horizontal(pl.col(STAMPS).is_not_null())
    last = pl.when(timed).then(stamp).forward_fill().over("file")
    framed = framed.with_columns(last.struct.field(*STAMPS))
    told = framed.filter(
        pl.col("header").is_null()
        & pl.col("text").str.contains(r"\S")
        & ~pl.col("text").str.contains(RUNTIMES)
        & pl.any_horizontal(pl.col(WHOSE).is_not_null())
    )
    for column in WHOSE:
        of = failing.drop_nulls(column).group_by("source", column)
        at = of.agg(pl.col("line").min().alias(f"trouble_{column}"))
        told = told.join(at, on=["source", column], how="left", maintain_order="left")
    above = pl.min_horizontal("^trouble_.*$")
    told = told.with_columns(
        above.is_not_null().alias("has_trouble"),
        shape(pl.col("text")).alias("said"),
    ).filter((pl.col("line") < above).fill_null(True))
    own = told.filter(~pl.col("is_error"))
    whose = ["file", *WHOSE]
    usual = own.filter(pl.len().over(*whose, "said") >= REPEATED)
    closing = own.group_by(whose, maintain_order=True).tail(CLOSING)
    parts = (
        (LAST, own.unique(whose, keep="last", maintain_order=True)),
        (
            GAVE_UP,
            told.filter("has_trouble").unique(whose, keep="last", maintain_order=True),
        ),
        (DONE, closing.filter(pl.col("text").str.contains(OVER))),
        (EPOCH, closing.filter(pl.col("text").str.contains(EPOCH_OVER))),
        (USUAL, usual.unique([*whose, "said"], keep="last", maintain_order=True)),
        (BAR, _bars(framed, failing)),
        (COUNT, _counts(framed)),
    )
    columns = [c for c in SCHEMAS["events"] if c in framed.columns]
    rows = pl.concat(
        part.select(*columns, "file", pl.lit(message).alias("message"))
        for message, part in parts
    ).sort("file", maintain_order=True)
    neutral = rows.drop("file").with_columns(pl.lit("neutral").alias("role"))
    return tables.conform("events", neutral)


def _counts(framed: pl.DataFrame) -> pl.DataFrame:
    """Return the last lines of each shape with a time, if their count goes on."""
    part = pl.col("text").str.extract_groups(COUNTED).struct
    count = pl.coalesce(part.field("1"), part.field("2")).cast(pl.Float64)
    alike = ["file", *WHOSE, "said"]
    more = (pl.col("count").diff() > 0).fill_null(value=True).all().over(alike)
    return (
        framed.filter(pl.col("header").is_null() & pl.col("t").is_not_null())
        .with_columns(shape(pl.col("text")).alias("said"), count.alias("count"))
        .drop_nulls("count")
        .group_by(alike, maintain_order=True)
        .tail(REPEATED)
        .filter((pl.len().over(alike) == REPEATED) & more)
    )


def _bars(framed: pl.DataFrame, failing: pl.DataFrame) -> pl.DataFrame:
    """Return the last progress bar of each file above its first line of trouble.

    Its time is that of the last line with a time above where it began, and what it has
    been drawn since: it was not drawn any later if the lines below came at once.
    """
    part = pl.col("text").str.extract_groups(BARS).struct
    hours, minutes, seconds = (
        part.field(n).cast(pl.Int64, strict=False).fill_null(0) for n in "234"
    )
    drawn = pl.duration(hours=hours, minutes=minutes, seconds=seconds)
    bars = framed.with_columns(part.field("1").alias("title")).drop_nulls("title")
    if bars.is_empty():
        return bars
    first = failing.group_by("source").agg(pl.col("line").min().alias("first"))
    began = pl.col("t").first().over("file", "title")
    return (
        bars.join(first, on="source", how="left", maintain_order="left")
        .filter((pl.col("line") < pl.col("first")).fill_null(True))
        .with_columns((began + drawn).cast(TIME).alias("t"))
        .group_by("file", maintain_order=True)
        .tail(1)
    )


def _stamps() -> tuple[pl.Expr, pl.Expr]:
    """Stamps that no framing reads: `[2026-01-05 10:30:26][data]`, `10/03/2026 01:38`.

    The month comes first, as in the `datefmt` of Hugging Face's examples.
    """
    iso = pl.col("text").str.extract(ISO).alias("iso")
    part = pl.col("text").str.extract_groups(US).struct
    day = pl.concat_str(
        part.field("3"), part.field("1"), part.field("2"), separator="-"
    )
    return iso, pl.concat_str(day, part.field("4"), separator=" ").alias("us")


def _everyone(told: Frames) -> frozenset[int]:
    """Return the ranks of the job, as far as groups and lines list them."""
    members = told["groups"]["members"].explode()
    return frozenset(pl.concat([members, told["ranks"]["rank"]]).drop_nulls())


def _tagged(
    framed: pl.DataFrame, by_path: pl.Series, everyone: frozenset[int]
) -> pl.DataFrame:
    """Let `[3] ` in front of lines be a rank, in files whose tags are all the ranks.

    Not in those `by_path` of one rank: there it counts something else.
    """
    tag = pl.col("text").str.extract(TAG).cast(pl.Int64).alias("tag")
    lines = framed.with_columns(tag)
    held = lines.drop_nulls("tag").group_by("source").agg(pl.col("tag").unique())
    files = [
        source
        for source, tags in held.iter_rows()
        if len(everyone) > 1 and everyone == {*tags} and source not in by_path
    ]
    mine = pl.when(pl.col("source").is_in(files)).then("tag")
    return lines.with_columns(pl.coalesce("rank", mine).alias("rank")).drop("tag")


def _named() -> pl.Expr:
    """The rank in the text of a line whose prefix tells nothing of its writer."""
    told = pl.coalesce(pl.col("text").str.extract(NAMED, n) for n in (1, 2, 3))
    nothing = pl.all_horizontal(pl.col(WHOSE).is_null())
    return pl.when(nothing).then(told.cast(pl.Int64))


def _all(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([tables.without_rows(LINES), *parts])


def _above(parts: Iterable[pl.DataFrame], trouble: int | None) -> pl.DataFrame:
    """Return the last ABOVE lines above the line `trouble`, or of all."""
    kept = tables.without_rows(LINES)
    for part in parts:
        here = part if trouble is None else part.filter(pl.col("line") < trouble)
        kept = pl.concat([kept, here]).tail(ABOVE)
        if here.height < part.height:
            break
    return kept
