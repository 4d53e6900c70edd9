"""The stories that each failure class about calls proposes, one module per class.

`propose` takes a case and one end of its waits, and yields stories with the costs of
what speaks against each. Nothing is decided here: `weigh` compares the stories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory.explanations import (
    call_order,
    conditional,
    elsewhere,
    gpu_stall,
    lost,
    mismatch,
    missing,
    running,
    straggler,
    stuck,
    uneven,
    unmatched,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End
    from ncclforensics.theory.story import Story

CLASSES = (
    *(missing, straggler, gpu_stall, mismatch, conditional, uneven, unmatched),
    *(call_order, stuck, lost, running, elsewhere),
)


def propose(case: Case, end: End) -> Iterator[Story]:
    """Yield all stories, of all classes, that may explain an end."""
    for module in CLASSES:
        yield from module.propose(case, end)
