"""timeout-masking says since when the job had stopped, and accuses nobody."""

from datetime import UTC, datetime

WORK = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=51, OpType=ALLREDUCE, "
    "NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600000 milliseconds before "
    "timing out."
)


def timeout(rank, clock="10:20:00"):
    return (
        f"[rank{rank}]:[E602 {clock}.833621509 ProcessGroupNCCL.cpp:616] [Rank {rank}] "
        f"{WORK}\n"
    )


def test_alone_it_is_the_verdict_and_accuses_nobody(analyzed):
    analysis = analyzed({"job.log": timeout(0) + timeout(1)})
    assert analysis.ranked.outcome == "inconclusive"
    verdict = analysis.ranked.verdict
    assert (verdict.slug, verdict.ranks, verdict.hosts) == ("timeout-masking", (), ())


def test_the_onset_is_the_lines_time_less_what_it_ran(analyzed):
    dated = "2026-06-02T10:20:01Z stderr F step 7\n"
    year = "[2026-06-02 10:19:00] gpu0001:3:3 [0] a.cc:1 NCCL WARN x\n"
    analysis = analyzed({"job.log": dated + year + timeout(0)})
    onset = datetime(2026, 6, 2, 10, 10, tzinfo=UTC)
    assert analysis.ranked.verdict.first_seen == int(onset.timestamp()) * 10**9
    assert "10 min" in analysis.ranked.verdict.explanation


def test_without_any_year_in_the_evidence_the_onset_is_unknown(analyzed):
    assert analyzed({"job.log": timeout(0)}).ranked.verdict.first_seen is None


def test_beside_a_cause_it_is_a_witness(analyzed):
    cause = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/job/train.py", line 8, in step\n'
        "[rank1]: ValueError: bad batch\n"
    )
    roles = {
        f.slug: role
        for role, f in analyzed({"job.log": timeout(0) + cause}).ranked.findings
    }
    assert roles == {"crashed-rank": "root", "timeout-masking": "witness"}
