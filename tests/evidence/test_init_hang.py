"""Who did not come to build a communicator, and where that cannot be said."""

import pytest

USING = "gpu000{host}:{pid}:{pid} [0] NCCL INFO Using network Socket\n"
VERSION = "gpu000{host}:{pid}:{pid} [0] NCCL INFO NCCL version {version}+cuda12.2\n"
INIT = (
    "gpu000{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x7f{pid} rank "
    "{rank} nranks {size} cudaDev 0 nvmlDev 0 busId 7000 commId {comm} - Init {phase}\n"
)


def log(rank, size=4, phases=("START",), version="2.27.5", comm="0xab"):
    who = {"host": 1 + rank // 2, "pid": 40 + rank}
    told = {"rank": rank, "size": size, "comm": comm}
    lines = [INIT.format(phase=phase, **told, **who) for phase in phases]
    return VERSION.format(version=version, **who) + "".join(lines)


def logs(ranks, **more):
    return {f"rank_{rank}.log": log(rank, **more) for rank in ranks}


def named(analysis):
    found = analysis.ranked.verdict
    return found and (found.slug, found.ranks)


def test_the_rank_without_start_did_not_come(analyzed):
    assert named(analyzed(logs([0, 1, 3]))) == ("missing-rank", (2,))


def test_a_rank_that_loaded_nccl_and_went_elsewhere_is_told_apart(analyzed):
    files = logs([0, 1, 3]) | logs([2], phases=())
    found = analyzed(files).ranked.verdict
    assert found.ranks == (2,)
    assert "loaded NCCL" in found.explanation


def test_before_2_23_start_comes_after_all_have_met(analyzed):
    assert named(analyzed(logs([0, 1, 3], version="2.21.5"))) is None


def test_all_that_began_and_did_not_end_is_nobodys_fault(analyzed):
    assert named(analyzed(logs(range(4)))) is None


def test_ranks_that_have_met_wait_for_something_else(analyzed):
    assert named(analyzed(logs([0, 1, 3], phases=("START", "COMPLETE")))) is None


def test_half_of_the_logs_accuse_nobody(analyzed):
    assert named(analyzed(logs([0, 1]))) is None


def test_a_log_cut_at_its_buffer_accuses_nobody(analyzed):
    files = logs([0, 1, 3])
    fill = "x" * 99 + "\n"
    files["rank_0.log"] = (files["rank_0.log"] + fill * 60)[:4096]
    assert named(analyzed(files)) is None


@pytest.mark.parametrize("end", ["", "Fatal Python error: Aborted\n"])
def test_a_stream_of_all_may_have_been_copied_in_part(analyzed, end):
    text = "".join(log(rank) for rank in (0, 1, 3)) + end
    assert (named(analyzed({"job.log": text})) is not None) == bool(end)


def test_a_second_job_in_the_folder_is_told_apart(analyzed):
    done = logs(range(4), phases=("START", "COMPLETE"))
    late = {f"b/{name}": text for name, text in logs([0, 1, 3], comm="0xcd").items()}
    late = {k: v.replace(":4", ":5") for k, v in late.items()}
    assert named(analyzed(done | late)) == ("missing-rank", (2,))


def using(rank):
    return USING.format(host=1 + rank // 2, pid=40 + rank)


def test_a_rank_that_chose_its_network_had_begun(analyzed):
    files = {name: text + using(int(name[5])) for name, text in logs([0, 1, 3]).items()}
    assert named(analyzed(files)) == ("missing-rank", (2,))
    files["b.log"] = using(2)
    assert named(analyzed(files)) is None


def test_a_log_of_the_missing_rank_that_is_cut_accuses_nobody(analyzed):
    files = logs([0, 1, 3]) | {"rank_2.log": "gpu0002:42:42 [0] NCCL INFO NCCL vers"}
    assert named(analyzed(files)) is None


def test_an_empty_log_of_the_missing_rank_accuses_nobody(analyzed):
    assert named(analyzed(logs([0, 1, 3]) | {"rank_2.log": ""})) is None


def test_two_of_three_are_too_few(analyzed):
    assert named(analyzed(logs([0, 1], size=3))) is None
