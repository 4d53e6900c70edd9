"""unused-parameters, gil-deadlock and straggler: whose own doing, and whose not."""

import json

import pytest

from log_lines import found, init, timeout, traceback, verdict

UNUSED = (
    "RuntimeError: Expected to have finished reduction in the prior iteration before "
    "starting a new one. This error indicates that your module has parameters that "
    "were "
    "not used in producing loss."
)
INDICES = "[rank1]: Parameter indices which did not receive grad for rank 1: 2 3\n"
NAMES = (
    "[rank1]: Parameters which did not receive grad for rank 1: head.weight, head.b\n"
)
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
)


@pytest.mark.parametrize(
    ("more", "word"),
    [("", "some parameters"), (INDICES, "2-3"), (NAMES, "head.weight")],
)
def test_the_rank_and_its_parameters_are_named(analyzed, more, word):
    log = traceback(1, UNUSED) + more + traceback(0, LOST)
    analysis = analyzed({"job.log": log})
    assert verdict(analysis)[:2] == ("unused-parameters", (1,))
    assert word in analysis.ranked.verdict.headline
    assert [role for role, _ in found(analysis, "crashed-rank")] == ["echo"]


def test_torchs_advice_on_unused_parameters_is_no_failure(analyzed):
    line = (
        "[rank0]:[W820 11:24:14.301021037 reducer.cpp:1529] Warning: "
        "find_unused_parameters=True was specified in DDP constructor, but did not "
        "find any "
        "unused parameters in the forward pass.\n"
    )
    assert verdict(analyzed({"job.log": line})) == "no-failure"


def stuck(rank):
    return (
        f"[rank{rank}]:[F820 10:10:00.5 ProcessGroupNCCL.cpp:1169] [PG 0 Rank {rank}] "
        f"[PG 0 Rank {rank}] ProcessGroupNCCL's watchdog got stuck for 600 seconds "
        "without "
        "making progress in monitoring enqueued collectives.\n"
    ).replace("10:10:00.5", "10:10:00.500000000")


def gil(rank):
    return (
        f"[rank{rank}]:[E820 10:10:01.500000000 ProcessGroupNCCL.cpp:1350] [PG ID 0 "
        "PG GUID "
        f"0(default_pg) Rank {rank}] Could not acquire GIL within 300 ms on exit, "
        "possible "
        "GIL induced hang\n"
    )


WORLD = "".join(init(r, 8, bus=f"{r + 1}000") for r in range(8))


@pytest.mark.parametrize(("more", "confidence"), [("", "possible"), (gil(3), "likely")])
def test_the_one_watchdog_that_stood_still_is_named(analyzed, more, confidence):
    analysis = analyzed({"job.log": WORLD + stuck(3) + more})
    assert verdict(analysis) == ("gil-deadlock", (3,), ("gpu0001",))
    assert analysis.ranked.verdict.confidence == confidence


def test_where_no_other_rank_is_seen_all_may_stand_still(analyzed):
    assert not found(analyzed({"job.log": stuck(3)}), "gil-deadlock")


def test_watchdogs_that_all_stand_still_wait_in_one_call(analyzed):
    log = WORLD + "".join(stuck(r) for r in range(8))
    assert not found(analyzed({"job.log": log}), "gil-deadlock")


DUMPING = (
    "[rank{0}]:[E820 10:10:00.500000000 ProcessGroupNCCL.cpp:1153] [PG 0 Rank {0}] "
    "ProcessGroupNCCL preparing to dump debug info.\n"
)


def test_ranks_that_dump_for_no_told_reason_may_have_stood_still_as_well(analyzed):
    log = stuck(3) + "".join(DUMPING.format(rank) for rank in (0, 5))
    assert not found(analyzed({"job.log": log}), "gil-deadlock")
    told = log + timeout(0) + timeout(5)
    assert found(analyzed({"job.log": told}), "gil-deadlock")


def test_a_rank_whose_call_timed_out_is_a_victim(analyzed):
    analysis = analyzed({"job.log": WORLD + timeout(3) + stuck(3)})
    assert not found(analysis, "gil-deadlock")


def test_a_lock_that_is_missed_at_teardown_says_nothing(analyzed):
    analysis = analyzed({"job.log": WORLD + timeout(3) + gil(3)})
    assert not found(analysis, "gil-deadlock")


SECOND = 10**9


def dump(rank, entered, skew=0.0, timeout_ms=6000, pg="0"):
    """A Flight Recorder dump: a call per time in `entered`, in seconds."""
    entries = [
        {
            "record_id": n,
            "pg_id": 0,
            "process_group": [pg, "default_pg"],
            "collective_seq_id": n + 1,
            "p2p_seq_id": 0,
            "op_id": n + 1,
            "profiling_name": "gloo:all_reduce",
            "time_created_ns": int((1_800_000_000 + at + skew) * SECOND),
            "input_sizes": [[8]],
            "output_sizes": [[8]],
            "input_dtypes": ["Float"],
            "output_dtypes": ["Float"],
            "state": "scheduled",
            "retired": n + 1 < len(entered),
            "timeout_ms": timeout_ms,
            "is_p2p": False,
            "frames": [],
        }
        for n, at in enumerate(entered)
    ]
    config = {pg: {"name": pg, "desc": "default_pg", "ranks": json.dumps([0, 1, 2, 3])}}
    return json.dumps(
        {"version": "2.10", "pg_config": {"0": config[pg]}, "entries": entries}
    )


ON_TIME = (0.0, 1.0, 2.0, 3.0)


def recorded(late=None, skew=0.0):
    last = ON_TIME[:-1]
    files = {
        f"nccl_trace_rank_{r}.json": dump(
            r, (*last, 11.5) if r == late else ON_TIME, skew if r == 2 else 0.0
        )
        for r in range(4)
    }
    lost = "RuntimeError: [gloo/transport/tcp/buffer.cc:78] Timed out waiting 6000ms "
    return files | {"job.log": traceback(0, lost + "for recv operation to complete")}


def test_a_rank_that_came_after_the_timeout_is_named(analyzed):
    analysis = analyzed(recorded(late=2))
    assert verdict(analysis)[:2] == ("straggler", (2,))
    assert analysis.ranked.verdict.collective.seq == 4
    assert "8.5 s late" in analysis.ranked.verdict.headline


@pytest.mark.parametrize("skew", [-100.0, 100.0])
def test_a_clock_that_is_off_is_not_late(analyzed, skew):
    assert not found(analyzed(recorded(skew=skew)), "straggler")
    assert verdict(analyzed(recorded(late=2, skew=skew)))[:2] == ("straggler", (2,))


def went_on(late=None, pause=8.5, skew=0.0):
    """Dumps of a job that goes on behind a pause; `late` makes its call only then."""
    before, behind = (0.0, 1.0, 2.0), (3.0 + pause, 4.0 + pause, 5.0 + pause)
    return {
        f"nccl_trace_rank_{r}.json": dump(
            r,
            (*before, 3.0 + pause if r == late else 3.0, *behind),
            skew if r == 2 else 0.0,
        )
        for r in range(4)
    }


@pytest.mark.parametrize("skew", [-100.0, 0.0, 100.0])
def test_who_came_after_the_timeout_is_named_though_the_job_went_on(analyzed, skew):
    analysis = analyzed(went_on(late=2, skew=skew))
    assert verdict(analysis)[:2] == ("straggler", (2,))
    assert analysis.ranked.verdict.collective.seq == 4


def test_a_pause_of_all_makes_nobody_late(analyzed):
    assert not found(analyzed(went_on()), "straggler")


def test_nor_does_one_that_is_shorter_than_the_timeout(analyzed):
    assert not found(analyzed(went_on(late=2, pause=5.5)), "straggler")
