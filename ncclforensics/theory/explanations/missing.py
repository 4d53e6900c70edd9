"""Ranks that did not come to a call, and wait for nobody: missing, or at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import sides, strayed_messages
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Call, Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame absent or idle ranks, and sides of a cycle that skipped a collective."""
    if end.kind == "absent":
        yield _absent(case, end, end.ranks)
        free = tuple(rank for rank in end.ranks if rank not in case.waited)
        if free and free != end.ranks:
            yield _absent(case, end, free)
    if end.kind == "idle":
        yield Story(
            "missing-rank",
            end.ranks,
            what="idle",
            costs=(
                *sides.blame(case, end, "missing-rank", end.ranks),
                ("idle", 1.0),
                *_hidden(case, end.ranks),
            ),
        )
    if end.kind != "circle":
        return
    for side in sides.odd(case, end):
        if side.edit is None or side.edit.kind != "skip" or side.owes:
            continue
        yield Story(
            "missing-rank",
            side.ranks,
            _wants(case, end, side.ranks) or side.call,
            (side.call, *side.others),
            what="skipped",
            costs=(
                *sides.blame(case, end, "off program", side.ranks),
                *sides.claimed(case, side.ranks),
                ("known elsewhere", float(strayed_messages.skips(case, side))),
                # a rank that has made no call since may still make it
                ("came back", float(side.edit.behind == 0 and bool(side.edit.skips))),
            ),
        )


def _absent(case: Case, end: End, ranks: tuple[int, ...]) -> Story:
    works = {*ranks} <= case.working
    return Story(
        "straggler" if works else "missing-rank",
        ranks,
        _main(case, end),
        what="at work" if works else "together" if {*ranks} & case.together else "",
        costs=(
            *sides.blame(case, end, "missing-rank", ranks),
            *_hidden(case, ranks),
            ("ended", float(not case.ended.isdisjoint(ranks))),
            ("said over", float({*ranks} <= case.over)),
        ),
    )


def _hidden(case: Case, ranks: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    """Return what it costs to blame ranks that may wait in an unrecorded call."""
    return (
        ("timed out itself", len(case.waited & {*ranks})),
        ("mute", len(case.mute & {*ranks})),
        ("host gone", float(case.gone_host(ranks) != ())),
    )


def _main(case: Case, end: End) -> Call:
    """Return the call in which most ranks wait for the ranks of an end."""
    return max(
        (case.calls[n] for n in end.calls),
        key=lambda c: (not c["is_p2p"], len(c["waiting"]), -c["call"]),
    )


def _wants(case: Case, end: End, ranks: tuple[int, ...]) -> Call | None:
    """Return the call of a cycle in which most others wait for some ranks, or None."""
    found = [
        case.calls[n]
        for n in end.calls
        if {*ranks}
        & {*(case.calls[n]["absent"] or ()), *(case.calls[n]["behind"] or ())}
    ]
    return max(found, key=lambda c: (len(c["waiting"]), -c["call"]), default=None)
