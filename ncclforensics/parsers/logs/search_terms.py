"""What is searched for in logs, and how much of each is kept.

A failing job may repeat a message about trouble for hours, and a healthy one repeats
most others: a span of a log keeps so many lines with a needle. Of what tells only of
progress, few are enough if they are spread over the whole log; of a tag, which stands
in line after line of its rank, a few of each rank.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ncclforensics.parsers.logs import grammar
from ncclforensics.parsers.logs.broken_lines import MARKS
from ncclforensics.parsers.logs.lines import ANSI
from ncclforensics.parsers.logs.needles import finder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.parsers.logs.ended_texts import Flags, Numbers
    from ncclforensics.parsers.logs.grammar import Message
    from ncclforensics.parsers.logs.needles import Finder

WRAPPED = 4  # lines that one wrapped message may span
QUIET_LINES = 8192
PACED_LINES = 512  # with the time of a step; far more than a judgement on them needs
CALLS = "nccl.coll"  # are counted: see `call_counting`
FIRST_CALLS = 128  # of a communicator that are read; they show that none was lost
LAST_CALLS = 1024  # a CUDA stream holds about that many launches
TAGGED_LINES = 4096  # looked at
LOUD_LINES = 32_768  # every rank of a very large job prints a few


@dataclass(frozen=True, slots=True)
class Search:
    """What to search for; prepared once for all sources.

    `needles` are those of the messages that are not routine, the marks of split lines
    from index `marks` on, and those of routine messages; `routine` are the numbers of
    these. Per needle, `reach` is how many lines, from its own on, may belong to its
    message; `loud` whether its message may be non-neutral; `sizes` its bytes; `of_rank`
    whether a rank's number may follow; `most` how many lines with it are kept per span.
    Beyond that a `sampled` one leaves a sample. Most lines with a `vague` needle hold
    no message, so dropping them leaves no note. `counted` are those of CALLS. `tags`
    are needles of nothing but tags; `tag` says which one a line holds, "" if none.
    """

    messages: Sequence[Message]
    finder: Finder
    needles: Sequence[bytes]
    marks: int
    routine: frozenset[int]
    reach: Numbers
    loud: Flags
    sizes: Numbers
    of_rank: Flags
    most: Sequence[int]
    sampled: frozenset[int]
    vague: frozenset[int]
    counted: frozenset[int]
    tags: frozenset[int]
    tag: pl.Expr


@cache
def search() -> Search:
    """Prepare the search."""
    messages = grammar.strict()
    needles = grammar.needles(m for m in messages if not m.routine)
    loud = set(grammar.needles(m for m in messages if m.role != "neutral" or m.inner))
    telling = (m for m in messages if not m.fallback or m.role != "neutral")
    paced = grammar.needles(m for m in messages if m.paced)
    calls = grammar.needles(m for m in messages if m.id == CALLS)
    tags = [m for m in messages if m.tag]
    only_tags = {*grammar.needles(tags)}.difference(
        grammar.needles(m for m in messages if not m.tag)
    )
    most = dict.fromkeys(only_tags, TAGGED_LINES) | dict.fromkeys(loud, LOUD_LINES)
    most |= dict.fromkeys(paced, PACED_LINES)
    most |= dict.fromkeys(calls, sys.maxsize)
    # a line that only tells of progress is not looked for where it was wrapped
    others = grammar.needles(m for m in messages if not m.paced and m.id != CALLS)
    reach = dict.fromkeys(needles, 1) | dict.fromkeys(others, WRAPPED)
    for message in messages:
        for needle in message.needles:
            reach[needle] = max(reach.get(needle, 0), message.block)
    routine = grammar.needles(m for m in messages if m.routine)
    searched = [*needles, *MARKS]
    every = [*searched, *(n for n in routine if n not in needles)]

    def numbers(some: Iterable[str]) -> frozenset[int]:
        return frozenset(map(every.index, some))

    sampled = numbers([*paced, *only_tags])
    often = sampled | numbers([*routine, *calls])
    return Search(
        messages,
        finder(every, often),
        [needle.encode() for needle in every],
        len(needles),
        numbers(routine),
        np.array([reach.get(n, 1) for n in searched], np.int64),
        np.array([n in loud for n in searched], np.bool_),
        np.array([len(n.encode()) for n in searched], np.int64),
        np.array(["rank" in n.lower() for n in searched], np.bool_),
        [*(most.get(n, QUIET_LINES) for n in needles), *(sys.maxsize for _ in MARKS)],
        sampled,
        numbers({*needles}.difference(grammar.needles(telling))),
        numbers(calls),
        numbers(only_tags),
        grammar.tag(pl.col("raw").str.replace_all(ANSI, ""), tags),
    )
