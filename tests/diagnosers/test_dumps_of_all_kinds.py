"""Sets of dumps on which a verdict per group goes wrong: one verdict, the right one."""

import json
import pickle
from pathlib import Path

import polars as pl
import pytest

import judging
import simulate_dumps
from log_lines import timeout

pytestmark = pytest.mark.usefixtures("trusted")

FIXTURES = Path(__file__).parents[1] / "fixtures" / "jobs"


@pytest.fixture
def case():
    return judging.played("absent", 3)


def verdict(folder):
    return judging.named(judging.analyze([str(folder)]))


def is_right(case, folder):
    slug, ranks = verdict(folder)
    return slug == "missing-rank" and set(ranks) == set(case.ranks)


def test_dumps_of_mixed_versions_and_formats(case, tmp_path):
    for rank in range(16):
        version = ("2.4", "2.9", "2.10")[rank % 3]
        style = simulate_dumps.Style(version=version, json=rank % 2 == 1)
        told = simulate_dumps.dump(case, rank, style)
        file = tmp_path / f"nccl_trace_rank_{rank}"
        if style.json:
            file.with_suffix(".json").write_text(
                json.dumps(simulate_dumps._as_json(told))
            )
        else:
            file.write_bytes(pickle.dumps(told, protocol=2))
    assert is_right(case, tmp_path)


@pytest.mark.parametrize("lost", [0, 9, 15])
def test_one_dump_of_a_rank_that_waits_is_lost(case, lost, tmp_path):
    if lost in case.ranks:
        pytest.skip("this one is the culprit's")
    judging.analysis(case, tmp_path, lost=frozenset({lost}))
    assert is_right(case, tmp_path)


def test_one_dump_of_a_rank_that_waits_is_cut(case, tmp_path):
    judging.analysis(case, tmp_path)
    waits = next(rank for rank in range(16) if rank not in case.ranks)
    file = tmp_path / f"nccl_trace_rank_{waits}"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert is_right(case, tmp_path)


def test_the_culprits_dump_is_cut_so_its_last_calls_are_unseen(case, tmp_path):
    judging.analysis(case, tmp_path)
    (culprit,) = case.ranks
    file = tmp_path / f"nccl_trace_rank_{culprit}"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = judging.analyze([str(tmp_path)])
    assert judging.sure(found) == ()
    assert judging.named(found) in ((None, ()), ("missing-rank", (culprit,)))


def test_only_dumps_and_one_of_them_cut(tmp_path):
    job = FIXTURES / "torch-missing-rank"
    for file in sorted((job / "evidence" / "fr").iterdir()):
        data = file.read_bytes()
        cut = len(data) // 2 if file.name.endswith("_0") else len(data)
        (tmp_path / file.name).write_bytes(data[:cut])
    assert verdict(tmp_path) == ("missing-rank", (2,))


def test_pipeline_stages_count_their_records_differently(tmp_path):
    case = judging.played("absent", 5, tp=2, pp=4, dp=2, ep=1)
    found = judging.analysis(case, tmp_path)
    world = found.frames["collectives"].filter(pl.col("pg_desc") == "default_pg")
    apart = world.group_by("seq").agg(pl.col("record_id").n_unique())
    assert (apart["record_id"] > 1).any()
    assert judging.named(found) == ("missing-rank", tuple(case.ranks))


def test_a_message_that_waits_in_a_larger_group_accuses_nobody_of_that_group(tmp_path):
    case = judging.played("absent", 5, tp=1, pp=4, dp=2, ep=1)
    found = judging.analysis(case, tmp_path)
    pending = found.frames["calls"].filter("is_p2p")
    sizes = found.frames["groups"].filter(
        pl.col("pg").is_in(pending["pg"].unique().implode())
    )["size"]
    assert sizes.min() == 4
    assert judging.named(found) == ("missing-rank", tuple(case.ranks))


def test_a_chain_over_two_groups_ends_at_one_rank(case, tmp_path):
    found = judging.analysis(case, tmp_path)
    calls = found.frames["calls"]
    behind = calls.filter(~pl.col("absent").list.contains(min(case.ranks)))
    assert calls["pg_desc"].n_unique() > 1
    assert (behind["behind"].list.len() > 0).any()
    assert judging.named(found) == ("missing-rank", tuple(case.ranks))


def test_all_arrived_and_nobody_is_accused(tmp_path):
    found = judging.analysis(judging.played("stuck", 3), tmp_path)
    assert found.ranked.verdict.slug == "stuck-in-collective"
    assert found.ranked.verdict.ranks == ()


def test_every_dump_is_json(case, tmp_path):
    judging.analysis(case, tmp_path, json=True, version="2.9")
    assert is_right(case, tmp_path)


def test_the_first_file_is_the_culprits(tmp_path):
    case = next(
        case
        for seed in range(200)
        if (case := judging.played("absent", seed)).ranks == frozenset({0})
    )
    judging.analysis(case, tmp_path)
    assert is_right(case, tmp_path)


def test_the_host_stands_in_the_file_name(case, tmp_path):
    judging.analysis(case, tmp_path)
    for rank in range(16):
        file = tmp_path / f"nccl_trace_rank_{rank}"
        file.rename(tmp_path / f"nccl_trace_rank_gpu{rank // 8:04}_{rank}")
    assert is_right(case, tmp_path)


def test_an_operation_that_nobody_knows(tmp_path):
    case = judging.played("absent", 3)
    for run in case.job.runs:
        for index, op in enumerate(run.program):
            if op.name == "_all_gather_base":
                from simulate import with_op

                with_op(run, index, name="quantized_all_gather_x")
    judging.analysis(case, tmp_path)
    assert is_right(case, tmp_path)


def test_clocks_that_differ_by_hours(case, tmp_path):
    judging.analysis(case, tmp_path, skew_seconds=10_000.0)
    assert is_right(case, tmp_path)


def test_the_order_of_files_does_not_matter(case, tmp_path):
    judging.analysis(case, tmp_path)
    files = sorted(map(str, tmp_path.iterdir()))
    one = judging.analyze(files).ranked.verdict
    other = judging.analyze(files[::-1]).ranked.verdict
    assert one == other


def lost_with_a_node(case, folder, size=8):
    """Write dumps without those of the culprit's host, of `size` ranks."""
    (culprit,) = case.ranks
    first = culprit // size * size
    gone = frozenset(range(first, first + size))
    judging.analysis(case, folder, lost=gone)
    return gone


def test_the_ranks_of_a_lost_node_are_those_that_left_nothing(case, tmp_path):
    gone = lost_with_a_node(case, tmp_path)
    line = "slurmstepd: error: Node failure on gpu0001\n"
    (tmp_path / "slurm-77.out").write_text(line)
    found = judging.analyze([str(tmp_path)]).ranked.verdict
    assert (found.slug, found.hosts) == ("node-lost", ("gpu0001",))
    assert found.ranks
    assert set(found.ranks) <= gone


def test_a_node_without_dumps_is_not_lost_for_that(case, tmp_path):
    lost_with_a_node(case, tmp_path)
    found = judging.analyze([str(tmp_path)])
    assert judging.sure(found) == ()


def logs_of_nodes(folder, silent):
    """Every rank logs a step on its node; all but the silent ones time out."""
    for rank in range(16):
        log = folder / "logs" / f"node{rank // 4}" / f"rank_{rank}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("step 12 done\n" + ("" if rank in silent else timeout(rank)))


def test_a_node_that_fell_silent_and_left_no_dump_is_lost(case, tmp_path):
    gone = lost_with_a_node(case, tmp_path, size=4)
    logs_of_nodes(tmp_path, gone)
    assert verdict(tmp_path) == ("node-lost", tuple(sorted(gone)))


def test_of_a_lost_node_one_rank_alone_may_have_left_a_log(case, tmp_path):
    gone = lost_with_a_node(case, tmp_path, size=4)
    logs_of_nodes(tmp_path, gone)
    for rank in sorted(gone)[1:]:
        next(tmp_path.glob(f"logs/*/rank_{rank}.log")).unlink()
    found = judging.analyze([str(tmp_path)]).ranked.verdict
    assert (found.slug, found.ranks) == ("node-lost", tuple(sorted(gone)))


def test_a_silent_node_is_not_lost_if_other_dumps_are_missing_as_well(case, tmp_path):
    gone = lost_with_a_node(case, tmp_path, size=4)
    logs_of_nodes(tmp_path, gone)
    next(tmp_path.glob("nccl_trace_rank_*")).unlink()
    assert verdict(tmp_path)[0] == "missing-rank"


def test_a_rank_without_a_dump_that_a_line_shows_dead_is_crashed(case, tmp_path):
    (culprit,) = case.ranks
    judging.analysis(case, tmp_path, lost=case.ranks)
    line = f"[rank{culprit}]: Fatal Python error: Segmentation fault\n"
    (tmp_path / "train.log").write_text(line)
    assert verdict(tmp_path) == ("crashed-rank", (culprit,))
