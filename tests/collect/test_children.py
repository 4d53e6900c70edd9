"""Whatever a child does, its parent comes back."""

import os
import time

import pytest

from ncclforensics.collect import children
from ncclforensics.collect.children import Question, ask, ask_all


def soon(seconds=30):
    return time.monotonic() + seconds


def ask_now(what, limit=10, **more):
    return ask(Question("it", what, limit, **more), soon())


def test_a_command_answers_with_its_output_and_exit_code():
    answer = ask_now(["sh", "-c", "echo 3; echo broken >&2; exit 3"])
    assert (answer.exit, answer.data) == (3, b"3\n")
    assert answer.why_not == "broken"
    assert ask_now(["echo", "3"]).why_not == ""


def test_a_function_answers_with_what_it_returns():
    assert ask_now(lambda: b"bytes").data == b"bytes"
    failed = ask_now(lambda: os.stat("/no/such/file") and b"")
    assert failed.why_not == "No such file or directory"


def test_a_program_that_is_not_there_is_told_apart_from_one_that_fails():
    assert ask_now(["no-such-program"]).why_not == "not found on this node"
    assert ask_now(["false"]).why_not == "exit code 1"


@pytest.mark.parametrize("what", [["sleep", "60"], lambda: time.sleep(60)])
def test_what_hangs_is_ended_at_its_limit(what, monkeypatch):
    begun = time.monotonic()
    killed, kill = [], children._kill
    monkeypatch.setattr(children, "_kill", lambda pid: killed.append(pid) or kill(pid))
    answer = ask_now(what, 0.3)
    assert answer.why_not.startswith("no answer within")
    assert "left behind" not in answer.why_not
    assert time.monotonic() - begun < 30
    with pytest.raises(ChildProcessError):
        os.waitpid(killed[0], os.WNOHANG)


def test_what_cannot_be_ended_is_left_behind_and_what_it_said_is_kept(unkillable):
    begun = time.monotonic()
    answer = ask_now(["sh", "-c", "echo begun; exec sleep 60"], 1)
    assert answer.why_not.endswith("cannot be ended: left behind")
    assert answer.data == b"begun\n"
    assert time.monotonic() - begun < 30
    assert len(unkillable) == 1


def test_many_that_hang_take_no_longer_than_one(unkillable):
    begun = time.monotonic()
    hung = [Question(str(n), lambda: time.sleep(60), 0.5) for n in range(20)]
    answers = ask_all(hung, soon(), at_once=20)
    assert all(a.why_not for a in answers)
    assert time.monotonic() - begun < 30


def test_nothing_is_begun_behind_the_limit_of_the_whole():
    questions = [Question(str(n), lambda: time.sleep(60), 30) for n in range(3)]
    answers = ask_all(questions, time.monotonic() + 0.2, at_once=1)
    told = sorted(a.why_not for a in answers)
    assert told[0].startswith("no answer within")
    assert told[1:] == ["not asked: the time limit of the whole was used up"] * 2


def test_another_is_asked_where_the_first_gives_no_answer():
    second = Question("second", ["echo", "2"], 5)
    first = Question("first", ["false"], 5, otherwise=second)
    told = {a.question.name: a.data for a in ask_all([first], soon())}
    assert told == {"first": b"", "second": b"2\n"}
    good = Question("first", ["true"], 5, otherwise=second)
    assert [a.question.name for a in ask_all([good], soon())] == ["first"]


def test_endless_output_is_cut(monkeypatch):
    monkeypatch.setattr(children, "MOST_BYTES", 1 << 16)
    answer = ask_now(["yes"])
    assert answer.why_not == "more output than is kept: cut"
    assert 0 < len(answer.data) <= 4 << 16
