"""A real cluster of dask parses, also where a worker of it is killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from ncclforensics import analysis
from ncclforensics.cli import commands
from ncclforensics.engine import cluster_executor
from ncclforensics.model.errors import UsageError
from ncclforensics.report.formats.as_json import render_json

distributed = pytest.importorskip("distributed")

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = JOBS / "torch-missing-rank-two-hosts" / "evidence"


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
    ) as running:
        yield running


def test_a_cluster_says_what_this_process_says(cluster, capfdbinary):
    command = ["analyze", "-f", "json", str(HUNG)]
    assert commands.main(command) == 0
    here = capfdbinary.readouterr().out
    assert (
        commands.main([*command, "--executor", f"dask:{cluster.scheduler_address}"])
        == 0
    )
    assert capfdbinary.readouterr().out == here


def test_killing_a_worker_in_the_middle_loses_nothing(cluster, tmp_path):
    for number in range(2):
        shutil.copytree(HUNG, tmp_path / f"copy{number}")
    here = render_json(analysis.analyze([str(tmp_path)]).report)
    killed = []

    def kill(done, _):
        if done == 3 and not killed:
            with distributed.Client(cluster, set_as_default=False) as client:
                pids = client.run(os.getpid)
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    with cluster_executor.executor(f"dask:{cluster.scheduler_address}") as executor:
        found = analysis.analyze([str(tmp_path)], executor=executor, progress=kill)
    assert killed
    assert render_json(found.report) == here


def test_an_address_that_is_none_is_usage(monkeypatch):
    with (
        pytest.raises(UsageError, match="takes dask:ADDRESS"),
        cluster_executor.executor("x"),
    ):
        pass
    monkeypatch.setattr(cluster_executor, "SECONDS", 1)
    nobody = cluster_executor.executor("dask:tcp://127.0.0.1:1")
    with pytest.raises(UsageError, match="no dask scheduler"), nobody:
        pass
