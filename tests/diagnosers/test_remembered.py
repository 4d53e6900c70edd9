"""A question is put once to the frames of an analysis, and anew to those of another."""

from __future__ import annotations

import gc
import pickle
import weakref

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, remembered


def test_each_analysis_has_its_own_answer() -> None:
    asked: list[Frames] = []

    @remembered
    def ask(frames: Frames) -> int:
        asked.append(frames)
        return len(asked)

    # both without calls, whose frame without rows is one and the same
    one, other = Frames(), Frames()
    assert [ask(one), ask(one), ask(other), ask(one)] == [1, 1, 2, 1]


def test_frames_are_not_kept_for_their_answer() -> None:
    ask = remembered(len_of)
    frames = Frames()
    gone = weakref.ref(frames)
    ask(frames)
    del frames
    gc.collect()
    assert gone() is None


def test_frames_are_not_kept_for_an_answer_that_holds_them() -> None:
    ask = remembered(lambda frames: [frames])
    frames = Frames()
    gone = weakref.ref(frames)
    ask(frames.adding())
    assert ask(frames) == [frames]
    del frames
    gc.collect()
    assert gone() is None


def test_answers_do_not_go_to_another_process() -> None:
    frames = Frames({"events": tables.empty("events")})
    assert remembered(len_of)(frames) == 1
    copy = pickle.loads(pickle.dumps(frames))  # noqa: S301 - our own
    assert (copy.names, copy.known) == (frames.names, {})


def len_of(frames: Frames) -> int:
    return len(frames.names)
