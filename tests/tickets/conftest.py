"""Servers that answer like the services, and the post of a real job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from server import serve

from ncclforensics.analysis import analyze
from ncclforensics.diagnosers import CLASSES
from ncclforensics.report.bundle import paper
from ncclforensics.tickets.plans import plan
from ncclforensics.tickets.post import Post
from ncclforensics.tickets.send import send


@pytest.fixture(scope="session")
def papers():
    """The paper of two jobs."""
    jobs = Path(__file__).parents[1] / "fixtures" / "jobs"
    made = []
    for slug in ("torch-missing-rank-two-hosts", "nccl-docker0"):
        found = analyze([str(jobs / slug / "evidence")], quote=True)
        args = (found.report, found.frames, found.excerpts)
        made.append(paper(*args, CLASSES))
    return made


@pytest.fixture
def post(papers):
    """The post of a job whose rank 6 is missing."""
    return Post(papers[0])


@pytest.fixture
def other(papers):
    """The post of a job with a wrong network interface."""
    return Post(papers[1])


@pytest.fixture
def start():
    """Start a service by its class."""
    stops = []

    def run(kind):
        service = kind()
        stops.append(serve(service))
        return service

    yield run
    for stop in stops:
        stop()


@pytest.fixture
def attach():
    """Plan and send; waits are noted in `attach.waits` and not waited for."""

    def run(service, post, ticket=None, env=None):
        env = service.environment if env is None else env
        planned = plan(ticket or service.ticket, post, env)
        return send(planned, env, run.waits.append)

    run.waits = []
    return run
