"""The edit between what a rank did and what its program predicted.

A call that was predicted a few calls later was made too early (`swap`), or the calls
between were skipped (`skip`). A call that the program does not contain is `extra`, or
replaces another one (`other`). A call that the program contains, but not within whole
rounds of the loop, lies after the loop: the rank `left` it; but if it comes after as
many rounds as before, it is `due`, and the others left it out. One that is predicted
soon, at another place in the code, has `moved`: it came too early behind a condition,
or is an extra one; unless the rank went on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.theory.deviation import Deviation
    from ncclforensics.theory.program import Program

Kind = Literal["swap", "skip", "extra", "other", "left", "due", "moved", "unknown"]
FEWEST = 2  # rounds of the past and of now that can be compared
FEW = 3  # collectives that a condition may skip; a rank that skips more left its loop


@dataclass(frozen=True, slots=True)
class Edit:
    """What a rank did from `row` of `Program.calls` on.

    `skips` are rows of calls like those it left out; `behind` counts the calls it made
    since. `goes_on` says that its calls since are those that were predicted.
    """

    kind: Kind
    row: int
    skips: tuple[int, ...] = ()
    behind: int = 0
    goes_on: bool = False


def edit(told: Program, deviation: Deviation) -> Edit:
    """Return how the calls of a rank differ from what its program predicted."""
    row = deviation.row
    if deviation.peers is not None:
        theirs = edit(told, replace(deviation, row=deviation.peers, peers=None))
        labels = told.calls["label"]
        kept = theirs.kind == "skip" and labels[row] in [
            labels[r] for r in theirs.skips
        ]
        # it makes a call that its peers skipped, or skipped one that they made
        return Edit("extra" if kept else "skip", row)
    foreseen, made = told.foreseen(row, deviation.fork), told.actual(row)
    if not foreseen:
        return Edit("unknown", row)
    now, next_ = made[0], foreseen[0]
    if now in foreseen and not _is_instead(made, foreseen):
        skipped = foreseen[: foreseen.index(now)]
        rest = foreseen[len(skipped) + 1 :]
        if _is_swap(told, row, skipped, rest):
            return Edit("swap", row, _rows(told, skipped))
        rounds = next_ in skipped[1:] and _has_begun(told, row, next_)
        rounds |= _are_rounds(told, row, skipped)
        rows = _rows(told, skipped)
        collective = [r for r in rows if not told.calls["is_p2p"][r]]
        far = rounds or len(collective) > FEW
        kind: Kind = _left(told, row, next_) if far else "skip"
        return Edit(kind, row, rows, len(made) - 1)
    known = _rows(told, [next_])
    if (other_line := _at_another_line(told, row, foreseen)) is not None:
        return other_line
    replaced, inserted = _alike(made[1:], foreseen[1:]), _alike(made[1:], foreseen)
    if replaced == inserted and _is_behind(told, row, next_):
        return Edit(_left(told, row, next_), row)
    same = known and _same(told, known[0], row, "pg_desc")
    # a call that differs only in sizes or dtypes replaces the predicted one
    like = same and _same(told, known[0], row, "op", "stack")
    in_place = like or replaced > inserted or (replaced == inserted and same)
    what: Kind = "other" if in_place else "extra"
    return Edit(what, row, known, goes_on=max(replaced, inserted) > 0)


def _is_instead(made: list[int], foreseen: list[int]) -> bool:
    """Whether a call that was to come soon was made in place of the next one.

    Then the calls behind are those behind that one, and not those behind itself.
    """
    behind = foreseen[foreseen.index(made[0]) + 1 :]
    return _alike(made[1:], foreseen[1:]) > _alike(made[1:], behind)


def _has_begun(told: Program, row: int, loop: int) -> bool:
    """Whether a rank made a call of the loop since it last made a call like `row`'s.

    One that left the loop early has; one that makes two calls in the other order, of
    which one comes several times in a row, has not.
    """
    labels = told.calls["label"][row - told.calls["place"][row] : row]
    last = (labels == told.calls["label"][row]).arg_true()
    since = labels[int(last[-1]) + 1 :] if last.len() else labels
    return bool((since == loop).any())


def _are_rounds(told: Program, row: int, skipped: list[int]) -> bool:
    """Whether the calls left out are those of the rounds before: a loop went once less.

    They were made twice in a row right before `row`.
    """
    before = told.calls["label"][row - told.calls["place"][row] : row].to_list()
    return bool(skipped) and before[-2 * len(skipped) :] == skipped * 2


def _is_swap(told: Program, row: int, skipped: list[int], rest: list[int]) -> bool:
    """Whether the calls behind `row` are those left out before it, and then the rest.

    A path of its own may make them at other lines, which shows where no line agrees.
    In a loop they may be those of its next round: then the numbers of calls decide.
    """
    behind = told.actual(row)[1:]
    if {*skipped} <= {*behind} and _made_as_many(told, row, skipped):
        return True
    swapped, left_out = _alike(behind, [*skipped, *rest]), _alike(behind, rest)
    if swapped or left_out or not skipped:
        return swapped > left_out
    plain = told.calls["siteless"]
    made = plain[row + 1 : row + 1 + len(behind)].to_list()
    soon, later = ([plain[r] for r in _rows(told, ls)] for ls in (skipped, rest))
    return _alike(made, [*soon, *later]) > _alike(made, later)


def _made_as_many(told: Program, row: int, skipped: list[int]) -> bool:
    """Whether a rank made as many calls of several groups as their other members did.

    Who left out calls of one group has made fewer of them, against those of another,
    than who made them later. The groups are those of the calls `skipped` (labels), and
    of the call in `row`.
    """
    mine = pl.col("rank") == told.calls["rank"][row]
    known = told.calls.filter(~pl.col("is_p2p"))
    these = pl.col("label").is_in([*skipped, told.calls["label"][row]])
    groups = known.filter(mine & these)["group"].unique()
    number = pl.col("seq")
    last = (
        known.filter(pl.col("group").is_in(groups.implode()))
        .group_by("group")
        .agg(mine=number.filter(mine).max(), theirs=number.filter(~mine).max())
    )
    return last.height > 1 and bool((last["mine"] == last["theirs"]).all())


def _at_another_line(told: Program, row: int, foreseen: list[int]) -> Edit | None:
    """Return the edit of a call made at another line than the next one of its kind.

    None if none was to come soon. What is before that one was made later if no group
    lacks a call, and skipped if the calls behind go on from there; else the call has
    moved.
    """
    plain = told.calls["siteless"]
    soon = [plain[r] for r in _rows(told, foreseen)]
    made = plain[row : row + len(told.actual(row))].to_list()
    if made[0] not in soon[1 : 1 + FEW]:
        return None
    at = soon.index(made[0], 1)
    skipped, rest = soon[:at], soon[at + 1 :]
    behind = made[1:]
    is_made = {*skipped} <= {*behind} and len(behind) > at
    if is_made and _made_as_many(told, row, foreseen[:at]):
        return Edit("swap", row, _rows(told, foreseen[:at]))
    went_on = _alike(made[1:], rest) > _alike(made[1:], [*skipped, *rest])
    kind: Kind = "skip" if went_on else "moved"
    rows = _rows(told, foreseen[: at if went_on else 1])
    return Edit(kind, row, rows, len(made) - 1)


def _same(told: Program, one: int, other: int, *columns: str) -> bool:
    """Whether two calls have equal values (or nulls) in some columns."""
    return all(told.calls[c][one] == told.calls[c][other] for c in columns)


def _alike(made: list[int], foreseen: list[int]) -> int:
    """Return the length of the common prefix of two sequences of calls."""
    pairs = zip(made, foreseen, strict=False)
    ends = min(len(made), len(foreseen))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), ends)


def _rows(told: Program, labels: list[int]) -> tuple[int, ...]:
    """Return for each label the last row of a call with it; skip unknown labels."""
    wanted = pl.DataFrame({"label": labels}, schema={"label": pl.UInt64()})
    like = (
        told.calls.with_row_index("row")
        .select("label", "row")
        .unique("label", keep="last", maintain_order=True)
    )
    found = wanted.join(like, on="label", how="left", maintain_order="left")["row"]
    return tuple(int(row) for row in found.drop_nulls())


def _left(told: Program, row: int, loop: int) -> Kind:
    """Return `due` if a call comes after as many rounds of the loop as before.

    Rounds are counted by a call of the loop, from one such call to the next; the place
    in the code does not matter.
    """
    first = row - told.calls["place"][row]
    made = told.calls[first : row + 1]
    same = made["siteless"] == made["siteless"][-1]
    rounds = (made["label"] == loop).cum_sum().filter(same).diff().drop_nulls()
    if rounds.len() < FEWEST:
        return "left"
    return "due" if rounds[-1] >= rounds[:-1].min() else "left"


def _is_behind(told: Program, row: int, loop: int) -> bool:
    """Whether a call like one was made earlier, after the first of one from the loop.

    A call that Gloo gave up counts as over, and shows nothing of its past.
    """
    label, place = told.calls["label"][row], told.calls["place"][row]
    over = told.calls.filter("over")
    first = over.filter(pl.col("label") == loop)["place"].min()
    before = (pl.col("label") == label) & (pl.col("place") < place)
    last = over.filter(before)["place"].max()
    return isinstance(first, int) and isinstance(last, int) and first < last
