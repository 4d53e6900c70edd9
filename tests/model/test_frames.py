"""Answers about frames are remembered as long as what they rest on stays."""

import polars as pl
import pytest

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, once_if_empty, remembered


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


def test_of_frames_without_rows_an_answer_is_computed_once_for_each_schema():
    asked = []

    @once_if_empty(decided_by=1)
    def joined(left, right, how):
        asked.append(how)
        return left.join(right, on="rank", how=how)

    some = pl.DataFrame({"rank": [1, 2]})
    none, other = some.clear(), some.clear().with_columns(host=pl.lit("a"))
    assert joined(none, some, "left") is joined(none, none, "left")
    assert joined(none, some, how="semi").columns == ["rank"]
    assert joined(other, some, "left").columns == ["rank", "host"]
    assert joined(none, other, "left").columns == ["rank", "host"]
    assert len(asked) == 4
    assert joined(some, none, "left").height == joined(some, some, "left").height == 2
    assert len(asked) == 6


def test_lines_of_messages_are_put_together_once():
    line = {"message": "a", "source": "x.log", "line": 3}
    both = {name: tables.rows("events", [line | {"message": name}]) for name in "ab"}
    known = Frames({}, both)
    assert known.message("a", "b") is known.message("a", "b")
    assert known.message("a", "b")["message"].to_list() == ["a", "b"]
    assert known.message("b")["message"].to_list() == ["b"]
    assert Frames({}, {"a": both["a"]}).message("a", "b").height == 1
