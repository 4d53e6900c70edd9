"""Compares the facts of two sides."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

import polars as pl

from ncclforensics.diff import facts, model
from ncclforensics.model.folding import count, fold_hosts, name_ranks
from ncclforensics.report.contract import Evidence
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.sanitize import line
from ncclforensics.verdict.quotes import counting_entries

if TYPE_CHECKING:
    from ncclforensics.diff.sides import Side

MOST = 4  # values of a fact that are told with their ranks
RANKS = 24  # characters of a folded set of ranks
TEXT = 200  # characters of a quoted line
TOPICS: tuple[model.Topic, ...] = get_args(model.Topic)
# what is compared of a fact, and what is told of it, by topic and name
Facts = dict[tuple[model.Topic, str], tuple[str, model.Told]]


def compare(a: Side, b: Side) -> model.Comparison:
    """Return what differs between two sides, what is equal, and what is not told."""
    (left, tells_a), (right, tells_b) = _told(a), _told(b)
    keys = dict.fromkeys([*right, *left])
    same: Counter[model.Topic] = Counter()
    differences = []
    for topic, name in keys:
        if topic not in tells_a or topic not in tells_b:
            continue
        key_a, told_a = left.get((topic, name), (None, None))
        key_b, told_b = right.get((topic, name), (None, None))
        if key_a == key_b:
            same[topic] += 1
        else:
            differences.append(model.Difference(topic, name, told_a, told_b))
    if {"hosts"} <= tells_a & tells_b:
        both = set(a.report.job.hosts) & set(b.report.job.hosts)
        same["hosts"] = len(both)
        differences += _hosts(a, b, both)
    differences.sort(key=lambda d: TOPICS.index(d.topic))
    sides: tuple[tuple[model.Mark, frozenset[model.Topic]], ...]
    sides = ("a", tells_a), ("b", tells_b)
    silent = ((t, tuple(s for s, told in sides if t not in told)) for t in TOPICS)
    return model.Comparison(
        tool=b.report.tool,
        a=_answer(a),
        b=_answer(b),
        differences=tuple(differences),
        same=tuple(model.Same(t, same[t]) for t in TOPICS if same[t]),
        untold=tuple(model.Untold(t, of) for t, of in silent if of),
    )


def _hosts(a: Side, b: Side, both: set[str]) -> list[model.Difference]:
    """Return the hosts that only one of two sides has."""
    only = [set(side.report.job.hosts) - both for side in (a, b)]
    told = [model.Told(fold_hosts(hosts)) if hosts else None for hosts in only]
    return [model.Difference("hosts", "only here", *told)] if any(told) else []


def _answer(side: Side) -> model.Answer:
    report = side.report
    first, second = opening(report)
    lines = " ".join(first.split()), second
    return model.Answer(side.name, report.outcome, lines, report.verdict)


def _told(side: Side) -> tuple[Facts, frozenset[model.Topic]]:
    """Return the facts of a side, and the topics that its evidence tells of."""
    job = side.report.job
    of_job: tuple[tuple[model.Topic, str, object], ...] = (
        ("job", "ranks", job.world_size),
        ("job", "launcher", job.launcher),
        ("job", "torch", job.torch_version),
    )
    plain = [(t, name, str(value)) for t, name, value in of_job if value]
    found: Facts = {(t, name): (text, model.Told(text)) for t, name, text in plain}
    tells: set[model.Topic] = {topic for topic, _ in found}
    tells |= {"hosts"} if job.hosts else set()
    if side.frames is not None:
        rows = facts.facts(side.frames)
        tells |= facts.topics(side.frames, rows)
        everyone = frozenset(side.frames["ranks"]["rank"].drop_nulls().to_list())
        found |= _folded(rows, everyone, counting_entries(side.frames))
    return found, frozenset(tells)


def _folded(
    rows: pl.DataFrame, everyone: frozenset[int], dumps: frozenset[str]
) -> Facts:
    """Return facts by topic and name, the values of each folded over the ranks.

    A `line` of one of `dumps` is the number of an entry.
    """
    values = rows.group_by("topic", "name", "value", maintain_order=True).agg(
        pl.col("rank").drop_nulls().unique().sort(),
        pl.len().alias("lines"),
        pl.col("source", "line").first(),
    )
    found: Facts = {}
    for (topic, name), part in values.group_by("topic", "name", maintain_order=True):
        first = part.row(0, named=True)
        cite = first["source"] and Evidence(
            line(first["source"], TEXT),
            first["line"],
            line(first["value"], TEXT),
            "entry" if first["source"] in dumps else "line",
        )
        text = _lines(part) if topic == "lines" else _values(part, topic, everyone)
        key = "printed" if topic == "lines" else text
        found[topic, line(name, TEXT)] = key, model.Told(text, cite or None)
    return found


def _lines(part: pl.DataFrame) -> str:
    """Return how many lines of a message there are, and on which ranks."""
    ranks = part["rank"].explode().drop_nulls().unique().to_list()
    whose = f" on {name_ranks(ranks, most=RANKS)}" if ranks else ""
    return count(int(part["lines"].sum()), "line") + whose


def _values(part: pl.DataFrame, topic: str, everyone: frozenset[int]) -> str:
    """Return the values of a fact, with ranks where not all have the same.

    A variable that only some ranks have is told with its ranks; versions, for example,
    are printed by rank 0 alone.
    """
    alone = part.height == 1
    texts = []
    most = part.sort(pl.col("rank").list.len(), descending=True, maintain_order=True)
    for value, ranks in most.select("value", "rank").iter_rows():
        whole = alone and (topic != "environment" or everyone <= set(ranks))
        of = "" if whole or not ranks else f" ({name_ranks(ranks, most=RANKS)})"
        texts.append(f"{line(value, TEXT)}{of}")
    more = len(texts) - MOST
    return "; ".join(texts[:MOST]) + (f" and {more} more" if more > 0 else "")
