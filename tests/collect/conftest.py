"""A process that looks like a rank, and a collection of it."""

import json
import os
import subprocess
import sys
import time

import pytest

from ncclforensics.collect import children, commands, node

SECRET = "s3cr3t-0123456789abcdef"
RANK = """
import os, sys, threading, time
print("step 1 loss 2.0 with", os.environ.get("HF_TOKEN"), flush=True)
pipe, dump = os.environ.get("PIPE"), os.environ.get("DUMP")
if pipe:
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
print("ready", flush=True)
while pipe:
    time.sleep(0.05)
    if os.read(reader, 128):
        open(dump, "wb").write(b"a dump")
        break
threading.Event().wait()
"""
PY_SPY = """#!/bin/sh
echo "Process $3: python train.py"
echo 'Thread 1 (idle): "MainThread"'
echo '    save (train.py:9)'
"""


@pytest.fixture
def rank(tmp_path):
    """Start processes that look like ranks; each has its own log. Ended at the end."""
    started = []

    def start(number=0, log=None, **variables):
        log = log or tmp_path / f"rank_{number}.out"
        environment = {"PATH": os.environ["PATH"], "RANK": str(number)}
        environment |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        environment |= {"LOCAL_RANK": str(number), "NCCL_DEBUG": "INFO"}
        process = subprocess.Popen(
            [sys.executable, "-c", RANK],
            env=environment | variables,
            stdout=log.open("ab") if hasattr(log, "open") else log,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        until = time.monotonic() + 20
        while hasattr(log, "open") and b"ready" not in log.read_bytes():
            assert time.monotonic() < until
            time.sleep(0.02)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def collected(tmp_path, monkeypatch):
    """Collect some processes into a folder; return the folder and its manifest."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "py-spy").write_text(PY_SPY)
    (tools / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    def run(processes, *options):
        output = tmp_path / "out"
        pids = [part for p in processes for part in ("--pid", str(p.pid))]
        assert node.main(["-o", str(output), "-q", *pids, *options]) == 0
        (folder,) = output.iterdir()
        return folder, json.loads((folder / "manifest.json").read_text())

    return run


@pytest.fixture
def few(monkeypatch):
    """Ask the node for nothing but the job: no command of the table."""
    for table in ("ONCE", "TWICE"):
        monkeypatch.setattr(commands, table, ())


@pytest.fixture
def unkillable(monkeypatch):
    """Make children as hard to end as one in state D; end them after the test."""
    left, kill = [], children._kill
    monkeypatch.setattr(children, "_kill", left.append)
    yield left
    for pid in left:
        kill(pid)
        os.waitpid(pid, 0)
