"""Agents whose rendezvous timed out had reached the store; the few others had not."""

import pytest

from log_lines import verdict

RAN = "+ torchrun --nnodes=4 --rdzv-backend=c10d --rdzv-endpoint=nd0:29400 train.py\n"
WAITED = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
LOST = (
    "[W1120 02:05:00.000038855 socket.cpp:204] [c10d] The IPv6 network addresses of "
    "(nd0, 29400) cannot be retrieved (gai error: -2 - Name or service not known).\n"
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The "
    "connection to the C10d store has failed.\n"
)
PULLS = "2026-11-20 02:04:00 waiting for the image, pull in progress\n"


def logs(*texts):
    return {f"nd{node}.log": text for node, text in enumerate(texts)}


@pytest.mark.parametrize("odd", [RAN + LOST, PULLS])
def test_the_host_that_did_not_reach_it_or_never_started_is_named(analyzed, odd):
    found = analyzed(logs(RAN + WAITED, RAN + WAITED, odd, RAN + WAITED))
    assert verdict(found) == ("rendezvous-failed", (), ("nd2",))


def test_of_as_many_that_came_as_that_did_not_nobody_is_named(analyzed):
    waited, lost = RAN + WAITED, RAN + LOST
    found = analyzed(logs(waited, waited, lost, lost))
    assert verdict(found) == ("rendezvous-failed", (), ())
