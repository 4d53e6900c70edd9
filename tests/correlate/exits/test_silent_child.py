"""An exit by a signal that names no child is of the only child that says nothing."""

import pytest

STARTED = (
    "[2026-11-20 10:00:00,245] [INFO] [launch.py:245:main] process {pid} spawned with "
    "command: ['python3', '-u', 'train.py', '--local_rank={rank}']\n"
)
FAILED = (
    "[2026-11-20 10:09:00,157] [ERROR] [launch.py:259:sigkill_handler] ['python3', "
    "'-u', 'train.py', '--local_rank=2'] exits with return code = {}\n"
)
RESET = """\
[rank{0}]: Traceback (most recent call last):
[rank{0}]:   File "/job/train.py", line 9, in <module>
[rank{0}]:     loss.backward()
[rank{0}]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:24993: Connection reset by peer.
"""


def exits(analyzed, victims, code, starts=1):
    ranks = range(3)
    text = "".join(STARTED.format(pid=400 + rank, rank=rank) for rank in ranks)
    text = text * starts + "".join(RESET.format(rank) for rank in victims)
    found = analyzed({"job.log": text + FAILED.format(code)})
    return found.frames["exits"]["rank"].to_list(), found.ranked.verdict


def test_of_the_only_child_without_a_word(analyzed):
    ranks, verdict = exits(analyzed, (0, 2), -9)
    assert ranks == [1]
    assert (verdict.slug, verdict.ranks) == ("crashed-rank", (1,))


@pytest.mark.parametrize(
    ("victims", "code", "starts"),
    [
        ((0,), -9, 1),  # two are silent
        ((0, 2), 1, 1),  # a process that exits may have spoken elsewhere
        ((0, 2), -15, 1),  # somebody's signal
        ((0, 2), -9, 2),  # the words may be of the first attempt
    ],
)
def test_otherwise_of_nobody(analyzed, victims, code, starts):
    assert exits(analyzed, victims, code, starts)[0] == [None]
