"""Messages that a rank left out, or sent or received in place of another one.

Messages match by order. After a rank has skipped one, its later messages take the place
of the one that is missing, so that counts and open halves no longer tell which it was;
the rank's program does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ncclforensics.evidence import common
from ncclforensics.theory import edits

if TYPE_CHECKING:
    from ncclforensics.theory.case import Case
    from ncclforensics.theory.sides import Side
    from ncclforensics.theory.story import Story

How = Literal["", "skipped", "replaced"]


def how(case: Case, side: Side) -> How:
    """Return how a side left its program by a message; "" if it did not."""
    if skips(case, side):
        return "skipped"
    if side.edit is None or side.edit.kind not in ("other", "extra"):
        return ""
    return "replaced" if case.program.calls["is_p2p"][side.edit.row] else ""


def skips(case: Case, side: Side) -> bool:
    """Whether a side skipped messages of its program."""
    if side.edit is None or side.edit.kind != "skip":
        return False
    return any(bool(case.program.calls["is_p2p"][row]) for row in side.edit.skips)


def words(case: Case, story: Story) -> tuple[str, str]:
    """Return headline and explanation for a story whose `what` is `how`."""
    who, rank = common.ranks(story.ranks), story.ranks[0]
    left = case.deviation(rank)
    assert left is not None
    edit, made = edits.edit(case.program, left), case.program.calls
    now = _message(case, edit.row, rank)
    missing = [row for row in edit.skips if made["is_p2p"][row]]
    usual = _message(case, missing[0], rank) if missing else "another call"
    group = made["pg_desc"][edit.row] or made["pg"][edit.row]
    due = "By the calls of its peers and of its own earlier steps,"
    if story.what == "skipped":
        return (
            f"{who} left out {usual}",
            f"{due} {usual} is due in {group} before {now}. {who.capitalize()} left it "
            "out and went on, so each later message takes the place of the one before.",
        )
    return (
        f"{who} made {now} in place of {usual}",
        f"{due} {usual} is due in {group} where {who} made {now}, which no peer meets.",
    )


def _message(case: Case, row: int, rank: int) -> str:
    """Return a call of a rank's program in words: `a recv from group rank 2`.

    The peer is told only by a call of the rank itself: its peers have others.
    """
    made = case.program.calls
    like = made.filter(rank=rank, label=made["label"][row])
    if like.is_empty():
        return f"a {made['op'][row]}"
    call = like.row(-1, named=True)
    if not call["is_p2p"]:
        return f"its {call['op']}"
    side, peer = ("from", call["src"]) if call["op"] == "recv" else ("to", call["dst"])
    return f"a {call['op']} {side} group rank {peer}"
