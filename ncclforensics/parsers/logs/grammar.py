"""Log messages as data: load `grammars/*.toml` and match framed lines against them.

One TOML table is one message that one program prints. All needles meet a column of
lines in one Aho-Corasick pass; only lines with a needle meet that message's regex, a
whole column at a time. Patterns are Rust regex, applied to the text behind the line's
decorations and header, so they anchor with `^` at the message's own first word.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model.errors import UsageError
from ncclforensics.parsers.logs.ascii_regex import ascii_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROLES = ("culprit", "victim", "either", "agent", "neutral")
KINDS = ("int", "str", "float", "hex", "bool")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of one program.

    `needle` is a literal in every raw line that holds the message; of several, each
    such line holds one. `columns` types the captures. `role` says who prints it.
    `feeds` names the frame that such a line is also a row of, `constants` what that row
    holds besides the captures. `inner` names the module of `structures` that reads its
    inner structure, out of at most `block` lines. A `fallback` takes only
    lines that no other message took, a `spoken` one only lines that say whose rank they
    are. A `routine` message is printed for as long as all
    is well: of many, some are read.
    """

    id: str
    program: str
    needle: str | Sequence[str]
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
    samples: Sequence[Mapping[str, Any]] = ()
    near: Sequence[str] = ()

    @property
    def needles(self) -> Sequence[str]:
        """The literals, one of which is in every line that holds the message."""
        return (self.needle,) if isinstance(self.needle, str) else self.needle

    @property
    def regex(self) -> str:
        """The pattern as it is searched: what a program prints is ASCII."""
        return ascii_only(self.pattern)


def grammar_folder() -> Path:
    """Return where the grammars lie: in the wheel, or beside an editable package."""
    package = Path(__file__).parents[2]
    shipped = package / "grammars"
    return shipped if shipped.is_dir() else package.parent / "grammars"


@cache
def load(folder: Path | None = None) -> tuple[Message, ...]:
    """Read all grammars of a folder (default: the shipped ones), in order of name.

    Raises UsageError on a file that is not well formed, and where there is none.
    """
    folder = folder or grammar_folder()
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise UsageError(f"no grammar is in {folder}: is the package whole?")
    return tuple(message for file in files for message in load_file(file))


def load_file(file: Path) -> tuple[Message, ...]:
    """Read the messages of one file; raises UsageError where it is not well formed."""
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file.name}: {error}") from error
    program = content.get("program", {}).get("name", file.stem)
    return tuple(_message(table, program, file) for table in content.get("message", ()))


def _message(table: dict[str, Any], program: str, file: Path) -> Message:
    fields = dict(table)
    fields["constants"] = fields.pop("set", {})
    try:
        return Message(program=program, **fields)
    except TypeError as error:
        name = table.get("id", "a message without id")
        raise UsageError(f"{file.name}: {name}: {error}") from error


def has_needle(column: str, messages: Iterable[Message]) -> pl.Expr:
    """Return whether a line of `column` holds a needle of any of `messages`."""
    return pl.col(column).str.contains_any(needles(messages))


def needles(messages: Iterable[Message]) -> list[str]:
    """Return the needles of `messages`, each once, in order."""
    return sorted({needle for message in messages for needle in message.needles})


def match(lines: pl.DataFrame, messages: Sequence[Message]) -> dict[str, pl.DataFrame]:
    """Find which message each line is, and what it captures.

    `lines` has the string columns `raw` (searched for needles) and `text` (met by the
    patterns); its other columns are kept. Returns a frame per message id with at least
    one line: the columns of `lines`, and those of the captures. A capture replaces a
    column of its own name where it holds something.
    """
    hits = (
        lines.select(
            pl.int_range(pl.len()).alias("row"),
            pl.col("raw")
            .str.extract_many(needles(messages), overlapping=True)
            .list.unique()
            .alias("needle"),
        )
        .explode("needle")
        .drop_nulls()
    )
    rows_of = {
        str(key[0]): part["row"].sort()
        for key, part in hits.partition_by("needle", as_dict=True).items()
    }
    found: dict[str, pl.DataFrame] = {}
    taken: list[pl.Series] = []
    for message in sorted(messages, key=lambda m: m.fallback):
        held = [rows_of[needle] for needle in message.needles if needle in rows_of]
        if not held:
            continue
        rows = held[0] if len(held) == 1 else pl.concat(held).unique().sort()
        if message.fallback and taken:
            rows = rows.filter(~rows.is_in(pl.concat(taken).implode()))
        captured = _capture(lines[rows].with_columns(rows.alias("_row")), message)
        if captured.height:
            taken.append(captured["_row"])
            found[message.id] = captured.drop("_row")
    return found


def _capture(lines: pl.DataFrame, message: Message) -> pl.DataFrame:
    if message.spoken:
        lines = lines.drop_nulls("rank")
    matching = lines.filter(pl.col("text").str.contains(message.regex))
    if not message.columns or not matching.height:
        return matching
    groups = matching.select(
        pl.col("text").str.extract_groups(message.regex).alias("groups")
    ).unnest("groups")
    return matching.with_columns(
        _kept(groups[name], kind, matching) for name, kind in message.columns.items()
    )


def _kept(column: pl.Series, kind: str, lines: pl.DataFrame) -> pl.Series:
    """Type a capture, and let the line's own column stand where it captured nothing."""
    typed = _typed(column, kind)
    if column.name in lines.columns:
        return pl.select(pl.coalesce(typed, lines[column.name])).to_series()
    return typed


def _typed(column: pl.Series, kind: str) -> pl.Series:
    match kind:
        case "int":
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
