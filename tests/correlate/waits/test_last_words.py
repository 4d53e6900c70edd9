"""Where all ranks print alike in their loop, the last line of the odd one tells it."""

import pytest

TIMED_OUT = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/job/train.py", line 6, in <module>\n'
    "[rank{0}]:     dist.all_reduce(x)\n"
    "[rank{0}]: RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed "
    "out waiting 12000ms for recv operation to complete\n"
)
LOST = TIMED_OUT.replace("unbound_buffer.cc:78] Timed ", "pair.cc:553] Connection ")
LOST = LOST.partition("out waiting")[0] + "closed by peer [127.0.0.1]:7841\n"


def loop(*ranks, passes=5):
    return {
        f"rank{r}.log": "".join(f"pass {n} of 900 done\n" for n in range(passes))
        for r in ranks
    }


def named(analysis):
    found = analysis.ranked.verdict
    return (found.slug, found.ranks, found.confidence)


OPEN = ("timeout-masking", (), "certain")


def ended(logs, late, at=""):
    """All ranks time out, but for the `late` ones, who do `at` and lose their peers."""
    return {
        name: text
        + (at + LOST.format(name[4]) if int(name[4]) in late else "")
        + ("" if int(name[4]) in late else TIMED_OUT.format(name[4]))
        for name, text in logs.items()
    }


MERGING = "".join(f"merging the vocabulary {n}%\n" for n in range(0, 100, 25))


def test_the_rank_that_was_at_something_else_is_named(analyzed):
    found = analyzed(ended(loop(0, 1, 2, 3), {3}, MERGING))
    assert named(found) == ("missing-rank", (3,), "likely")


def test_a_rank_that_lost_its_peers_at_the_same_line_waited_as_well(analyzed):
    assert named(analyzed(ended(loop(0, 1, 2, 3), {3}))) == OPEN


@pytest.mark.parametrize("late", [{2, 3}, {1, 2, 3}])
def test_of_many_that_say_something_else_none_is_odd(analyzed, late):
    assert named(analyzed(ended(loop(0, 1, 2, 3), late, MERGING))) == OPEN


def test_rank_0_alone_may_print_what_the_others_do_not(analyzed):
    logs = {f"rank{r}.log": "the model is built\n" for r in range(4)}
    logs["rank0.log"] += "".join(f"step {n} loss 2.5\n" for n in range(5))
    assert named(analyzed(ended(logs, {0}))) == OPEN


def test_who_timed_out_itself_waited_whatever_it_said(analyzed):
    logs = loop(0, 1, 2, 3)
    logs["rank3.log"] += MERGING
    assert named(analyzed(ended(logs, set()))) == OPEN
