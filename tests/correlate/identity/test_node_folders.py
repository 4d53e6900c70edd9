"""Folders and files of one node each are named by nobody but themselves."""

import pytest

from log_lines import timeout, traceback


def hosts(analysis):
    known = analysis.frames["ranks"].drop_nulls("host")
    return dict(known.select("rank", "host").iter_rows())


def job(folder, ranks=8, missing=()):
    """Each rank logs into the folder that `folder` gives it; rank 5 raises."""
    return {
        f"{folder(rank)}/rank_{rank}.log": traceback(5, "ValueError: bad batch")
        if rank == 5
        else timeout(rank)
        for rank in range(ranks)
        if rank not in missing
    }


def test_folders_with_a_block_of_ranks_each_are_nodes(analyzed):
    analysis = analyzed(job(lambda rank: f"node{rank // 4}"))
    assert hosts(analysis) == {rank: f"node{rank // 4}" for rank in range(8)}
    assert analysis.ranked.verdict.hosts == ("node1",)


def test_a_file_that_was_not_collected_hides_no_node(analyzed):
    found = hosts(analyzed(job(lambda rank: f"logs/h{rank // 4}/fr", missing=(6,))))
    assert (found[5], found[7]) == ("h1", "h1")


def test_folders_of_nodes_are_found_below_two_looks(analyzed):
    looks = job(lambda rank: f"first/n{rank // 4}"), job(lambda rank: f"n{rank // 4}")
    found = hosts(analyzed(looks[0] | {f"second/{n}": t for n, t in looks[1].items()}))
    assert found == {rank: f"n{rank // 4}" for rank in range(8)}


@pytest.mark.parametrize(
    "folder",
    [
        lambda rank: f"stage{rank // 4}",  # of a pipeline
        lambda rank: f"{rank // 4}",
        lambda rank: f"nccl_trace_{'ab'[rank // 4]}",  # what the dumps are called
        lambda rank: f"node{rank % 2}",  # in turns: which ranks, no line tells
        lambda rank: f"box{rank}",  # one rank each
        lambda rank: "node0",
    ],
    ids=["stages", "numbers", "dumps", "in turns", "one each", "one folder"],
)
def test_other_folders_are_no_nodes(analyzed, folder):
    assert hosts(analyzed(job(folder))) == {}


def together(name, ranks=8):
    """The ranks of a node share the file that `name` gives them; rank 5 raises."""
    files = {}
    for rank in range(ranks):
        said = traceback(5, "ValueError: x") if rank == 5 else timeout(rank)
        files[name(rank)] = files.get(name(rank), "") + said
    return files


@pytest.mark.parametrize("beside", [{}, {"fr/nccl_trace_rank_0.log": timeout(0)}])
def test_files_with_a_block_of_ranks_each_are_named_by_their_nodes(analyzed, beside):
    logs = together(lambda rank: f"logs/h100-r3-n{rank // 4}.log")
    found = hosts(analyzed(beside | logs))
    assert found == {rank: f"h100-r3-n{rank // 4}" for rank in range(8)}


@pytest.mark.parametrize(
    "rest", [".pyspy.txt", ".nccl_trace_rank_{}", ".comm_lib_trace_rank_{}.log"]
)
def test_the_kind_of_a_file_is_no_part_of_the_name_of_its_node(analyzed, rest):
    logs = together(lambda rank: f"spy/c0{rank // 4}{rest.format(rank)}")
    found = hosts(analyzed(logs))
    assert found == {rank: f"c0{rank // 4}" for rank in range(8)}


def test_a_node_stands_in_front_of_the_rank_in_the_name_of_a_file(analyzed):
    files = {
        f"st/moe-{'ab'[rank // 4]}_rank{rank}_pid{70 + rank}.txt": timeout(rank)
        for rank in range(8)
    }
    assert hosts(analyzed(files)) == {
        rank: f"moe-{'ab'[rank // 4]}" for rank in range(8)
    }


@pytest.mark.parametrize(
    "name",
    [
        lambda rank: f"logs/stage{rank // 4}.log",
        lambda rank: f"logs/dump-tp{rank // 4}.log",
        lambda rank: f"logs/my_job{rank // 4}.log",  # no host name has an underscore
        lambda rank: f"logs/box{rank % 2}.log",
        lambda rank: "logs/box0.log",
    ],
    ids=["stages", "parts of a job", "an underscore", "in turns", "one file"],
)
def test_other_files_are_no_nodes(analyzed, name):
    assert hosts(analyzed(together(name))) == {}
