"""The desync classes on simulated dumps: each fires, and not on its look-alike."""

import pytest

import judging
import simulate
import simulate_faults
from ncclforensics.analysis import analyze
from ncclforensics.report.formats.text import render_text

pytestmark = pytest.mark.usefixtures("trusted")


def finding(found, slug):
    return next((f for _, f in found.ranked.findings if f.slug == slug), None)


def test_missing_rank_tells_how_the_rest_hangs_on_it(tmp_path):
    case = judging.played("absent", 3, tp=4, pp=4, dp=4)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "missing-rank")
    assert set(told.ranks) == set(case.ranks)
    assert "more ranks wait behind." in told.explanation
    assert "63 ranks wait for rank 30, through" in render_text(found.report)
    assert told.collective.call_site
    assert told.evidence


def test_missing_rank_names_both_of_two_that_are_absent(tmp_path):
    for seed in range(20):
        case = judging.played("two_absent", seed)
        found = judging.analysis(case, _fresh(tmp_path, seed))
        slug, ranks = judging.named(found)
        assert set(ranks) <= set(case.ranks)
        if len(ranks) == 2:
            assert slug == "missing-rank"
            return
    pytest.fail("no seed in which somebody waits for both")


def _fresh(folder, name):
    (folder / str(name)).mkdir()
    return folder / str(name)


@pytest.mark.parametrize("fault", ["order", "extra", "early", "mismatch", "finished"])
def test_missing_rank_is_silent_where_nobody_is_missing(fault, tmp_path):
    _, (slug, _) = judging.verdict(fault, tmp_path, 1)
    assert slug != "missing-rank"


def test_an_extra_call_names_who_makes_it_and_where_the_stacks_part(tmp_path):
    case = judging.played("extra", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "rank-conditional-collective")
    assert told.ranks == (0,)
    assert told.collective.call_site == "evaluate.py:12 evaluate"
    assert "train.py:72 train against train.py:" in told.explanation


def test_leaving_the_loop_is_no_extra_call(tmp_path):
    case = judging.played("early", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "uneven-inputs")
    assert set(told.ranks) == set(case.ranks)
    assert "train.py:26 main" in told.explanation
    assert finding(found, "rank-conditional-collective") is None
    assert finding(found, "call-order-deadlock") is None


@pytest.mark.parametrize("swaps", [4, 5])
@pytest.mark.parametrize(
    ("instead", "named"),
    [
        (["flag", "seed"], "call-order-deadlock"),
        (["evaluate", "seed", "flag"], "rank-conditional-collective"),
    ],
)
def test_ranks_outside_of_a_circle_do_not_tell_whose_turn_a_call_was(
    instead, named, swaps, tmp_path
):
    """Hosts wait for each call, and others, of lower ranks, are in one as always."""
    job, places = simulate.job(2, 1, 4)
    for rank, run in enumerate(job.runs):
        pair = places[rank]["kinds"]["TE"]
        calls = {
            "seed": simulate.Op(
                pair, "all_reduce", "seed", (4,), (4,), "Long", syncs=True
            ),
            "flag": simulate.Op(0, "all_reduce", "flag", (1,), (1,), "Int", syncs=True),
            "evaluate": simulate.Op(
                0, "all_reduce", "evaluate", (5,), (5,), "Float", syncs=True
            ),
        }
        steps, program = 0, []
        for op in run.program:
            program.append(op)
            if op.site == "loss":
                steps += 1
                odd = rank == swaps and steps == 3
                program += [
                    calls[name] for name in (instead if odd else ("seed", "flag"))
                ]
        run.program = program
    case = simulate_faults.finished(job, [], 0)
    slug, ranks = judging.named(judging.analysis(case, tmp_path))
    assert (slug, ranks) == (named, (swaps,))


@pytest.mark.parametrize("rank", [0, 2])
def test_a_barrier_in_place_of_a_call_is_a_mismatch_whatever_it_stands_behind(
    rank, tmp_path
):
    """The others are in a step's call of the same group, at the same number.

    It may stand behind a condition or a loop: only that the calls differ is known.
    """
    job, _ = simulate.job(1, 1, 4)
    run = job.runs[rank]
    steps = [i for i, op in enumerate(run.program) if op.site == "loss"]
    end = simulate.Op(0, "barrier", "setup_2", (1,), (1,), "Byte", syncs=True)
    run.program = [*run.program[: steps[1]], end, *run.program[steps[1] :]]
    case = simulate_faults.finished(job, [], 0)
    slug, ranks = judging.named(judging.analysis(case, tmp_path))
    assert (slug, ranks) == ("collective-mismatch", (rank,))


def test_opposite_order_is_a_circle_with_both_call_sites(tmp_path):
    case = judging.played("order", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "call-order-deadlock")
    assert case.told["any_of"] <= set(told.ranks) <= set(case.ranks)
    assert "at train.py:70 train" in told.explanation
    assert "at layers.py:" in told.explanation


def test_a_skipped_receive_names_the_side_that_did_not_post(tmp_path):
    case = judging.played("unmatched", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "unmatched-p2p")
    assert set(told.ranks) == set(case.ranks)
    assert "never posted the recv" in told.headline


def test_a_stage_that_stopped_is_missing_though_only_messages_wait_for_it(tmp_path):
    case = judging.played("absent", 2, tp=1, pp=4, dp=1, ep=1)
    slug, ranks = judging.named(judging.analysis(case, tmp_path))
    assert (slug, set(ranks)) == ("missing-rank", set(case.ranks))


def test_another_operation_at_one_number_and_the_tie_of_two(tmp_path):
    case = judging.played("mismatch", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "collective-mismatch")
    assert set(told.ranks) == set(case.ranks)
    assert "broadcast" in told.headline
    assert told.collective.call_site == "buffers.py:9 sync_buffers"
    (culprit,) = case.ranks
    group = case.job.groups[
        case.job.runs[culprit].program[len(case.job.runs[culprit].began) - 1].group
    ]
    mate = next(r for r in group.members if r != culprit)
    others = frozenset(range(16)) - {culprit, mate}
    two = judging.analysis(case, _fresh(tmp_path, "two"), lost=others)
    assert judging.named(two) == (None, ())  # the lost members may be of either side


@pytest.mark.parametrize(
    ("name", "changes", "differs"),
    [
        ("_all_gather_base", {"into": (128,), "out": (256,)}, True),
        ("_all_gather_base", {"dtype": "Float"}, True),
        ("all_to_all", {"into": (7,), "out": (7,)}, False),
        ("all_to_all", {"dtype": "Float"}, True),
    ],
)
def test_sizes_and_dtypes_by_the_rules_of_each_operation(
    name, changes, differs, tmp_path
):
    job, places = simulate.job(2, 1, 4, 4)
    run = job.runs[3]
    wanted = [i for i, op in enumerate(run.program) if op.name == name]
    index = wanted[len(wanted) // 2]
    simulate.with_op(run, index, **changes)
    case = simulate_faults.finished(job, places, 0)
    slug, ranks = judging.named(judging.analysis(case, tmp_path))
    if not differs:
        assert (slug, ranks) == (None, ())
    else:
        assert slug == "shape-mismatch"
        assert 3 in ranks


def test_straggler_came_in_the_end_and_a_wrong_clock_is_none(tmp_path):
    case = judging.played("late", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "straggler")
    assert set(told.ranks) == set(case.ranks)
    assert "timeout of 10 min" in told.explanation
    case = judging.played("stuck", 1, tp=2, pp=2, dp=8)
    found = judging.analysis(case, _fresh(tmp_path, "clock"), skew_seconds=100_000)
    assert finding(found, "straggler") is None


def test_a_full_call_that_nobody_finishes_blames_nobody(tmp_path):
    case = judging.played("stuck", 1)
    found = judging.analysis(case, tmp_path)
    told = finding(found, "stuck-in-collective")
    assert (told.ranks, told.confidence) == ((), "likely")


@pytest.mark.parametrize("fault", ["absent", "mismatch", "late", "stall_timed"])
def test_stuck_is_silent_where_another_class_tells_more(fault, tmp_path):
    case = judging.played(fault, 1)
    found = judging.analysis(case, tmp_path)
    assert finding(found, "stuck-in-collective") is None or (
        found.ranked.verdict.slug != "stuck-in-collective"
    )


def test_a_full_call_with_one_dump_lost_is_not_called_full(tmp_path):
    case = judging.played("stuck", 1)
    ((group, *_),) = case.job.broken
    member = case.job.groups[group].members[0]
    found = judging.analysis(case, tmp_path, lost=frozenset({member}))
    assert finding(found, "stuck-in-collective") is None


def test_a_late_rank_is_told_though_a_dump_is_lost(tmp_path):
    case = judging.played("late", 1)
    judging.analysis(case, tmp_path)
    lost = next(rank for rank in range(16) if rank not in case.ranks)
    (tmp_path / f"nccl_trace_rank_{lost}").unlink()
    told = finding(analyze([str(tmp_path)]), "straggler")
    assert set(told.ranks) == set(case.ranks)
    assert told.confidence == "certain"
