"""The header in front of a message: NCCL's, c10's, Python logging's.

Headers are searched anywhere in a line, since two writers often share one stream. Parts
that people scrub before they post a log are optional. Sources: NCCL `src/debug.cc` 2.4
to 2.32 (which added ATTN); c10 `Logging.cpp` (without a date up to torch 2.3); torch's
Python log formats of torch 2.0 to 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.plans import collected
from ncclforensics.parsers.logs.ascii_regex import ascii_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# `[2026-06-23 15:45:07] gpu0001:420:437 [5] transport/nvls.cc:379 (f) NCCL WARN …`;
# only CALL lines lack the device; otherwise a clock time would match host:pid:tid.
_NCCL = (
    r"(?:\[(?P<nccl_t>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)\] )?"
    # people replace host names by `<cluster>`, the same for all hosts
    r"(?:(?P<nccl_host>[A-Za-z0-9_.-]+)|<[\w .-]{1,40}>)"
    r":(?P<nccl_pid>\d{1,10}|X+):(?:\d+|X+) "
    r"(?:\[(?P<nccl_dev>-?\d{1,6})\] [\t -~]{0,300}?|[\w/.]+\.(?:cc|h):\d+ )?"
    r"NCCL (?P<nccl_level>WARN|INFO|TRACE|CALL|ERROR|VERSION|ATTN) ?"
)
# A line posted without host and process, or only its end; what remains of the host is
# in front of the device.
_SCRUBBED = (
    r"^[^\n]{0,120}?(?:(?:(?P<nccl_host>[A-Za-z][\w.-]{0,63}) )?"
    r"\[(?P<nccl_dev>\d{1,6})\] )?"
    r"(?:\S+:\d+ (?:\([^)\n]*\) )?)?NCCL (?P<nccl_level>WARN|INFO) "
)
# XLA quotes its process's last WARN: `Last NCCL warning(error) …: 'Bootstrap : …'`.
_QUOTED = (
    r"^[^\n]*?Last NCCL (?P<nccl_level>warning)\(error\)[^'\n]{0,80}"
    r"(?:: | )'"
)
# NCCL up to 2.2 prints no name: `gpu0001:4121:4302 [0] bootstrap.cu:28 WARN …`;
# without the process, the source line distinguishes it from other logs
_EARLY = (
    r"^(?:(?P<nccl_host>[A-Za-z][\w.-]*):(?P<nccl_pid>\d{1,10}):\d+ "
    r"\[(?P<nccl_dev>\d{1,6})\] (?:[\w/.]+:\d+ )?"
    r"|(?:[^\n\[\]]{0,64} )?(?:\[\d{1,6}\] )?[\w/.]+\.(?:cu|cc|h):\d+ )"
    r"(?P<nccl_level>WARN|INFO) "
)
_EARLY_SCRUBBED = (
    r"^(?P<nccl_host>[A-Za-z][\w.-]{0,63}) \[(?P<nccl_dev>\d{1,6})\] "
    r"[\w/.]+\.(?:cu|cc|h):\d+ (?P<nccl_level>WARN|INFO) "
)
# `[rank5]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:1709] …`: the date is month
# times 100 plus day, and the fraction comes from a different clock. A paste that begins
# within its first line often lacks the first bracket.
_C10 = (
    r"(?:\[?\brank(?P<c10_rank>\d{1,9})[\[\]]{1,2}:)?"
    r"\[(?P<c10_level>[IWEF])"
    r"(?:(?P<c10_md>\d{3,4}) (?P<c10_hms>\d\d:\d\d:\d\d)\.\d{1,9})? "
    r"[\w./+-]+\.(?:cpp|h|hpp|cu|cuh):\d+\] ?(?:\[c10d\] )?"
)
# `W0801 13:23:17.366000 32974 torch/distributed/elastic/agent.py:900] …`; torch 2.3 and
# 2.4 print a thread ident in place of the pid, as glog does in C++.
_PYTHON = (
    r"(?:\[?\brank(?P<py_rank>\d{1,9})\]:)?"
    r"\b(?P<py_level>[DIWECF])(?P<py_md>\d{4}) (?P<py_hms>\d\d:\d\d:\d\d)\.\d{3,9} +"
    r"(?P<py_pid>\d{1,20}) [^\s\]]+\.(?:py|cc|cpp|cu|h):\d+\] ?"
)
_PYTHON_2_1 = (
    r"(?:\[(?P<old_t>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] )?"
    r"torch\.[\w.]+: \[(?P<old_level>[A-Z]+)\] "
)
_PYTHON_1 = r"\b(?P<bare_level>DEBUG|INFO|WARNING|ERROR|CRITICAL):torch\.[\w.]+: ?"

_FORMS = {
    "nccl": _NCCL,
    "c10": _C10,
    "python": "|".join((_PYTHON, _PYTHON_2_1, _PYTHON_1)),
}
# Any header. Captures are extracted by _AT_START, form by form.
ANY = ascii_only("(?:" + "|".join(_FORMS.values()) + ")")
# Forms that count only at the start of a segment, and only if no other form matches,
# with what some line has to hold for them: preparing them costs more than the search.
_LEVELS = ["WARN ", "INFO "]
_REST = {
    ascii_only(_SCRUBBED): ["NCCL WARN ", "NCCL INFO "],
    ascii_only(_QUOTED): ["Last NCCL warning(error)"],
    ascii_only(_EARLY): _LEVELS,
    ascii_only(_EARLY_SCRUBBED): _LEVELS,
}
_AT_START = {name: ascii_only(f"^(?:{form})") for name, form in _FORMS.items()}

# c10d's own prefix names the group; `[Rank 3]` alone is the rank within an unnamed
# group.
_GROUP = (
    r"\[PG (?:ID )?(?P<pg_id>\d{1,9})(?: PG GUID (?P<pg>[^\s(\]]+))? ?"
    r"(?:\((?P<pg_desc>[^\n]*?)\))? Rank (?P<pg_rank>\d{1,9})\] {0,2}"
)
_GROUP_PREFIX = ascii_only(f"^ ?{_GROUP}")
# an exception repeats it, behind what the interpreter or the C++ runtime prints
_GROUP_TOLD = ascii_only(
    rf"^\s*(?:what\(\):\s+)?(?:[\w.]+(?:Error|Exception): )?{_GROUP}"
)
_RANK_PREFIX = ascii_only(r"^\[Rank (?P<said_rank>\d{1,9})\]:? ")
# what some line has to hold for a form, and for a prefix behind a header
_PREFIXED = {"group": ["[PG "], "rank": ["[Rank "]}
_HOLD = {
    "nccl": ["NCCL "],
    "c10": [".cpp:", ".h:", ".hpp:", ".cu:", ".cuh:"],
    "python": [".py:", "torch.", ".cc:", ".cpp:", ".cu:", ".h:"],
    "level": [*_LEVELS, "Last NCCL warning(error)"],
    **_PREFIXED,
}
LITERALS = [literal for some in _HOLD.values() for literal in some]


def held(text: pl.Series) -> list[str]:
    """Return which forms of a header, and of a prefix behind it, a line may have."""
    return _holding(text, _HOLD)


def are_any(forms: Sequence[str]) -> bool:
    """Whether one of some forms is that of a whole header, which may part a line."""
    return not _AT_START.keys().isdisjoint(forms)


def _holding(text: pl.Series, literals: Mapping[str, list[str]]) -> list[str]:
    """Return the names of those `literals` of which a line holds one."""
    column = pl.col("text").str
    told = text.alias("text").to_frame()
    is_held = told.select(
        column.contains_any(some).any().alias(name) for name, some in literals.items()
    )
    return [name for name, so in zip(literals, is_held.row(0), strict=True) if so]


def take(segments: pl.DataFrame, forms: Sequence[str]) -> pl.DataFrame:
    """Strip the header from `text` of each segment; it may be of the `forms` of `held`.

    Adds `header`, `level`, `head_t`, `head_md` (c10 and Python: month and day in 3 or 4
    digits), `head_hms`, `head_host`, `head_pid`, `head_dev`, `head_rank`, and the group
    prefix's `pg_id`, `pg`, `pg_desc`, `pg_rank`; all String, null if not printed.
    """
    text = pl.col("text")
    at_start = {name: form for name, form in _AT_START.items() if name in forms}
    said = segments.select(
        text.str.extract_groups(form).alias(name) for name, form in at_start.items()
    ).unnest(*at_start)

    def of(*keys: str) -> pl.Expr:
        """Return the first of some captures; null without a form that has them."""
        known = [said[key] for key in keys if key in said.columns]
        return pl.coalesce(known) if known else pl.lit(None, pl.String)

    python = of("py_level", "old_level", "bare_level")
    level = pl.coalesce(of("nccl_level"), of("c10_level"), python)
    bare = segments.select(pl.when(level.is_null()).then(text).alias("text"))
    rest = {
        form: bare.select(text.str.extract_groups(form).alias("rest")).unnest("rest")
        for form in (_holding(bare["text"], _REST) if "level" in forms else ())
    }

    def nccl(key: str) -> pl.Expr:
        """Coalesce a capture over those of NCCL's forms that have it."""
        forms = [form[key] for form in (said, *rest.values()) if key in form.columns]
        return pl.coalesce(forms) if forms else pl.lit(None, pl.String)

    quoted = nccl("nccl_level").is_not_null() & level.is_null()
    taken = segments.lazy().with_columns(
        quoted.alias("quoted"),
        pl.when(of("nccl_level").is_not_null())
        .then(pl.lit("nccl"))
        .when(of("c10_level").is_not_null())
        .then(pl.lit("c10"))
        .when(python.is_not_null())
        .then(pl.lit("python"))
        .when(quoted)
        .then(pl.lit("nccl"))
        .alias("header"),
        pl.coalesce(level, nccl("nccl_level").replace("warning", "WARN")).alias(
            "level"
        ),
        of("nccl_t", "old_t").alias("head_t"),
        of("c10_md", "py_md").alias("head_md"),
        of("c10_hms", "py_hms").alias("head_hms"),
        nccl("nccl_host").alias("head_host"),
        # a pid has at most 7 digits; a longer number is a thread ident
        pl.coalesce(
            nccl("nccl_pid"), of("py_pid").str.extract(r"^([0-9]{1,7})$")
        ).alias("head_pid"),
        nccl("nccl_dev").alias("head_dev"),
        of("c10_rank", "py_rank").alias("head_rank"),
    )
    bared = taken.with_columns(_without_header(at_start.values(), rest)).drop("quoted")
    return _take_group(collected(bared), forms)


def _without_header(at_start: Iterable[str], rest: Iterable[str]) -> pl.Expr:
    text = pl.col("text")
    stripped, unquoted = text, text
    for form in at_start:
        stripped = stripped.str.replace(form, "")
    for form in rest:
        unquoted = unquoted.str.replace(form, "")
    return (
        pl.when("quoted")
        .then(unquoted)
        .when(pl.col("header").is_not_null())
        .then(stripped)
        .otherwise(text)
        .alias("text")
    )


def _take_group(segments: pl.DataFrame, forms: Sequence[str]) -> pl.DataFrame:
    if _PREFIXED.keys().isdisjoint(forms):
        return segments.with_columns(
            pl.lit(None, pl.String).alias(name)
            for name in ("pg_id", "pg", "pg_desc", "pg_rank")
        )
    groups = segments.select(pl.col("text").str.extract_groups(_GROUP_TOLD).alias("g"))
    named = groups.unnest("g")
    said = segments["text"].str.extract(_RANK_PREFIX)
    return segments.with_columns(
        named["pg_id"],
        # before torch 2.5, only the number of the group was printed
        named["pg"],
        named["pg_desc"],
        pl.coalesce(named["pg_rank"], said).alias("pg_rank"),
        pl.col("text")
        .str.replace(_GROUP_PREFIX, "")
        .str.replace(_GROUP_PREFIX, "")
        .str.replace(_RANK_PREFIX, "")
        .alias("text"),
    )
