"""Elastic Horovod that waits for slots: a failure where nothing ends the wait."""

import pytest

from nccl_lines import found

SLUG = "elastic-below-min"
LOST = "INFO:root:blacklist failing host: gpu0002\n"
WAITS = "INFO:root:wait for available slots: 4\n"
GOES_ON = "INFO:root:reset workers: 2\n"
ENDED = "Process 2 exit with status code 137.\n"
NO_HOST = "ERROR:root:blacklisted slots count == 4 -> stop running\n"


def test_a_wait_behind_a_lost_host_that_nothing_ends_names_the_host(analyzed):
    analysis = analyzed({"job.log": WAITS + GOES_ON + ENDED + LOST + WAITS})
    verdict = analysis.ranked.verdict
    assert (verdict.slug, verdict.hosts, verdict.ranks) == (SLUG, ("gpu0002",), ())
    assert verdict.confidence == "likely"
    assert "4 processes" in verdict.headline


@pytest.mark.parametrize(
    "log",
    [
        ENDED + LOST + WAITS + GOES_ON,  # enough are left
        WAITS,  # nothing was lost: the first hosts are still to come
        ENDED + LOST,  # what Horovod did then is not told
    ],
)
def test_a_wait_that_ended_or_never_followed_a_loss_is_silent(analyzed, log):
    assert not found(analyzed({"job.log": log}), SLUG)


def test_where_every_host_is_blacklisted_it_has_given_up(analyzed):
    (finding,) = found(analyzed({"job.log": LOST + NO_HOST}), SLUG)
    assert (finding.hosts, finding.confidence) == (("gpu0002",), "certain")
    assert "every host" in finding.headline


def test_the_first_that_ended_tells_the_host_where_nothing_else_does(analyzed):
    gave_up = (
        "horovod.runner.common.util.timeout.TimeoutException: Timed out waiting for "
        "{activity}. Please check that you have enough resources to run at least 4 "
        "Horovod processes. Timeout after 20 seconds.\n"
        "The first process to do so was:\nProcess name: gpu0003[0]\nExit code: 137\n"
    )
    (finding,) = found(analyzed({"job.log": gave_up}), SLUG)
    assert finding.hosts == ("gpu0003",)
