"""The note on dumps that are taken for a running job's, though nothing proves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.model.notes import Note
from ncclforensics.theory import running_margin, weigh

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


def noted(frames: Frames) -> Frames:
    """Return the frames with that note, if the calls alone tell that the job runs."""
    if not weigh.weighed(frames).runs or weigh.is_proved_moving(frames):
        return frames
    case = weigh.case_of(frames)
    free = len(running_margin.unheld(case))
    why = f"ranks wait in {count(len(case.ends), 'place')} for different reasons"
    if free:
        why = f"{free} of {count(len(case.seen), 'rank')} are between two calls"
    text = f"if it hung, dump it again: {why}, as in a job that runs"
    return frames.noting(Note("theory", text))
