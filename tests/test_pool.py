"""Processes that read: nothing of the caller runs in them, and none is missed."""

import os
import signal
import subprocess
import sys

import pytest

from ncclforensics import analysis, parsing, pool
from ncclforensics.report.as_json import render_json
from ncclforensics.sources import discover

SLUG = "torch-chain"


@pytest.fixture
def evidence(jobs):
    return str(jobs / SLUG / "evidence")


def test_processes_read_what_this_one_reads(evidence, monkeypatch):
    monkeypatch.setattr(parsing, "BATCH_BYTES", 1)
    alone = analysis.analyze([evidence]).report
    with pool.processes(2) as executor:
        assert analysis.analyze([evidence], executor=executor).report == alone


def test_a_killed_process_costs_a_note_and_nothing_else(
    evidence, tmp_path, monkeypatch
):
    monkeypatch.setattr(parsing, "BATCH_BYTES", 1)
    sources = discover([evidence], tmp_path).sources
    expected = parsing.read(sources)
    with pool.processes(2) as executor:

        def kill(done, _):
            if done == 1:
                for pid in executor._processes:
                    os.kill(pid, signal.SIGKILL)

        # more work than the two could have done before they were killed
        found = parsing.read(sources * 20, executor=executor, progress=kill)
    for name in ("entries", "events", "groups", "positions"):
        assert found[name].height == 20 * expected[name].height
    lost = found["notes"]["text"].str.starts_with("a process that read was lost")
    assert lost.sum() == 1


def test_a_process_killed_in_the_midst_of_its_answer_is_not_waited_for():
    script = (
        "from ncclforensics import pool\n"
        "def large(_): return bytes(1 << 26)\n"
        "with pool.processes(2) as executor:\n"
        "    next(executor.map(large, range(9)))\n"
    )
    # in a process of its own, which would wait for ever
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_script_without_a_guard_runs_once(evidence, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from ncclforensics import pool\n"
        "from ncclforensics.analysis import analyze\n"
        "print('once')\n"
        "with pool.processes(2) as executor:\n"
        "    print(analyze(sys.argv[1:], executor=executor).report.outcome)\n"
    )
    command = [sys.executable, str(script), evidence]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("once\nfailure\n", "")


def test_without_locks_to_share_this_process_reads_alone(evidence, monkeypatch):
    def lacking(*_, **__):
        raise FileNotFoundError(2, "No such file or directory")  # without /dev/shm

    monkeypatch.setattr(pool, "_Pool", lacking)
    with pool.processes(2) as executor:
        assert analysis.analyze([evidence], executor=executor).report.verdict


def test_where_no_process_can_be_started_this_one_reads(evidence, tmp_path):
    class Refused(pool.Here):
        def map(self, *_, **__):
            raise BlockingIOError(11, "Resource temporarily unavailable")

    sources = discover([evidence], tmp_path).sources
    found = parsing.read(sources, executor=Refused())
    assert found["entries"].equals(parsing.read(sources)["entries"])
    assert found["notes"]["text"][0].endswith("temporarily unavailable")


def test_processes_are_started_where_stderr_has_no_descriptor():
    script = (
        "import sys, types\n"
        "from ncclforensics import pool\n"
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
    assert pool.paying([], much) == 1
    assert pool.paying([much * 100, 5], much) == 1
    assert pool.paying([much, much - 1], much) == 1
    assert pool.paying([much, much], much) == 2
    assert pool.paying([much // 10] * 1000, much) == 4


def test_a_process_reads_with_one_thread():
    script = (
        "from polars import thread_pool_size as threads\n"
        "from ncclforensics import pool\n"
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
        "import polars\n"
        "from ncclforensics import parsing, pool\n"
        "from ncclforensics.analysis import analyze\n"
        "if sys.argv[1] == 'True':\n"
        "    polars.thread_pool_size()  # starts polars' own\n"
        "parsing.BATCH_BYTES = pool.PAYS_BYTES = pool.PAYS_BYTES_FORKED = 1\n"
        "made = pool.processes\n"
        "def told(jobs):\n"
        "    print(pool.may_fork(), jobs > 1)\n"
        "    return made(jobs)\n"
        "pool.processes = told\n"
        "pool.cores = lambda: 2\n"
        "print(analyze(sys.argv[2:]).report.outcome)\n"
    )
    command = [sys.executable, "-c", script, str(busy), evidence]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    forks = sys.platform == "linux" and not busy
    assert (done.stdout, done.stderr) == (f"{forks} True\nfailure\n", "")


@pytest.mark.parametrize("start", ["", "import polars; polars.thread_pool_size()\n"])
def test_no_process_outlives_one_that_is_killed(start):
    script = (
        f"{start}import os, time\n"
        "from ncclforensics import pool\n"
        "with pool.processes(2) as executor:\n"
        "    print(*executor.map(abs, [-1, -2]), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", script]
    # the pipe ends when nobody is left that holds it
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout
