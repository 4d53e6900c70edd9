"""gpu-stall and gil-deadlock on simulated dumps, and what looks like them."""

import os
import pickle

import pytest

import judging
import simulate_dumps
from log_lines import open_call
from ncclforensics.analysis import analyze

pytestmark = pytest.mark.usefixtures("trusted")


def test_a_gpu_that_finishes_less_than_its_peers(tmp_path):
    for seed in range(10):
        case = judging.played("stall", seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        slug, ranks = judging.named(judging.analysis(case, folder))
        assert set(ranks) <= set(case.ranks)
        if ranks:
            assert slug == "gpu-stall"
            return
    pytest.fail("no seed in which the rank falls behind far enough")


def test_a_gpu_that_has_not_begun_what_all_have_enqueued(tmp_path):
    case = judging.played("stall_timed", 2)
    found = judging.analysis(case, tmp_path)
    assert judging.named(found) == ("gpu-stall", tuple(case.ranks))
    assert "has not begun" in found.ranked.verdict.explanation


def test_a_gloo_group_beside_those_of_nccl_hides_no_gpu(tmp_path):
    judging.analysis(judging.played("stall_timed", 2), tmp_path)
    for file in tmp_path.iterdir():
        dump = pickle.loads(file.read_bytes())  # noqa: S301 - just written
        first = dump["entries"][0]
        for entry in dump["entries"]:
            entry["record_id"] += 1
        about = {"process_group": ("77", "DATA_PARALLEL_GROUP_GLOO"), "pg_id": 77}
        about |= {"profiling_name": "gloo:all_reduce", "state": "completed"}
        dump["entries"].insert(0, {**first, **about, "record_id": 0, "retired": True})
        file.write_bytes(pickle.dumps(dump))
    found = analyze([str(tmp_path)])
    assert judging.named(found)[0] == "gpu-stall"
    backends = found.frames.scan("collectives").select("backend").collect()
    assert set(backends["backend"]) == {"gloo", "nccl"}


def test_without_timing_nobody_can_tell_whose_gpu_it_is(tmp_path):
    case = judging.played("stall_timed", 2)
    case.timing = False
    found = judging.analysis(case, tmp_path)
    assert judging.named(found) == ("stuck-in-collective", ())
    assert found.ranked.verdict.confidence == "likely"


def test_a_rank_a_few_calls_behind_in_a_job_that_runs_is_not_stalled(tmp_path):
    case = judging.played("finished")
    ended = sorted(end for end in case.job.runs[5].ended if end is not None)
    case.cut = [ended[-20] + 1e-6] * 16
    case.cut[5] = ended[-22] + 1e-6
    assert judging.named(judging.analysis(case, tmp_path)) == (None, ())


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_dump_without_stacks_or_entries_on_the_absent_rank(seed, tmp_path):
    case = judging.played("gil", seed)
    found = judging.analysis(case, tmp_path)
    assert judging.named(found) == ("gil-deadlock", tuple(case.ranks))
    lacks = "entries" if case.mute else "stacks"
    assert lacks in found.ranked.verdict.headline


def test_without_proof_that_the_job_stopped_it_is_only_possible(tmp_path):
    case = judging.played("gil", 1)
    assert judging.analysis(case, tmp_path).ranked.verdict.confidence == "likely"
    for file in tmp_path.iterdir():  # as they come from an archive without times
        os.utime(file, (1.7e9, 1.7e9))
    found = analyze([str(tmp_path)]).ranked.verdict
    assert found is None or found.confidence == "possible"


def test_an_absent_rank_with_a_whole_dump_is_only_missing(tmp_path):
    case = judging.played("gil", 1)
    case.mute = case.frameless = frozenset()
    slug, ranks = judging.named(judging.analysis(case, tmp_path))
    assert (slug, set(ranks)) == ("missing-rank", set(case.ranks))


def test_the_head_of_a_dump_that_is_cut_says_nothing_of_its_entries(tmp_path):
    case = judging.played("gil", 1)
    case.mute = case.frameless = frozenset()
    folder = tmp_path / "dumps"
    folder.mkdir()
    simulate_dumps.write(case, folder, simulate_dumps.Style())
    (culprit,) = case.ranks
    (dump,) = [d for d in folder.iterdir() if d.name.endswith(f"_{culprit}")]
    data = dump.read_bytes()
    dump.write_bytes(data[: data.index(b"entries") + 40])
    found = analyze([str(folder)])
    assert judging.sure(found) == ()
    assert set(judging.named(found)[1]) <= {culprit}


def test_where_only_active_calls_are_dumped_an_empty_dump_says_nothing(tmp_path):
    case = judging.played("absent", 1)
    found = judging.analysis(case, tmp_path, only_active=True)
    assert judging.named(found) == ("missing-rank", tuple(case.ranks))


def test_a_waiting_rank_without_stacks_is_nobodys_culprit(tmp_path):
    case = judging.played("absent", 1)
    (culprit,) = case.ranks
    case.frameless = frozenset({(culprit + 1) % 16})
    found = judging.analysis(case, tmp_path)
    assert judging.named(found) == ("missing-rank", (culprit,))


def ended(case, folder, others):
    """Analyze dumps without the culprit's, and how srun says that tasks ended."""
    (gone,) = case.ranks
    rest = ",".join(str(rank) for rank in range(16) if rank != gone)
    lines = [f"srun: error: gpu0001: task {gone}: Exited with exit code 1"]
    lines += [f"srun: error: gpu0001: tasks {rest}: {others}"] if others else []
    (folder / "slurm-1.out").write_text("".join(f"{line}\n" for line in lines))
    found = judging.analysis(case, folder, lost=frozenset(case.ranks))
    return judging.sure(found) and judging.named(found)


@pytest.mark.parametrize(
    ("others", "named"),
    [("Aborted", True), (None, True), ("Exited with exit code 1", False)],
)
def test_who_ended_alone_without_a_dump_and_unlike_the_others(tmp_path, others, named):
    case = judging.played("absent", 1)
    found = ended(case, tmp_path, others)
    assert (found == ("crashed-rank", tuple(case.ranks))) is named


def test_who_left_a_dump_was_alive_when_the_others_gave_up(tmp_path):
    case = judging.played("absent", 1)
    (gone,) = case.ranks
    line = f"srun: error: gpu0001: task {gone}: Exited with exit code 1\n"
    (tmp_path / "slurm-1.out").write_text(line)
    slug, _ = judging.named(judging.analysis(case, tmp_path))
    assert slug != "crashed-rank"


T0 = 1_800_000_000_000_000_000


def made(number, op, *, ended=True, shown=False):
    """An entry of torch 2.13; nothing of Python is on the stack of autograd's thread."""
    at = [{"name": "main", "filename": "/w/train.py", "line": 10}]
    return open_call("nccl", T0 + number * 100_000_000) | {
        "record_id": number,
        "collective_seq_id": number + 1,
        "op_id": number + 1,
        "profiling_name": f"nccl:{op}",
        "state": "completed" if ended else "scheduled",
        "retired": ended,
        "frames": at if shown else [],
    }


@pytest.mark.parametrize(
    ("shown", "slug"), [(False, "missing-rank"), (True, "gil-deadlock")]
)
def test_calls_of_which_nobody_has_a_stack_are_no_sign(tmp_path, shown, slug):
    """`shown`: whether all ranks but the absent one have stacks of what it made too."""
    members = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    for rank in range(4):
        waits = rank != 1
        calls = [made(n, "all_reduce", shown=shown and waits) for n in range(20)]
        calls += [made(20, "barrier", ended=False, shown=True)] if waits else []
        dump = {"version": "2.10", "pg_config": members, "entries": calls}
        file = tmp_path / f"nccl_trace_rank_{rank}"
        file.write_bytes(pickle.dumps(dump, protocol=2))
        os.utime(file, (1_800_000_603, 1_800_000_603))
    assert judging.named(analyze([str(tmp_path)])) == (slug, (1,))
