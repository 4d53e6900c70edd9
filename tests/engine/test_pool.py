"""Processes that read: nothing of the caller runs in them, and none is missed."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from ncclforensics import analysis
from ncclforensics.engine import pool, reading
from ncclforensics.report.formats.as_json import render_json
from ncclforensics.sources import discover

SLUG = "torch-chain"


@pytest.fixture
def evidence(jobs):
    return str(jobs / SLUG / "evidence")


def test_processes_read_what_this_one_reads(evidence, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_BYTES", 1)
    alone = analysis.analyze([evidence]).report
    with pool.processes(2) as executor:
        assert analysis.analyze([evidence], executor=executor).report == alone


def killed() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_costs_a_note_and_nothing_else(
    evidence, tmp_path, monkeypatch
):
    monkeypatch.setattr(reading, "BATCH_BYTES", 1)
    sources = discover([evidence], tmp_path).sources
    expected = reading.read(sources)
    with pool.processes(2) as executor:

        def kill(done, _):
            if done == 1:
                for pid in executor.pids:
                    os.kill(pid, signal.SIGKILL)

        # more work than the two could have done before they were killed
        found = reading.read(sources * 20, executor=executor, progress=kill)
    for name in ("entries", "events", "groups", "positions"):
        assert found[name].height == 20 * expected[name].height
    lost = found["notes"]["text"].str.starts_with("a worker process was lost")
    assert lost.sum() == 1


def test_only_what_a_killed_process_held_is_lost_and_another_takes_its_place():
    with pool.processes(2) as executor:
        asked = [executor.submit(killed)]
        asked += [executor.submit(abs, -n) for n in range(50)]
        with pytest.raises(pool.LostError, match="was ended by SIGKILL"):
            asked[0].result()
        assert [each.result() for each in asked[1:]] == list(range(50))
        assert len(executor.pids) == 2


def test_where_every_process_is_killed_this_one_does_the_work():
    here = os.getpid()
    told = []
    with pool.processes(2) as executor:
        made = list(
            pool.spread(partial(unless, here), range(20), executor, told.append)
        )
    assert made == list(range(20))
    # each killed one process, until none was left to take their place
    assert len(told) == 20
    assert sum("SIGKILL" in str(error) for error in told) == 2 + pool.RESTARTS


def unless(pid: int, made: int) -> int:
    """Be killed in any process but one."""
    if os.getpid() != pid:
        killed()
    return made


def half_answered(_: object) -> None:
    """Write half of an answer, and be killed."""
    frame = sys._getframe()
    while frame.f_code.co_name != "_work":
        frame = frame.f_back
    os.write(frame.f_locals["pipe"].fileno(), (1 << 20).to_bytes(4, "big") + bytes(100))
    killed()


def test_half_an_answer_of_a_killed_process_is_not_waited_for():
    with pool.processes(3) as executor:
        asked = executor.submit(half_answered, 0)
        with pytest.raises(pool.LostError):
            asked.result(timeout=30)
        assert list(executor.map(abs, range(9))) == list(range(9))


def test_an_error_is_raised_where_it_was_asked_for():
    with pool.processes(2) as executor:
        with pytest.raises(TypeError):
            executor.submit(abs, "x").result()
        assert executor.submit(abs, -1).result() == 1


def test_processes_that_work_when_the_pool_ends_are_not_waited_for():
    with pool.processes(2) as executor:
        asked = [executor.submit(time.sleep, 600) for _ in range(9)]
    assert all(each.done() for each in asked)


def test_a_script_without_a_guard_runs_once(evidence, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from ncclforensics.engine import pool\n"
        "from ncclforensics.analysis import analyze\n"
        "print('once')\n"
        "with pool.processes(2) as executor:\n"
        "    print(analyze(sys.argv[1:], executor=executor).report.outcome)\n"
    )
    command = [sys.executable, str(script), evidence]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("once\nfailure\n", "")


def test_where_no_process_can_be_started_this_one_reads(
    evidence, tmp_path, monkeypatch
):
    def refused(*_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(pool, "_Worker", refused)
    sources = discover([evidence], tmp_path).sources
    with pool.processes(2) as executor:
        found = reading.read(sources, executor=executor)
    assert found["entries"].equals(reading.read(sources)["entries"])
    assert found["notes"]["text"][0].endswith("temporarily unavailable")


def test_processes_are_started_where_stderr_has_no_descriptor():
    script = (
        "import sys, types\n"
        "from ncclforensics.engine import pool\n"
        "sys.stderr = types.SimpleNamespace(fileno=lambda: -1)  # as under Textual\n"
        "with pool.processes(2) as executor:\n"
        "    print(list(executor.map(abs, [-1])))\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[1]\n", done.stderr


@pytest.mark.parametrize("pays", ["PAYS_BYTES", "PAYS_LOG_BYTES"])
def test_processes_are_started_where_there_is_enough_to_read(
    evidence, monkeypatch, pays
):
    asked = []
    processes = pool.processes
    monkeypatch.setattr(
        pool, "processes", lambda jobs: asked.append(jobs) or processes(1)
    )
    first = render_json(analysis.analyze([evidence]).report)
    monkeypatch.setattr(pool, pays, 1)
    monkeypatch.setattr(pool, "may_fork", lambda: False)
    assert render_json(analysis.analyze([evidence]).report) == first
    assert asked == [1, pool.cores()]


def test_a_process_more_pays_for_what_is_beside_the_largest_source(monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 4)
    much = 1_000_000
    assert pool.worker_count([], much) == 1
    assert pool.worker_count([much * 100, 5], much) == 1
    assert pool.worker_count([much, much - 1], much) == 1
    assert pool.worker_count([much, much], much) == 2
    assert pool.worker_count([much // 10] * 1000, much) == 4


def test_a_process_reads_with_one_thread():
    script = (
        "from polars import thread_pool_size as threads\n"
        "from ncclforensics.engine import pool\n"
        "for _ in range(2):  # the second time polars has threads here\n"
        "    with pool.processes(2) as executor:\n"
        "        print(executor.submit(threads).result(), end=' ')\n"
        "    threads()\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("1 1 ", "")


@pytest.mark.parametrize("busy", [False, True])
def test_processes_are_forked_where_no_thread_is_lost(evidence, busy):
    script = (
        "import sys\n"
        "from ncclforensics.__main__ import modest\n"
        "modest()\n"
        "import polars\n"
        "from ncclforensics.engine import pool, reading\n"
        "from ncclforensics.analysis import analyze\n"
        "if sys.argv[1] == 'True':\n"
        "    polars.thread_pool_size()  # starts polars' own\n"
        "reading.BATCH_BYTES = pool.PAYS_BYTES = pool.PAYS_BYTES_FORKED = 1\n"
        "made = pool.processes\n"
        "def told(jobs):\n"
        "    print(pool.may_fork(), jobs > 1)\n"
        "    return made(jobs)\n"
        "pool.processes = told\n"
        "pool.cores = lambda: 2\n"
        "print(analyze(sys.argv[2:]).report.outcome)\n"
    )
    command = [sys.executable, "-c", script, str(busy), evidence]
    env = {k: v for k, v in os.environ.items() if not k.endswith("_THREADS")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    forks = sys.platform == "linux" and not busy
    assert (done.stdout, done.stderr) == (f"{forks} True\nfailure\n", "")


@pytest.mark.parametrize("start", ["", "import polars; polars.thread_pool_size()\n"])
def test_no_process_outlives_one_that_is_killed(start):
    script = (
        f"{start}import os, time\n"
        "from ncclforensics.engine import pool\n"
        "with pool.processes(2) as executor:\n"
        "    print(*executor.map(abs, [-1, -2]), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", script]
    # the pipe ends when nobody is left that holds it
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout
