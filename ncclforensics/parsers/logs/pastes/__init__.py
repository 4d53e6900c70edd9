"""Undoes what a log went through before it was pasted: quoting, wrapping, joining.

Each module is one step: `may_be` is a cheap aggregate without which it did not happen,
`found` tells from all lines whether it did and how, `undone` takes it back. Steps are
planned on the first lines of a file, each on what the steps before it leave, and then
applied to the whole file before anything is matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.parsers.logs import framing, grammar
from ncclforensics.parsers.logs.pastes import (
    characters,
    chats,
    doubling,
    headings,
    prompts,
    quoting,
    running_on,
    wrapping,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Plan = tuple[tuple[str, Any], ...]

STEPS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(characters, chats, quoting, doubling, running_on, wrapping),
        *(headings, prompts),
    )
}
HELD = {"line": pl.Int64(), "message": pl.String(), "fallback": pl.Boolean()}
# What happens to large logs too; what people paste or type is small.
OF_LARGE = ("quoting", "doubling", "wrapping")


def likely(lines: pl.DataFrame) -> set[int]:
    """Return in which of several logs, by `log`, a step may be found: others have none.

    The lines of a log, `log raw`, stand together.
    """
    maybe = lines.group_by("log").agg(_may_be(STEPS, lines))
    others = maybe.filter(pl.any_horizontal(STEPS.keys() - {"wrapping"}))["log"]
    if not maybe["wrapping"].any():
        return {*others}
    wide = lines.join(
        maybe.filter("wrapping"), on="log", how="semi", maintain_order="left"
    )
    return {*others} | wrapping.likely(wide)


def planned(lines: pl.DataFrame, whole: bool) -> Plan:
    """Return the steps to undo in a log, given its first lines (`line`, `raw`).

    `whole` is whether these are all of its lines.
    """
    names = STEPS if whole else OF_LARGE
    maybe = lines.select(_may_be(names, lines)).row(0)
    plan: list[tuple[str, Any]] = []
    for name, likely in zip(names, maybe, strict=True):
        # what is undone may have hidden another step
        if likely or plan:
            how = STEPS[name].found(lines)
            if how is None:
                continue
            whole_lines = STEPS[name].undone(lines, how)
            # what is joined although nothing was broken hides the messages in it
            if name != "wrapping" or not _hides(lines, whole_lines):
                plan.append((name, how))
                lines = whole_lines
    return tuple(plan)


def _may_be(names: Iterable[str], lines: pl.DataFrame) -> Iterator[pl.Expr]:
    """Yield whether each of some steps may be found in `lines`, as a column.

    What can only be in long lines takes longer to prepare than all others.
    """
    longest = lines.select(pl.col("raw").str.len_bytes().max()).item() or 0
    for name in names:
        is_short = name == "running_on" and longest <= running_on.SHORT
        yield (pl.lit(False) if is_short else STEPS[name].may_be()).alias(name)


def _hides(broken: pl.DataFrame, whole: pl.DataFrame) -> bool:
    """Whether lines hold more messages as they are than they do when joined.

    First those that are no fallback: a fallback such as NCCL's warnings takes the
    beginning of a broken line as well, and the rest may hold the words of another. So
    of a joined line that tells what none of its pieces told, they do not count.
    """
    heads = whole.select("line", head="line").sort("line")
    pieces = _held(broken).sort("line").join_asof(heads, on="line")
    joined = _held(whole).with_columns(head="line")
    new = joined.join(pieces, on=["head", "message"], how="anti")["head"]
    mended = pl.col("head").is_in(new.implode()) & pl.col("fallback")
    before, after = (
        (told.filter(~pl.col("fallback")).height, told.filter(~mended).height)
        for told in (pieces, joined)
    )
    return after < before


def _held(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `line message fallback` of each message in some lines.

    Apart from the net and truncated ones.
    """
    kept = lines.filter(grammar.has_needle("raw", grammar.strict()))
    found = grammar.match(framing.frame(kept), grammar.strict())
    held = [
        found[m.id].select(
            "line", message=pl.lit(m.id), fallback=pl.lit(m.fallback, pl.Boolean)
        )
        for m in grammar.strict()
        if m.id in found
        if not m.id.startswith(grammar.NET) and not m.id.endswith(grammar.CUT_OFF)
    ]
    return pl.concat(held) if held else pl.DataFrame(schema=HELD)


def restored(lines: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """Return `lines` with all steps undone; a joined line has its first number."""
    for name, how in plan:
        lines = STEPS[name].undone(lines, how)
    return lines


def notes(plan: Plan) -> Iterator[str]:
    """Yield what was undone, in words."""
    yield from filter(None, (STEPS[name].says(how) for name, how in plan))
