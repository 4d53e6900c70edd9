"""Headings that name the file or place of what is below: tail's, people's, commands.

`==> logs/rank_3.log <==` is tail's; people put `=== gpu0007 ===` or `--- rank 3`
between what they collect in one file, a shell `$ kubectl exec train-1 -- py-spy dump`.
What the name tells of rank and host, as that of a file would, holds for the lines below
it up to the next heading, if they tell none themselves. What stands above each of
several stack dumps is a heading, too: a word in which these differ names the place.
"""

from __future__ import annotations

import re

import polars as pl

from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.pastes.prompts import ELSEWHERE
from ncclforensics.parsers.logs.record_starts import PROMPT
from ncclforensics.sources import layouts

Headings = dict[str, str]  # a heading -> what to put in front of the lines below it

_NAME = r"([A-Za-z0-9_./][^\n<>=]{0,250}?)"
_OF_TAIL = ascii_only(rf"^==> {_NAME} <==\s*$")
_BY_HAND = ascii_only(rf"^[=#-]{{2,}} ?{_NAME}(?: ?[=#-]{{2,}})?\s*$")
MOST_WORDS = 2  # of a name that a person puts there
# a command that runs in a pod or on a host, and shows what that prints
_FLAGS = r"(?: +--?[a-z][\w-]*(?:=\S+)?| +-[nc] +[\w.-]+)*"
_OF_COMMAND = ascii_only(
    rf"^(?:\S{{0,80}}[$#%>] +|\+ )?(?:sudo +)?(?:(?:kubectl|oc){_FLAGS} +(?:exec|logs)"
    rf"{_FLAGS} +(?:pods?/)?([a-z0-9][a-z0-9.-]*)"
    r"|ssh(?: +-[a-zA-Z](?: +\w+=\S+)?)* +(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*) +(\S.*))"
)
_PROMPT = ascii_only(rf"^(?:\$ |{PROMPT})")
# how a stack dump of a process begins, and how its lines do
_DUMP = r"^(?:Process \d+: |(?:Current thread|Thread) 0x[0-9a-f]+ .*most recent call)"
_IN_DUMP = ascii_only(
    r"^(?:\s|Process \d+: |Python v\d|(?:Current thread|Thread) 0x|Thread \d+ |#\d)"
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_PLACES = tuple(
    re.compile(rf"(?:[a-z]+/)?({place})", re.IGNORECASE)
    for place in (layouts.HOST, layouts.POD, rf"(?=\D*\d){layouts.ANY_HOST}")
)


# how each of these begins: the forms themselves take ten times as long to prepare
_MAY_BE = ascii_only(
    r"^==> |^[=#-]{2,} ?[\w./]|^(?:\S*[$#%>] +|\+ )?(?:sudo +)?(?:kubectl|oc|ssh) "
    rf"|{_DUMP}"
)


def may_be() -> pl.Expr:
    """Whether a line may be a heading, or have one above it."""
    return pl.col("raw").str.contains(_MAY_BE).any()


def found(lines: pl.DataFrame) -> Headings | None:
    """Return the headings that tell of a rank or host, None if none does.

    Below those of tail, others belong to the files.
    """
    raw = lines["raw"]
    told = _named(raw, _OF_TAIL)
    if not told:
        commands = raw.filter(raw.str.contains(f"{_PROMPT}|{_OF_COMMAND}"))
        above, by_hand = _above_dumps(lines), _named(raw, _BY_HAND)
        told = above | {line: by_hand[line] or above.get(line, "") for line in by_hand}
        told |= {line: _ran_at(line) for line in commands.unique().sort()}
    return told if any(told.values()) else None


def undone(lines: pl.DataFrame, how: Headings) -> pl.DataFrame:
    """Write rank and host in front of the lines below, as `framing` knows them."""
    raw = pl.col("raw")
    above = raw.replace_strict(how, default=None, return_dtype=pl.String)
    speaks = above.is_null() & raw.str.contains(r"\S")
    told = above.forward_fill().fill_null("")
    return lines.with_columns(pl.when(speaks).then(told + raw).otherwise(raw))


def says(_how: Headings) -> str:
    """Say nothing: a heading is no damage."""
    return ""


def _named(raw: pl.Series, form: str) -> Headings:
    """Return the headings of a form with what the names in them tell."""
    lines = raw.filter(raw.str.contains(form)).unique().sort()
    names = lines.str.extract(form)
    return {line: _ahead(name) for line, name in zip(lines, names, strict=True)}


def _ahead(name: str) -> str:
    """Return what `framing` knows of the rank and host that a name tells."""
    words = name.split()
    if len(words) > MOST_WORDS:
        return ""
    told = layouts.read("".join(words), "log")
    host = _at(str(told["host"])) if "host" in told else ""
    return host + (f"[rank={told['rank']}] " if "rank" in told else "")


def _at(host: str) -> str:
    return f"[host/{host}] "


def _ran_at(command: str) -> str:
    ran = re.match(_OF_COMMAND, command)
    if ran is None or re.match(ELSEWHERE, ran[3] or ""):
        return ""
    return _at(ran[1] or ran[2])


def _above_dumps(lines: pl.DataFrame) -> Headings:
    """Return the lines above stack dumps, by the words in which they differ."""
    raw = pl.col("raw")
    speaking = lines.filter(raw.str.contains(r"\S")).with_columns(
        raw.shift(1).alias("above")
    )
    above = speaking.filter(raw.str.contains(_DUMP))["above"].drop_nulls()
    headings = above.filter(~above.str.contains(_IN_DUMP)).unique().sort()
    words = [_WORD.findall(heading) for heading in headings]
    shared = set.intersection(*map(set, words)) if words else set()
    told = {}
    for heading, own in zip(headings, words, strict=True):
        fit = [p.fullmatch(word) for p in _PLACES for word in own if word not in shared]
        told[heading] = next((_at(m[1]) for m in fit if m), "")
    # what names no place, as the worker of a rank, stands below the last place
    return {heading: place for heading, place in told.items() if place}
