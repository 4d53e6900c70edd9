"""Where all ranks print alike in their loop, the last line of the odd one tells it."""

import pytest

from log_lines import table

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


AT = "2026-08-20 10:00:{:02},000 INFO "


def timed(last, ended):
    """Ranks 0 to 2 give up at second 20; rank 3 logs until `last` and loses them."""
    logs = {}
    for rank in range(4):
        lost = LOST if rank == 3 else TIMED_OUT
        until = last if rank == 3 else 8
        text = "".join(f"{AT.format(n)}shard {n} is read\n" for n in range(0, until, 4))
        at = AT.format(ended if rank == 3 else 20).replace("INFO", "ERROR")
        logs[f"rank{rank}.log"] = f"{text}{at}gave up\n{lost.format(rank)}"
    return logs


def test_who_logs_work_when_all_others_have_given_up_did_not_wait(analyzed):
    found = analyzed(timed(last=40, ended=41))
    assert named(found) == ("missing-rank", (3,), "likely")
    assert "had not joined" in found.ranked.verdict.headline
    cited = [(cite.source, cite.text) for cite in found.ranked.verdict.evidence]
    assert any(s == "rank3.log" and "shard 36" in text for s, text in cited)


def test_who_logged_nothing_since_may_have_waited_as_long(analyzed):
    assert named(analyzed(timed(last=8, ended=41))) == OPEN


CONSOLE = """\
{rank}:INFO:train:epoch 1 batch 10
{rank}:INFO:train:epoch 1 batch 20
{rank}:INFO:train:epoch 1 batch 30
"""
FAILED = """\
E0820 10:00:21.314000 77 torch/distributed/elastic/multiprocessing/api.py:900] failed \
(exitcode: 1) local_rank: 0 (pid: 100) of binary: /usr/bin/python
"""


def test_a_rank_of_a_shared_console_that_is_done_left_the_others(analyzed):
    """The prefix of torchrun tells whose each line is; the agent lists who failed."""
    told = [CONSOLE.format(rank=f"[default{r}]") for r in range(3)]
    told += ["[default2]:INFO:train:the training is finished\n"]
    told += [LOST.format(r).replace("[rank", "[default") for r in range(2)]
    told += [FAILED, table((0, 1, 100, 0), (1, 1, 101, 1))]
    found = analyzed({"console.log": "".join(told)})
    assert named(found) == ("uneven-inputs", (2,), "likely")
