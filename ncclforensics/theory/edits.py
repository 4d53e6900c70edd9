"""What a rank did in place of what its program predicted: the edit to undo it.

A call that was foreseen a few calls later was made before its turn, or those between
were skipped; one that the program does not know is extra, or stands in another's place;
one that all know, and that does not come for whole rounds of the loop, lies behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.theory.program import Deviation, Program

Kind = Literal["swap", "skip", "extra", "other", "left", "unknown"]
FEW = 3  # collectives that a condition may skip; who skips more left its loop


@dataclass(frozen=True, slots=True)
class Edit:
    """What a rank did from `row` of the program on.

    `skips` are rows like the calls that it left out, `behind` counts what it made
    since.
    """

    kind: Kind
    row: int
    skips: tuple[int, ...] = ()
    behind: int = 0


def edit(told: Program, deviation: Deviation) -> Edit:
    """Say how the calls of a rank part from those that its program foresaw."""
    row = deviation.row
    if deviation.left_out:
        return Edit("skip", row)
    foreseen, made = told.foreseen(row), told.actual(row)
    if not foreseen:
        return Edit("unknown", row)
    now, next_ = made[0], foreseen[0]
    if now in foreseen:
        skipped = foreseen[: foreseen.index(now)]
        rest = foreseen[len(skipped) + 1 :]
        if _alike(made[1:], [*skipped, *rest]) > _alike(made[1:], rest):
            return Edit("swap", row, _rows(told, skipped))
        rounds = len(skipped) > 1 and next_ in skipped[1:]
        rows = _rows(told, skipped)
        collective = [r for r in rows if not told.calls["is_p2p"][r]]
        far = rounds or len(collective) > FEW
        return Edit("left" if far else "skip", row, rows, len(made) - 1)
    known = _rows(told, [next_])
    replaced, inserted = _alike(made[1:], foreseen[1:]), _alike(made[1:], foreseen)
    if replaced == inserted and _is_behind(told, now, next_):
        return Edit("left", row)
    same = known and _same(told, known[0], row, "pg_desc")
    # what differs in sizes or types alone stands in the place of what was foreseen
    like = same and _same(told, known[0], row, "op", "stack")
    in_place = like or replaced > inserted or (replaced == inserted and same)
    return Edit("other" if in_place else "extra", row, known)


def _same(told: Program, one: int, other: int, *columns: str) -> bool:
    """Whether two calls have the same values in some columns, or none."""
    return all(told.calls[c][one] == told.calls[c][other] for c in columns)


def _alike(made: list[int], foreseen: list[int]) -> int:
    """Return how many calls two ways have in common from their beginning on."""
    pairs = zip(made, foreseen, strict=False)
    ends = min(len(made), len(foreseen))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), ends)


def _rows(told: Program, labels: list[int]) -> tuple[int, ...]:
    """Return for each label the number of a call like it."""
    wanted = pl.DataFrame({"label": labels}, schema={"label": pl.UInt64()})
    like = (
        told.calls.with_row_index("row")
        .select("label", "row")
        .unique("label", keep="last", maintain_order=True)
    )
    found = wanted.join(like, on="label", how="left", maintain_order="left")["row"]
    return tuple(int(row) for row in found.drop_nulls())


def _is_behind(told: Program, label: int, loop: int) -> bool:
    """Whether a call was made before, behind one that belongs to the loop."""
    over = told.calls.filter("over")
    first = over.filter(pl.col("label") == loop)["place"].min()
    last = over.filter(pl.col("label") == label)["place"].max()
    return isinstance(first, int) and isinstance(last, int) and first < last
