"""Folds long sets: ranks as `0-616,618-1023`, hosts as `gpu[0001-0016,0018]`.

A group of a tensor-parallel job has every eighth rank: `0-1016:8`. Up to four ranks
are listed, because `3-27:8` is easily taken for 25 ranks; in a sentence, the number of
ranks stands behind a stride. All folding of ranks and hosts is done here, and so is
parsing of folded ranks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_DIGITS = re.compile(r"([0-9]+)")
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([1-9][0-9]{0,8}))?)?")
MOST_RANKS = 1 << 20
LEAST_SPREAD = 5  # equally spaced ranks
MOST_FOLDED = 60  # characters of folded ranks or hosts in a sentence


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs (first, last) of consecutive numbers, in order."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def fold_ranks(ranks: Iterable[int]) -> str:
    """Fold ranks: {0, 1, 2, 5} is "0-2,5"; the empty set is "".

    From LEAST_SPREAD on, equally spaced ranks are folded as in Slurm's array=0-1016:8.
    """
    parts: list[str] = []
    lone: list[int] = []
    for first, last in _runs(ranks):
        if first == last:
            lone.append(first)
            continue
        parts += [*_spread(lone), f"{first}-{last}"]
        lone = []
    return ",".join([*parts, *_spread(lone)])


def _spread(lone: Sequence[int]) -> list[str]:
    """Fold sorted ranks of which no two are consecutive."""
    parts: list[str] = []
    at = 0
    while at < len(lone):
        end = at + 1
        while end < len(lone) and lone[end] - lone[end - 1] == lone[at + 1] - lone[at]:
            end += 1
        if end - at < LEAST_SPREAD:
            end = at + 1
            parts.append(str(lone[at]))
        else:
            parts.append(f"{lone[at]}-{lone[end - 1]}:{lone[at + 1] - lone[at]}")
        at = end
    return parts


def unfold_ranks(text: str) -> frozenset[int]:
    """Parse the output of `fold_ranks`; spaces are allowed.

    Raises ValueError on anything else, on a descending range, and on more than a
    million ranks.
    """
    ranks: set[int] = set()
    for part in text.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"not a rank or a run of ranks: {part!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST_RANKS or len(ranks) >= MOST_RANKS:
            raise ValueError(f"not a run of ranks: {part!r}")
        step = int(match[3] or 1)
        ranks.update(range(first, last + 1, step))
    return frozenset(ranks)


def fold_hosts(hosts: Iterable[str]) -> str:
    """Fold hosts that differ in one number; leading zeros are kept.

    {"gpu0001", "gpu0002", "head"} is "gpu[0001-0002],head".
    """
    return ",".join(fold_names(hosts))


def fold_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Fold names that differ in one number; returns the members of each folded name.

    {"a_0", "a_1", "b"} is {"a_[0-1]": ["a_0", "a_1"], "b": ["b"]}.
    """
    shapes: dict[tuple[str, ...], list[list[str]]] = {}
    for name in sorted(set(names), key=natural):
        pieces = _DIGITS.split(name)
        shapes.setdefault(tuple(pieces[::2]), []).append(pieces[1::2])
    return {
        folded: members
        for words, rows in shapes.items()
        for folded, members in _fold_shape(words, rows)
    }


def _fold_shape(
    words: Sequence[str], rows: list[list[str]]
) -> list[tuple[str, list[str]]]:
    """Fold names with equal words between numbers; `rows` has each name's numbers."""
    columns = [sorted(set(column)) for column in zip(*rows, strict=True)]
    varying = [i for i, column in enumerate(columns) if len(column) > 1]
    if not varying:
        return [(_join(words, rows[0]), [_join(words, rows[0])])]
    folded = varying[-1]
    # a number with a leading zero shows the padded width of its neighbours
    padded = {len(n) for n in columns[folded] if n.startswith("0") and len(n) > 1}
    groups: dict[tuple[int, tuple[str, ...]], list[list[str]]] = {}
    for row in rows:
        width = len(row[folded]) if len(row[folded]) in padded else 0
        rest = tuple(row[:folded] + row[folded + 1 :])
        groups.setdefault((width, rest), []).append(row)
    names = []
    for (width, _), group in groups.items():
        numbers = list(group[0])
        runs = _runs(int(row[folded]) for row in group)
        if len(group) > 1:
            spans = (
                f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}"
                for a, b in runs
            )
            numbers[folded] = f"[{','.join(spans)}]"
        names.append((_join(words, numbers), [_join(words, row) for row in group]))
    return names


def _join(words: Sequence[str], numbers: Sequence[str]) -> str:
    """Join words and the numbers between them."""
    pairs = zip(words, [*numbers, ""], strict=True)
    return "".join(word + number for word, number in pairs)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts gpu2 before gpu10."""
    return tuple(
        (0, int(piece), piece) if i % 2 else (1, 0, piece)
        for i, piece in enumerate(_DIGITS.split(text))
    )


def count(number: int, word: str, plural: str | None = None) -> str:
    """Return "1,024 ranks" or "1 rank"."""
    return f"{number:,} {noun(number, word, plural)}"


def noun(number: int, word: str, plural: str | None = None) -> str:
    """Return "ranks" or, for one, "rank"."""
    return word if number == 1 else plural or f"{word}s"


def name_folded(folded: str, most: int | None = None) -> str:
    """Return "rank 3" or "ranks 0-2,4-7", the list in at most `most` characters."""
    shown = folded if most is None else some(folded, most)
    return f"{'rank' if folded.isdigit() else 'ranks'} {shown}"


def name_ranks(
    ranks: Collection[int], word: str = "rank", most: int = MOST_FOLDED
) -> str:
    """Return "rank 7" or "ranks 0-6,9"; a long list ends with how many there are.

    The list takes at most `most` characters.
    """
    listed = fold_ranks(ranks)
    shown = some(listed, most)
    whole = "" if shown == listed and ":" not in listed else in_all(len(ranks))
    return f"{noun(len(ranks), word)} {shown}{whole}"


def in_all(number: int) -> str:
    """Return " (1,024 in all)", to follow a list that does not show the number."""
    return f" ({number:,} in all)"


def name_hosts(hosts: Collection[str], most: int = MOST_FOLDED) -> str:
    """Return "gpu[0001-0128]": hosts, pods or nodes; "" if there are none.

    It takes at most `most` characters; a longer list ends with how many there are.
    """
    folded = fold_hosts(hosts)
    shown = some(folded, most)
    return shown if shown == folded else f"{shown}{in_all(len(hosts))}"


def are(number: int) -> str:
    """Return "are" or, for one, "is"."""
    return "is" if number == 1 else "are"


def some(listed: str, length: int) -> str:
    """Truncate a folded set to `length` characters at a comma, ending with …."""
    if len(listed) <= length:
        return listed
    head = listed[: max(length - 1, 1)]
    at = head.rfind(",")
    return f"{head[: at + 1] if at > 0 else head}…"
