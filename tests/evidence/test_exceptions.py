"""An exception of which a terminal or a loss took words is not taken for a rank's own."""

import pytest

HEAD = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/job/train.py", line 3, in f\n'
)
PLACE = "[/src/third_party/gloo/gloo/transport/tcp/pair.cc:553]"
LOST = f"[rank0]: RuntimeError: {PLACE} Connection closed by peer [10.0.0.1]:30618. x"
OWN = "[rank0]: RuntimeError: [/src/job/loss.cc:553] the batch has no labels to compare"
OF_GLOO = f"[rank0]: RuntimeError: {PLACE} the other end speaks another protocol"
OTHERS = "[rank1]: Traceback (most recent call last):\n"


def wrapped(text, width=64):
    return "".join(f"{text[i : i + width]}\n" for i in range(0, len(text), width))


def crashed(analysis):
    return [f.ranks for _, f in analysis.ranked.findings if f.slug == "crashed-rank"]


@pytest.mark.parametrize(
    ("last", "ranks"),
    [
        (wrapped(LOST), []),
        (wrapped(LOST).splitlines()[0], []),  # what it says is lost
        (OWN, [(0,)]),
        (OF_GLOO, []),
        ("[rank0]: ValueError: [/data/part-1] has no rows", [(0,)]),
    ],
)
def test_words_about_a_peer_are_known_by_their_first_piece(analyzed, last, ranks):
    assert crashed(analyzed({"job.log": HEAD + last + "\n"})) == ranks


def test_the_rest_of_a_wrapped_name_is_no_exception(analyzed):
    broken = HEAD.replace("in f", "in crashed_rank_lin") + "[rank0]: gers\n"
    assert crashed(analyzed({"job.log": broken})) == []
    named = HEAD + "[rank0]: KeyError\n"
    assert crashed(analyzed({"job.log": named})) == [(0,)]


BARRIER = "[rank0]: RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in"


@pytest.mark.parametrize(
    "last",
    [
        BARRIER[:60],
        "[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Ra",
    ],
)
def test_what_every_rank_raises_of_another_is_nobodys_own_when_cut(analyzed, last):
    assert crashed(analyzed({"job.log": HEAD + last + "\n"})) == []


def test_a_shortened_traceback_is_one_all_the_same(analyzed):
    log = f"{HEAD}...\n[rank0]: ValueError: the batch has no labels\n"
    assert crashed(analyzed({"job.log": log})) == [(0,)]
    lost = f"{HEAD}...\n{LOST}\n"
    assert crashed(analyzed({"job.log": lost})) == []


RAY = (
    "(raylet) A worker died or was killed while executing a task by an unexpected "
    "system error. To troubleshoot the problem, check the logs for the dead worker. "
    "Worker IP address: {} Worker port: 10393 Worker PID: 66408 Worker exit type: "
    "SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits.\n"
)


@pytest.mark.parametrize(
    ("address", "hosts"), [("10.0.0.7", ("10.0.0.7",)), ("0.0.0.0", ())]
)
def test_an_address_that_is_every_machines_names_none(analyzed, address, hosts):
    found = analyzed({"job.log": RAY.format(address)}).ranked.verdict
    assert (found.slug, found.hosts) == ("crashed-rank", hosts)


TORN = (
    "RuntimeError: mat1 and mat2 must have the same dtype\n"
    "Traceback (most recent call last):\n"
    '  File "train.py", line 351, in <module>\n'
    "Traceback (most recent call last):\n"
    '  File "train.py", line 351, in <module>\n'
)


def test_an_exception_among_torn_tracebacks_ended_a_process(analyzed):
    assert crashed(analyzed({"job.log": TORN})) == [()]


def test_alone_nothing_shows_that_it_was_not_caught(analyzed):
    assert crashed(analyzed({"job.log": TORN.splitlines()[0] + "\n"})) == []


def test_of_two_that_are_torn_neither_is_known_to_be_the_cause(analyzed):
    assert crashed(analyzed({"job.log": "ValueError: no labels\n" + TORN})) == []


RAISED = """Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/horovod/run/task_fn.py", line 31, in _task_fn
    task.wait_for_initial_registration(settings.timeout)
  File "/usr/lib/python3/site-packages/horovod/run/task_service.py", line 110, in wait
{}
Exc
"""


@pytest.mark.parametrize(
    ("code", "ranks"),
    [
        ("    timeout.check_time_out_for('tasks to start')", []),
        ("    self.run()", [()]),
    ],
)
def test_a_known_line_of_code_tells_what_a_cut_traceback_raised(analyzed, code, ranks):
    assert crashed(analyzed({"job.log": RAISED.format(code)})) == ranks


@pytest.mark.parametrize(("listed", "ranks"), [("0, 1, 2", [()]), ("2", [(2,)])])
def test_a_checkpoint_says_which_ranks_raised(analyzed, listed, ranks):
    """Each rank raises what all of them gathered."""
    told = f"CheckpointException ranks:dict_keys([{listed}])"
    last = f"[rank0]: torch.distributed.checkpoint.api.CheckpointException: {told}\n"
    assert crashed(analyzed({"job.log": HEAD + last})) == ranks
