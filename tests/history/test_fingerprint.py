"""The same failure on other ranks and hosts has the same fingerprint, another has not."""

import msgspec
import pytest

from ncclforensics.analysis import analyze
from ncclforensics.history.fingerprint import fingerprint, without_numbers
from ncclforensics.history.record import ns, record
from ncclforensics.report.contract import Collective

HOSTS = ("gpu0001", "gpu0002")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ranks 2-3,7 on gpu0002 share GPU 47000", "rank # on HOST share GPU #"),
        ("rank 7 on gpu0001 share GPU 3b", "rank # on HOST share GPU #b"),
        ("lost gpu[0001-0004,0007] and gpu0002.example", "lost HOST and HOST"),
        ("Xid 79 on GPU 0000:3b:00.0 of gpu0002", "Xid 79 on GPU # of HOST"),
        ("rank 3 ended: exit code 17 at 0x7ffe12", "rank # ended: exit code 17 at #"),
        ("gpu0003 cannot reach 10.0.0.17:29500", "HOST cannot reach #"),
        ("mygpu0002x stays, facade and deadbeef stay", None),
    ],
)
def test_numbers_and_hosts_go_and_codes_stay(text, words):
    expected = "mygpu#x stays, facade and deadbeef stay"
    assert without_numbers(text, HOSTS) == (words or expected)


@pytest.fixture(scope="module")
def report():
    from pathlib import Path

    jobs = Path(__file__).parents[1] / "fixtures" / "jobs"
    return analyze([str(jobs / "torch-missing-rank-two-hosts" / "evidence")]).report


def told(verdict, **changes):
    return fingerprint(msgspec.structs.replace(verdict, **changes), HOSTS)


def test_another_rank_and_host_is_the_same_failure(report):
    verdict = report.verdict
    who = msgspec.structs.replace(
        verdict.culprits, ranks=(0,), ranks_folded="0", hosts=("gpu0001",)
    )
    headline = verdict.headline.replace("rank 6", "ranks 0-3").replace("=5", "=9000")
    assert told(verdict, culprits=who, headline=headline) == told(verdict)


def test_another_call_place_or_error_is_another_failure(report):
    verdict = report.verdict
    at = {"process_group": "0", "process_group_desc": "default_pg", "seq": 5}
    calls = [
        Collective(**at, op="all_reduce", call_site="save.py:21 save"),
        Collective(**at, op="all_reduce", call_site="load.py:21 load"),
        Collective(**at, op="broadcast", call_site="save.py:21 save"),
    ]
    seen = {told(verdict, collective=call) for call in calls}
    seen |= {told(verdict), told(verdict, slug="straggler")}
    seen.add(told(verdict, headline="rank 6 ended: ValueError: no labels"))
    assert len(seen) == 6
    moved = Collective(**at, op="all_reduce", call_site="save.py:23 save")
    assert told(verdict, collective=moved) == told(verdict, collective=calls[0])


def test_more_logs_of_the_same_stop_are_the_same_incident(report):
    first = record(report, 1, {"job": "88121"})
    more = msgspec.structs.replace(report, sources=report.sources[1:])
    again = record(more, 2, {})
    assert again.id == first.id
    assert again.evidence != first.evidence
    later = msgspec.structs.replace(
        report.onset, stopped="2026-11-21T00:00:00.000000000Z"
    )
    assert record(msgspec.structs.replace(report, onset=later), 3, {}).id != first.id
    assert (first.hosts, first.nodes, first.job) == (("gpu0002",), HOSTS, "88121")
    assert first.row == msgspec.structs.replace(first, kept=9).row


def test_an_accused_host_of_which_there_is_no_log_was_in_the_job(report):
    job = msgspec.structs.replace(report.job, hosts=("gpu0001",))
    assert record(msgspec.structs.replace(report, job=job), 1, {}).nodes == HOSTS


def test_times_keep_their_nanoseconds():
    assert ns("2026-01-01T00:00:00.000000001Z") == 1_767_225_600 * 10**9 + 1
    assert ns("2026-01-01T00:00:01Z") == 1_767_225_601 * 10**9
    assert ns(None) is None
