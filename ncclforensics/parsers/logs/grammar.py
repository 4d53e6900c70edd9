"""Log messages as data: loads `grammars/*.toml` and matches framed lines against them.

One TOML table describes one message of one program. One Aho-Corasick pass searches a
column of lines for all needles; only lines with a needle are matched against that
message's regex, a whole column at a time. Patterns are Rust regex, applied to the text
after the line's decorations and header, so `^` anchors at the first word of the
message.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model.errors import UsageError
from ncclforensics.model.plans import collected
from ncclforensics.parsers.logs import kept_toml
from ncclforensics.parsers.logs.alternatives import spelled_out
from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.needles import finder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.parsers.logs.needles import Finder

ROLES = ("culprit", "victim", "either", "agent", "neutral")
KINDS = ("int", "rank", "str", "float", "hex", "bool")
NET = "uncaught."  # messages that take whatever reads as a failure
AT_WORK = "condensed.at_work."  # messages that take whatever reads as progress
_START = re.compile(r"(?<![\[\\])\^")  # of a line, in a pattern
BEHIND = r"""(?:^|[\s:>|\])}"'`=-])"""  # what a message may follow
RECORD = '"rank":'  # stands for the keys of a record that tell its rank
CUT_OFF = ".cut"  # messages that take a line whose end is lost
FEW_LINES = 512  # lines that are looked through faster than a search is prepared
SETS = 32  # sets of messages of which the needles are kept


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message of one program.

    Every raw line with the message contains one of the literals `needles`. `columns`
    types the captures. `role` says who prints it, one of ROLES. `feeds` names a frame
    to which the message adds a row; `constants` are that row's values besides the
    captures. `inner` names the module of `message_parsers` that parses its inner
    structure, from at most `block` lines. A `fallback` takes only lines that no other
    message took; a `spoken` message only lines that state their rank. A healthy job
    prints a `routine` message all the time, so only a few of them are read. A `paced`
    message tells how long a step took: a sample over the whole log is read. A `tag` is
    what a program puts in line after line: a few lines of each are read. A `loose`
    message is one as people retell it, read only where nothing else tells a cause; its
    captures are told as those of the message that it `stands_for`.
    """

    id: str
    program: str
    needles: Sequence[str]
    pattern: str
    meaning: str
    role: str
    columns: Mapping[str, str] = field(default_factory=dict)
    since: str | None = None
    until: str | None = None
    feeds: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    inner: str | None = None
    block: int = 1
    fallback: bool = False
    spoken: bool = False
    routine: bool = False
    paced: bool = False
    tag: bool = False
    loose: bool = False
    stands_for: str | None = None
    samples: Sequence[Mapping[str, Any]] = ()
    near: Sequence[str] = ()

    @property
    def regex(self) -> str:
        r"""The pattern used for matching: `\d`, `\w` and `\b` match ASCII only."""
        return ascii_only(self.pattern)


def grammar_folder() -> Path:
    """Return the folder of the grammars: in the wheel, or beside the source tree."""
    package = Path(__file__).parents[2]
    shipped = package / "grammars"
    return shipped if shipped.is_dir() else package.parent / "grammars"


@cache
def load(folder: Path | None = None) -> tuple[Message, ...]:
    """Load all grammars of a folder (default: the shipped ones), in file name order.

    Raises UsageError if a file is malformed or the folder has none.
    """
    shipped, folder = folder is None, folder or grammar_folder()
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise UsageError(f"no grammar is in {folder}: is the package whole?")
    told = kept_toml.contents(files, _parsed) if shipped else map(_parsed, files)
    both = zip(files, told, strict=True)
    return tuple(message for file, some in both for message in _messages(some, file))


@cache
def strict() -> tuple[Message, ...]:
    """Return the shipped messages that programs print as they are: not `loose`."""
    return tuple(message for message in load() if not message.loose)


@cache
def anywhere() -> tuple[Message, ...]:
    """Return the strict messages as they stand behind a prefix that nothing knows."""
    return tuple(
        replace(message, pattern=_START.sub(lambda _: BEHIND, message.pattern))
        for message in strict()
        if not message.fallback
    )


def tag(text: pl.Expr, messages: Iterable[Message]) -> pl.Expr:
    """Return which tag `text` holds: its captures as one string, "" if it holds none.

    `messages` are the tags, each with a capture that is never null; one may stand
    behind a prefix.
    """
    told: list[pl.Expr] = []
    for message in messages:
        pattern = ascii_only(_START.sub(lambda _: BEHIND, message.pattern))
        groups = text.str.extract_groups(pattern).struct
        told += (groups.field(name) for name in message.columns)
    return pl.concat_str(told, separator="|", ignore_nulls=True)


def load_file(file: Path) -> tuple[Message, ...]:
    """Load the messages of one file; raises UsageError if it is malformed."""
    return _messages(_parsed(file), file)


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file.name}: {error}") from error


def _messages(content: dict[str, Any], file: Path) -> tuple[Message, ...]:
    program = content.get("program", {}).get("name", file.stem)
    return tuple(_message(table, program, file) for table in content.get("message", ()))


def _message(table: dict[str, Any], program: str, file: Path) -> Message:
    fields = dict(table)
    fields["constants"] = fields.pop("set", {})
    try:
        told = fields.pop("needle")
        fields["needles"] = spelled_out([told] if isinstance(told, str) else told)
        return Message(program=program, **fields)
    except (KeyError, TypeError) as error:
        name = table.get("id", "a message without id")
        raise UsageError(f"{file.name}: {name}: {error}") from error


def has_needle(
    column: str, messages: Iterable[Message], among: pl.DataFrame | None = None
) -> pl.Expr:
    """Return an expression: whether `column` holds a needle of any of `messages`.

    If it is asked of no other lines than those `among`, preparing it takes less time.
    """
    sought = needles(messages) if among is None else occurring(among[column], messages)
    return pl.col(column).str.contains_any(sought) if sought else pl.lit(False)


def occurring(lines: pl.Series, messages: Iterable[Message]) -> list[str]:
    """Return the needles of `messages` that may be in one of some lines, sorted."""
    messages = tuple(messages)
    sought = _holders(messages)
    if lines.len() > FEW_LINES:
        return [*sought]
    shipped, search = _shipped()
    known = lines.drop_nulls() if lines.null_count() else lines
    held = search.present("\n".join([RECORD, *known]).encode())
    found = {shipped[number] for number in held}
    return sorted(found.intersection(sought) | _unshipped(messages))


@cache
def _shipped() -> tuple[Sequence[str], Finder]:
    """Return the needles of all shipped messages, and their search."""
    known = needles(load())
    return known, finder(known)


@lru_cache(SETS)
def _unshipped(messages: tuple[Message, ...]) -> frozenset[str]:
    """Return the needles of messages that are not shipped: no search is for them."""
    return frozenset(needles(messages)).difference(_shipped()[0])


def needles(messages: Iterable[Message]) -> list[str]:
    """Return the distinct needles of `messages`, sorted."""
    return [*_holders(tuple(messages))]


@lru_cache(SETS)
def _holders(messages: tuple[Message, ...]) -> Mapping[str, Sequence[int]]:
    """Return for each needle, sorted, the places in `messages` of those with it."""
    found: dict[str, list[int]] = {}
    for place, message in enumerate(messages):
        for needle in message.needles:
            found.setdefault(needle, []).append(place)
    return dict(sorted(found.items()))


def match(lines: pl.DataFrame, messages: Sequence[Message]) -> dict[str, pl.DataFrame]:
    """Match lines to messages and extract the captures.

    `lines` has the string columns `raw` (searched for needles, with RECORD where
    `is_record`) and `text` (matched against the patterns); other columns are kept.
    Returns, for each message id with at least one line, a frame with the columns of
    `lines` and the captures. A non-null capture replaces the column of the same name.
    """
    sought = occurring(lines["raw"], messages)
    if not sought:
        return {}
    hits = collected(
        lines.lazy()
        .select(
            pl.int_range(pl.len()).alias("row"),
            pl.when("is_record")
            .then(pl.col("raw") + RECORD)
            .otherwise("raw")
            .str.extract_many(sought, overlapping=True)
            .list.unique()
            .alias("needle"),
        )
        .explode("needle")
        .drop_nulls()
    )
    # in the order of the lines, each of them once
    rows_of = {
        str(key[0]): part["row"]
        for key, part in hits.partition_by("needle", as_dict=True).items()
    }
    holders = _holders(tuple(messages))
    places = sorted({place for needle in rows_of for place in holders[needle]})
    met = [messages[place] for place in places]
    found: dict[str, pl.DataFrame] = {}
    taken: list[pl.Series] = []
    paced: list[pl.Series] = []
    for message in sorted(met, key=lambda m: m.fallback):
        held = [rows_of[needle] for needle in message.needles if needle in rows_of]
        rows = held[0] if len(held) == 1 else pl.concat(held).unique().sort()
        others = taken + paced if _is_mild(message) else taken
        if message.fallback and others:
            rows = rows.filter(~rows.is_in(pl.concat(others).implode()))
        mine = lines[rows]
        mine.insert_column(mine.width, rows.alias("_row"))
        captured = _capture(mine, message)
        if captured.height:
            (paced if message.paced else taken).append(captured.drop_in_place("_row"))
            found[message.id] = captured
    return found


def _is_mild(message: Message) -> bool:
    """Whether it tells no more than a line with the times of a step does: who is where.

    What reads as a failure does so in such a line as well.
    """
    counts = "step" in message.columns or message.id.startswith(AT_WORK)
    return message.tag or counts or RECORD in message.needles


def _capture(lines: pl.DataFrame, message: Message) -> pl.DataFrame:
    if message.spoken:
        lines = lines.drop_nulls("rank")
    if lines.is_empty():  # to look for nothing takes as long as for something
        return lines
    matching = lines.filter(pl.col("text").str.contains(message.regex))
    if not message.columns or not matching.height:
        return matching
    groups = pl.col("text").str.extract_groups(message.regex)
    captured = matching.with_columns(groups.alias("_groups")).with_columns(
        _kept(name, kind, matching) for name, kind in message.columns.items()
    )
    captured.drop_in_place("_groups")
    return captured


def _kept(name: str, kind: str, lines: pl.DataFrame) -> pl.Expr:
    """Type a capture; where it is null, use the line's column of the same name."""
    typed = _typed(pl.col("_groups").struct.field(name), kind)
    return (pl.coalesce(typed, name) if name in lines.columns else typed).alias(name)


def _typed(column: pl.Expr, kind: str) -> pl.Expr:
    match kind:
        case "int" | "rank":
            return column.cast(pl.Int64, strict=False)
        case "hex":
            digits = column.str.strip_prefix("0x")
            return digits.str.to_integer(base=16, dtype=pl.Int64, strict=False)
        case "float":
            return column.cast(pl.Float64, strict=False)
        case "bool":
            return column.is_not_null()
        case _:
            return column
