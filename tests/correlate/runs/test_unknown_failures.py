"""A line that reads as a failure forbids no-failure, accuses nobody, and is quoted."""

import pytest

from ncclforensics.report.opening_lines import opening

STEPS = "".join(f"[rank0]: step {n} loss 2.{n}\n" for n in range(1, 7))
UNKNOWN = (
    "num events failed to report to the aggregator: 10",
    "[2026-11-28 13:55:22,123 E 735 779] actor_manager.cc:110: Failed to look up actor",
    "*** Process received signal ***",
    "storage: error: cannot reach the bucket",
    "frobnicator failed: widget 9 is gone",
    "[rank0]:[E820 10:10:00.596967190 Widget.cpp:17] the widget is gone",
    "[rank0]:[E Widget.cpp:17] the widget is gone",
    "the loader timed out",
    "worker exited with code 3",
    "NCCL RAS: comm 0x12 has a MISMATCH",
    "storage: error: upload of part 17.0 failed: no answer",
    "fit over, failed batches: 10",
    "10:30:26 ERROR fit over, failed batches: 3",
)
HARMLESS = (
    "num events failed to report to the aggregator: 0",
    "[2026-11-28 13:55:22,123 W 735 779] actor_manager.cc:110: Failed to look up actor",
    "cleaner: failed to query the controller, it may be unavailable. Continuing to watch.",
    "upload of shard 3 failed, will retry in 5 s",
    "0 failed, 12 passed",
    "finished: 40 iterations, best acc 0.5, no failed samples",
    "validation error: 0.2531",
    "exit code: 0",
    "TORCH_CPP_LOG_LEVEL=ERROR",
    "[rank0]:[W820 10:10:00.596967190 Widget.cpp:17] a probe failed, trying the next",
    "[rank0]:[W Widget.cpp:17] a probe failed, trying the next",
    "gpu0001:11:11 [0] NCCL INFO Failed to open libplugin.so",
    "04/22/2026 07:00:30 - WARNING - data - 2 shards failed verification, once more",
    "rec[1] WARNING cannot write the snapshot (open failed), using another place",
    "10:30:26 INFO fit over, failed batches: 0, budget used 0.0%",
    "fit over, failed batches: 0, budget used 0.0%",
    "It seems that nccl failed. How can I fix this?",
)


@pytest.mark.parametrize("line", UNKNOWN)
def test_it_forbids_no_failure_and_is_quoted(analyzed, line):
    found = analyzed({"job.log": f"{STEPS}{line}\n"})
    assert (found.ranked.outcome, found.ranked.verdict) == ("inconclusive", None)
    first, second = opening(found.report)
    assert "reads like a failure" in first
    assert second[1:9] in line
    (note,) = [note for note in found.report.notes if note.stage == "unknown"]
    assert (note.source, note.line) == ("job.log", 7)


@pytest.mark.parametrize("line", HARMLESS)
def test_what_only_sounds_like_one_does_not(analyzed, line):
    found = analyzed({"job.log": f"{STEPS}{line}\n"})
    assert found.ranked.outcome == "no-failure"


@pytest.mark.parametrize("line", UNKNOWN)
def test_a_job_that_went_on_survived_it(analyzed, line):
    found = analyzed({"job.log": f"{line}\n{STEPS}"})
    assert found.ranked.outcome == "no-failure"
    assert not [note for note in found.report.notes if note.stage == "unknown"]


@pytest.mark.parametrize("line", UNKNOWN)
def test_epochs_that_hugging_face_logs_show_that_it_went_on(analyzed, line):
    told = "{'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'epoch': 0.5}\n"
    found = analyzed({"job.log": f"{line}\n{told}"})
    assert found.ranked.outcome == "no-failure"


@pytest.mark.parametrize(
    ("seconds", "outcome"), [(3, "no-failure"), (9, "inconclusive")]
)
def test_new_steps_in_another_log_count_by_the_clock(analyzed, seconds, outcome):
    steps = "".join(f"2026-08-20 09:58:0{n},500 INFO step {n}\n" for n in range(9))
    failed = f"2026-08-20 09:58:0{seconds},000 shard failed: 9\n"
    found = analyzed({"rank_0.log": steps, "rank_3.log": failed})
    assert found.ranked.outcome == outcome


def test_several_are_counted_and_the_last_is_quoted_too(analyzed):
    log = STEPS + "".join(f"shard failed: {n}\n" for n in range(5))
    (note,) = [
        n for n in analyzed({"job.log": log}).report.notes if n.stage == "unknown"
    ]
    assert "'shard failed: 0'" in note.text
    assert "4 more do, at last 'shard failed: 4'" in note.text


def test_it_does_not_stand_before_a_verdict(analyzed):
    log = STEPS + "storage: error: cannot reach the bucket\n"
    log += (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 3, '
    )
    log += "in f\n[rank1]: ValueError: no rows\n"
    found = analyzed({"job.log": log})
    assert found.ranked.verdict.slug == "crashed-rank"
    assert opening(found.report)[0].startswith("crashed-rank")


RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/job/data.py", line 67, in pull\n    image = decode(buffer)\n'
    "ValueError: cannot identify image\n"
)


@pytest.mark.parametrize(
    "said", ["rank 3: sample 88123 is skipped", "10:00:00 | INFO | done (rank 3)"]
)
def test_a_rank_that_prints_a_line_of_its_own_afterwards_survived(analyzed, said):
    found = analyzed({"rank_3.log": f"{RAISED}{said}\n"})
    assert found.ranked.outcome == "no-failure"


@pytest.mark.parametrize("said", ["", "rank 2: sample 88123 is skipped"])
def test_without_such_a_line_it_died(analyzed, said):
    verdict = analyzed({"rank_3.log": f"{RAISED}{said}\n"}).ranked.verdict
    assert (verdict.slug, verdict.ranks) == ("crashed-rank", (3,))


@pytest.mark.parametrize(
    "words",
    [
        "The run hangs after the sixth step.",
        "on two nodes it gets stuck --",
        "It starts, but freezes right after NCCL is initialized",
    ],
)
def test_a_person_who_says_that_it_hangs_is_believed(analyzed, words):
    for log in (f"{words}\n{STEPS}", f"{STEPS}{words}\n"):
        found = analyzed({"issue.md": log})
        assert (found.ranked.outcome, found.ranked.verdict) == ("inconclusive", None)


@pytest.mark.parametrize(
    "words",
    [
        "If it hangs, set NCCL_P2P_DISABLE=1.",
        "with this setting it never hangs",
        "the first stage freezes the encoder",
        "2026-11-20 10:00:00,123 train INFO a worker is stuck at 3 for 2 s, retrying",
        'gpu0001:41:41 [0] init.cc:179 NCCL WARN Missing "iommu=pt" from kernel command '
        "line which can lead to system instablity or hang!",
    ],
)
def test_advice_and_what_programs_say_of_hangs_is_harmless(analyzed, words):
    assert analyzed({"job.log": f"{words}\n{STEPS}"}).ranked.outcome == "no-failure"
