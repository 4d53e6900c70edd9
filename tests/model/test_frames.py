"""Answers about frames are remembered as long as what they rest on stays."""

import pytest

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, remembered


@pytest.fixture
def question():
    asked = []

    @remembered
    def failed(frames):
        asked.append(frames)
        return frames["exits"].height

    @remembered
    def doubled(frames):
        return 2 * failed(frames)

    return doubled, asked


def exits(*ranks):
    return tables.rows("exits", [{"rank": rank, "code": 1} for rank in ranks])


def test_an_answer_stays_beside_frames_that_it_does_not_read(question):
    doubled, asked = question
    known = Frames({"exits": exits(3)})
    assert doubled(known) == doubled(known.adding(calls=tables.empty("calls"))) == 2
    assert len(asked) == 1


def test_an_answer_through_another_question_is_asked_again(question):
    doubled, asked = question
    known = Frames()
    assert doubled(known) == 0
    assert doubled(known.adding(exits=exits(3, 4))) == 4
    assert len(asked) == 2
