"""A restarted job is several: each row belongs to one, and one of them is explained."""

import pytest
from nccl_text import init, rank_log

AGENT = (
    "E0801 13:23:1{n}.366000 900 torch/distributed/elastic/multiprocessing/api.py:900] "
    "failed (exitcode: 1) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python\n"
)
STARTED = (
    "W0801 13:23:10.366000 900 torch/distributed/run.py:774] Setting OMP_NUM_THREADS "
    "environment variable for each process to be 1 in default, to avoid your system "
    "being overloaded.\n"
)
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
)
REFUSED = (
    "RuntimeError: Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:144] "
    "no error"
)


def raised(rank, what):
    head = 'Traceback (most recent call last):\n  File "/job/train.py", line 3, in f'
    body = f"{head}\n{what}"
    return "".join(f"[rank{rank}]: {line}\n" for line in body.splitlines())


def folder(attempt, rank, what):
    name = f"none_a/attempt_{attempt}/{rank}/stderr.log"
    return {name: raised(rank, what)}


def named(analysis):
    found = analysis.ranked.verdict
    return found and (found.slug, found.ranks)


def notes(analysis):
    return [text for text in analysis.frames["notes"]["text"] if "attempt" in text]


def test_the_last_attempt_is_explained_and_the_first_is_a_note(analyzed):
    analysis = analyzed(
        {
            **folder(0, 1, "ValueError: the first"),
            **folder(0, 0, LOST),
            **folder(1, 2, "KeyError: the second"),
            **folder(1, 0, LOST),
        }
    )
    assert named(analysis) == ("crashed-rank", (2,))
    (note,) = notes(analysis)
    assert "attempt 0 is left out" in note
    assert "the first" in note


def test_an_attempt_that_could_not_connect_is_not_what_happened(analyzed):
    analysis = analyzed(
        {
            **folder(0, 1, "ValueError: the first"),
            **folder(0, 0, LOST),
            **folder(1, 0, REFUSED),
            **folder(1, 1, REFUSED),
        }
    )
    assert named(analysis) == ("crashed-rank", (1,))
    assert "never began" in notes(analysis)[0]


def test_a_job_without_restart_is_one_attempt(analyzed):
    analysis = analyzed({**folder(0, 1, "ValueError: x"), **folder(0, 0, LOST)})
    assert named(analysis) == ("crashed-rank", (1,))
    assert notes(analysis) == []


def test_the_agents_own_log_counts_attempts(analyzed):
    first, second = (AGENT.format(n=n, local=n, pid=70 + n) for n in (1, 2))
    text = STARTED + first + raised(3, "ValueError: x") + second
    events = analyzed({"torchrun.log": text}).frames["events"]
    # the first attempt is left out, all behind its failure is the second's
    assert set(events["attempt"]) == {1}
    assert events.filter(message="torchelastic.failed")["rank"].len() == 1


def test_failures_that_two_agents_tell_are_one_attempt(analyzed):
    other = AGENT.format(n=2, local=0, pid=71).replace(" 900 ", " 901 ")
    text = STARTED * 2 + AGENT.format(n=1, local=0, pid=70) + other
    events = analyzed({"slurm.out": text}).frames["events"]
    assert events.filter(message="torchelastic.failed").height == 2
    assert set(events["attempt"]) == {None}


def wave(first_pid, comm, size=2):
    return "".join(
        init("gpu0001", first_pid + r, r, size, "COMPLETE", comm).replace(
            "busId 7000", f"busId {r + 1}000"
        )
        + "\n"
        for r in range(size)
    )


def test_new_processes_on_the_same_gpus_are_a_new_attempt(analyzed):
    text = wave(40, "0xa") + raised(0, "ValueError: old") + wave(50, "0xb")
    frames = analyzed({"slurm.out": text + raised(1, "ValueError: new")}).frames
    said = frames.message("python.traceback")["message_text"].to_list()
    assert said == ["new"]


def test_a_second_communicator_of_the_same_processes_is_none(analyzed):
    text = wave(40, "0xa") + raised(0, "ValueError: old") + wave(40, "0xb")
    events = analyzed({"slurm.out": text}).frames["events"]
    assert set(events["attempt"]) == {None}


def test_groups_of_equal_size_on_other_gpus_are_none(analyzed):
    other = wave(50, "0xb").replace("gpu0001", "gpu0002")
    analysis = analyzed({"slurm.out": wave(40, "0xa") + other})
    assert set(analysis.frames["events"]["attempt"]) == {None}
    assert notes(analysis) == []


def test_two_jobs_in_files_of_their_own_are_a_note(analyzed):
    jobs = {"a.log": wave(40, "0xa"), "b.log": wave(50, "0xb")}
    analysis = analyzed(jobs)
    assert analysis.ranked.outcome == "no-failure"
    assert any("share no process" in text for text in notes(analysis))


@pytest.mark.parametrize("attempt", [0, 1])
def test_counts_of_calls_are_not_compared_over_attempts(analyzed, attempt):
    """Rank 1 made fewer calls in another attempt, and as many in the one explained."""
    calls = [("AllReduce", 8)] * 4
    files = {}
    for n in (0, 1):
        for rank in range(4):
            short = rank == 1 and n == attempt
            text = rank_log(rank, calls[: 3 if short else 4])
            comm = f"0xa{n}"
            files[f"x/attempt_{n}/{rank}/stdout.log"] = text.replace(
                "0x5ae77eb5ea4ec1ee", comm
            )
    found = named(analyzed(files))
    assert found == (("missing-rank", (1,)) if attempt == 1 else None)
