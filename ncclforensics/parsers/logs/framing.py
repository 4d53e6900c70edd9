"""Splits a raw line into the launcher's envelope, the header and the message.

A physical line may hold several messages (a progress bar with a c10 line appended, two
NCCL writers in one stream), so a line becomes one or more segments. Rank, host and time
from the envelope (decorations) and the header become columns beside the text. Covers
the formats of NCCL 2.4 to 2.30, torch 1.13 to 2.13 (C++ and Python logging), and the
launchers named in `decorations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import polars as pl

from ncclforensics.model.frames import once_if_empty
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import GROUP, TIME, WHO
from ncclforensics.parsers.logs import (
    decorations,
    filled,
    headers,
    json_records,
    prefix_habits,
    redraws,
    shared_heads,
    timestamps,
)
from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.lines import FILE

MAX_DECORATIONS = 5  # torchrun in srun in kubectl, with a time stamp, is four
CUT = "\x1e"
AHEAD = 160  # bytes of a prefix; more is another program's line
TOGETHER = 512  # lines that are framed at once, wanted or not
# Markdown emphasis, a quotation mark or a title's mark in front of a whole line
EMPHASIS = r"^(?:(?:\*\*|`{1,3}|\")([A-Za-z\[])|#{1,6} (\[rank[0-9]))"
EMPHASES = ("```", "[repeated")  # and what Ray puts, behind a whole line

# how a program's own logging names the rank that writes: `[rank 3] `, `rank=3/8 `,
# `[r3] `, `r3| `, `r3 it=5`, `trainer[r3] INFO`, `rank 3: step 5`, `rank 3 step 5`,
# also behind a host, `gpu01/r3: `, a level, `error: `, or the place of loguru,
# `trainer:fit:231 - `. Behind a number and a colon, words follow: `rank 3: 812 ms` is
# of a table.
_BEFORE_TAG = (
    r"^(?:\d\d:\d\d:\d\d(?:[.,]\d{1,9})? )?"
    r"(?:(?:(?i:debug|info|warn|warning|error|critical)[: ] *)(?:[\w.]{1,80}: )?)?"
    r"(?:[\w.<>]{1,80}:[\w.<>]{1,80}:\d+ - )?"
)
_TAGS = (
    r"(?:\[rank[ =]?|rank=)(\d{1,6})(?:/\d{1,6})?(?:[\] ,]|$)",
    r"(?:rank |\[[rR]|(?:[A-Za-z][\w.-]{0,80}\d/)?[rR])(\d{1,6})"
    r"(?:: |\] |\| )[A-Za-z_]",
    r"(?:[rR]|[rR]ank)(\d{1,6}) [a-z_]{2,20}(?:=| \d)",
    r"(?:[A-Za-z][\w.-]{0,80} )?[A-Za-z]\w{0,40}\[[rR](?:ank ?)?(\d{1,6})\] [A-Z]",
    r"rank (\d{1,6}) (?:step|iter(?:ation)?|epoch|batch|local|loss)[ =:]+\d",
)
_TAGGED = ascii_only(f"{_BEFORE_TAG}(?:{'|'.join(_TAGS)})")
# Ray prints equal lines of several workers once
REPEATED = r" \[repeated \d+x across cluster\](?: \(Ray deduplicates logs [^\n]*)?$"
# Who writes a line, by what stands in front of it, the surest first: NCCL's own header,
# the kernel's and Slurm's lines, records and labels of shippers, prefixes of launchers.
# What names a machine otherwise than its processes do (a pod, a service) is an alias.
TELLS = {
    "rank": (
        *("head_rank", "torch_rank", "mpi_rank", "det_rank", "eq_rank"),
        *("vllm_rank", "sglang_rank", "told_rank", "tag"),
    ),
    "local_rank": ("tee_rank", "teed_rank"),
    "task": ("task",),
    "host": (
        *("head_host", "sys_host", "step_host", "told_host", "label_host"),
        *("mpi_host", "worker", "any_host", "ray_ip", "sky_ip"),
    ),
    "host_alias": (
        *("algo", "service", "sky_node", "pod", "told_pod", "label_pod", "told_algo"),
    ),
    "pid": ("head_pid", "ray_pid"),
    "device": ("head_dev",),
}
_NAMES = ("host", "host_alias")  # the others are numbers
# the captures that distinguish the writers of one stream
_SPEAKERS = (
    "told_host",
    "told_pod",
    "told_algo",
    "told_container",
    "told_rank",
    "labels",
    "algo",
    "pod",
    "mpi_rank",
    "det_rank",
    "eq_rank",
    "sky_node",
    "torch_rank",
    "tee_rank",
    "ray_pid",
    "ray_ip",
    "sglang_rank",
    "any_host",
    "worker",
    "service",
    "task",
)
# the columns of complete times
STAMPS = (
    *("head_t", "cri_t", "iso_t", "us_t", "sys_iso", "ctime"),
    *("det_t", "mpi_t", "told_t", "epoch_t"),
)
# torch prints its rank before a message, not before each line of the message
_LAUNCHERS = tuple(name for name in _SPEAKERS if name != "torch_rank")


@once_if_empty()
def frame(lines: pl.DataFrame) -> pl.DataFrame:
    """Split lines (`line` Int64, `raw` String) into segments.

    Returns a row per segment, in order: `line`, `part` (0-based within the line),
    `raw`, `prefix` (as in `events`), `text` (the message), `speaker` (identifies the
    writer within the stream),
    `launcher` (the same without torch's own rank prefix), `header` ("nccl", "c10",
    "python" or null), `is_record` (whether it stood in a JSON record that tells its
    rank), `level`, the columns of WHO and GROUP, `t`, `yearless` and
    `dayless` (see `timestamps`).
    """
    bare = prefix_habits.rewritten(lines)
    return shared_heads.framed(
        bare, _framed, [*redraws.MARKS, *EMPHASES, *headers.LITERALS]
    )


def _framed(bare: pl.DataFrame) -> pl.DataFrame:
    told = [c for c in json_records.COLUMNS if c in bare.columns]
    bare = bare.select("line", pl.col("raw").fill_null(""), *told)
    whole = pl.col("raw").fill_null("").str.strip_suffix("```")
    bare = redraws.parted(json_records.unwrapped(bare)).with_columns(
        whole.str.replace(EMPHASIS, "$1$2")
    )
    bare = bare.filter(pl.col("raw") != "")
    peeled = _peel(bare).with_columns(pl.col("text").str.replace(EMPHASIS, "$1$2"))
    text = pl.col("text")
    held = headers.held(peeled["text"])
    if headers.are_any(held):
        # most headers begin a line, and part nothing: counting is faster than replacing
        begins = (text.str.find(headers.ANY) == 0).fill_null(False)
        inside = text.str.count_matches(headers.ANY) > begins.cast(pl.UInt32)
        cut = pl.when(inside).then(text).str.replace_all(headers.ANY, CUT + "$0")
        text = pl.coalesce(cut, text)
    line = pl.col("line")  # ranks tell places faster than a window does
    part = line.rank("ordinal").cast(pl.Int64) - line.rank("min")
    segments = collected(
        peeled.lazy()
        .with_columns(text.str.split(CUT))
        .explode("text")
        .filter(pl.col("text") != "")
        .with_columns(part.alias("part"))
    )
    return _named(headers.take(segments, held))


@dataclass(slots=True)
class Lines:
    """Lines (`line` Int64, `raw` String) of which some are framed, in several rounds.

    Framing a few lines costs as much as framing hundreds, so few are framed together.
    """

    all: pl.DataFrame
    _framed: pl.DataFrame | None = None

    def framed(self, wanted: pl.Expr) -> pl.DataFrame:
        """Return the segments of the lines that fulfil `wanted`, as `frame` does."""
        lines = self.all.filter(wanted)
        if lines.is_empty() or self.all.height > TOGETHER:
            return frame(lines)
        if self._framed is None:
            self._framed = frame(self.all)
        if lines.height == self.all.height:
            return self._framed
        return self._framed.filter(pl.col("line").is_in(lines["line"].implode()))


def _peel(lines: pl.DataFrame) -> pl.DataFrame:
    """Strip up to MAX_DECORATIONS decorations from the start of each line.

    Adds a column for each of their captures that some line has.
    """
    peeled = lines.with_columns(
        pl.col("raw").alias("text"),
        pl.lit(None, pl.String).alias("outer_rank"),
        pl.lit(0).alias("prefixes"),
    )
    text = pl.col("text")
    open_ = peeled.select("text")  # null where nothing was found before
    for _ in range(MAX_DECORATIONS):
        decorated = text.str.contains(decorations.IS_DECORATED)
        if not open_.select(decorated.any()).item():
            break
        # of lines that are not decorated, it takes long to extract nothing
        open_ = open_.select(
            pl.when(decorated & ~text.str.contains(decorations.IS_LISTED)).then(text)
        )
        groups = text.str.extract_groups(decorations.IS_DECORATED).alias("said")
        said = open_.select(groups).unnest("said")
        open_ = open_.select(text.str.replace(decorations.IS_DECORATED, ""))
        peeled = peeled.with_columns(
            pl.coalesce(open_["text"], text),
            *(
                pl.coalesce(said[name], filled.first(peeled, name)).alias(name)
                for name in filled.printed(said)
            ),
            pl.coalesce("outer_rank", said["torch_rank"]).alias("outer_rank"),
            (pl.col("prefixes") + said["torch_rank"].is_not_null()).alias("prefixes"),
        )
    if "ray_pid" in peeled.columns:
        peeled = peeled.with_columns(pl.col("text").str.replace(REPEATED, ""))
    return peeled


def _teed(segments: pl.DataFrame) -> pl.DataFrame:
    """Tell torchrun's prefix from torch's own where both are spelled `[rank0]:`.

    With `--role rank`, as TorchTitan has it, torchrun puts `[rank` and the local rank
    in front of each line. A file with lines like `[rank0]:[rank16]:` is such a file:
    its outer prefix is `teed_rank`, and no rank.
    """
    if "torch_rank" not in segments.columns:
        return segments
    own = filled.first(segments, "head_rank", "torch_rank")
    both = (pl.col("prefixes") > 1) | filled.first(segments, "head_rank").is_not_null()
    differ = (both & (own != pl.col("outer_rank"))).fill_null(False)
    if not segments.select(differ.any()).item():
        return segments
    teed = differ.any().over(pl.col("line") // FILE)
    return segments.with_columns(
        pl.when(teed).then("outer_rank").alias("teed_rank"),
        pl.when(~teed | (pl.col("prefixes") > 1)).then("torch_rank"),
    )


def _named(segments: pl.DataFrame) -> pl.DataFrame:
    """Map the captures of decorations and headers to the columns of `frame`."""
    ahead = pl.col("raw").str.strip_suffix(pl.col("text"))
    tags = pl.col("text").str.extract_groups(_TAGGED).alias("tags")
    tagged = segments.select(tags).unnest("tags")
    segments = _teed(
        segments.with_columns(
            pl.coalesce(tagged.get_columns()).alias("tag"),
            *(
                pl.col("labels").str.extract(label).alias(name)
                for name, label in decorations.LABELS.items()
                if "labels" in segments.columns
            ),
        )
    )
    # what no line has costs as much as what all have
    printed = filled.printed(segments)
    said = segments.select(*printed)
    first = partial(filled.first, said)
    namespace, container = (
        first(f"told_{part}", f"label_{part}").fill_null("")
        for part in ("namespace", "container")
    )
    who = {
        column: first(*names) if column in _NAMES else filled.number(first(*names))
        for column, names in TELLS.items()
    }
    pod = pl.concat_str(
        namespace,
        first("pod", "told_pod", "label_pod"),
        pl.coalesce(first("container"), container),
        separator="/",
    )
    who |= {"in_pod": pod, "attempt": pl.lit(None, pl.Int64)}
    group = {
        "pg": pl.col("pg"),
        "pg_id": pl.col("pg_id"),
        "pg_desc": pl.col("pg_desc"),
        "group_rank": filled.number(first("pg_rank")),
    }
    is_record = first("told_rank").is_not_null()
    tells = pl.any_horizontal(who[c].is_not_null() for c in ("rank", "host", "task"))
    is_ahead = (ahead != pl.col("raw")) & ahead.str.len_bytes().is_between(1, AHEAD)
    dated = not {"sys_t", "mon", "head_hms", "md_hms"}.isdisjoint(printed)
    nothing = pl.lit(None, TIME)
    month_day, hms = first("head_md", "md"), first("head_hms", "md_hms")
    yearless = timestamps.yearless(month_day, hms, first("sys_t", "mon"))
    return segments.select(
        "line",
        "part",
        "raw",
        pl.when(tells & is_ahead).then(ahead).alias("prefix"),
        "text",
        filled.joined(said, _SPEAKERS).alias("speaker"),
        filled.joined(said, _LAUNCHERS).alias("launcher"),
        "header",
        is_record.alias("is_record"),
        # a shipper's level is its own; a program that tells its rank tells its level
        pl.coalesce("level", pl.when(is_record).then(first("told_level"))),
        *(who[name].alias(name) for name in WHO),
        *(group[name].alias(name) for name in GROUP),
        timestamps.absolute(*(c for c in STAMPS if c in printed)).alias("t"),
        (yearless if dated else nothing).alias("yearless"),
        (timestamps.dayless("clock") if "clock" in printed else nothing).alias(
            "dayless"
        ),
    )
