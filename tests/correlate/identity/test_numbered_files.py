"""A file's number is a rank only if the files beside it say so."""

import itertools
import json

import pytest


@pytest.fixture
def ranks_of(analyzed):
    """Return {file: rank} of some files."""

    def run(files):
        return dict(
            analyzed(files).frames["sources"].select("source", "rank").iter_rows()
        )

    return run


def said(rank):
    return f"[rank{rank}]: ValueError: no rows\n"


def test_the_number_of_a_silent_file_is_its_rank_if_two_others_confirm_it(ranks_of):
    files = {f"train-5071_{n}.out": said(n) for n in range(2)}
    found = ranks_of({**files, "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] == 2


def test_one_other_file_is_not_enough(ranks_of):
    found = ranks_of({"train-5071_0.out": said(0), "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] is None


def test_a_number_that_is_not_the_rank_of_another_file_tells_nothing(ranks_of):
    files = {f"train-5071_{n}.out": said(n + 8) for n in range(2)}
    found = ranks_of({**files, "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] is None


def test_files_of_several_ranks_are_of_none(ranks_of):
    files = {f"train-5071_{n}.out": said(n) + said(n + 4) for n in range(2)}
    found = ranks_of({**files, "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] is None


def test_the_number_may_be_that_of_a_folder(ranks_of):
    files = {f"out/{n}/err": said(n) for n in range(2)}
    found = ranks_of({**files, "out/2/err": "hello\n"})
    assert found["out/2/err"] == 2


def stack(pid, place="train (train.py:9)"):
    """Return what py-spy prints of one process."""
    return (
        f"Process {pid}: python train.py\nPython v3.11.9 (/usr/bin/python3.11)\n\n"
        f'Thread {pid} (idle): "MainThread"\n    {place}\n    <module> (train.py:20)\n'
    )


def test_stacks_of_one_process_each_are_numbered_by_rank(ranks_of):
    files = {f"spy_{n}.txt": stack(100 + n) for n in range(4)}
    assert ranks_of(files) == {f"spy_{n}.txt": n for n in range(4)}


@pytest.mark.parametrize(
    "numbers",
    [
        (1, 2, 3, 4),  # perhaps counted from 1, perhaps without that of rank 0
        (0, 1, 3),
        (0, 1),
    ],
)
def test_stacks_with_a_gap_in_their_numbers_are_of_no_rank(ranks_of, numbers):
    found = ranks_of({f"spy_{n}.txt": stack(100 + n) for n in numbers})
    assert set(found.values()) == {None}


def test_several_stacks_of_one_process_are_looks_and_no_ranks(ranks_of):
    found = ranks_of({f"spy_{n}.txt": stack(100) for n in range(4)})
    assert set(found.values()) == {None}


def dump(rank):
    told = {"version": "2.9", "rank": rank, "pg_config": {}, "pg_status": {}}
    return json.dumps(told | {"entries": []})


@pytest.mark.parametrize(("logs", "ranks"), [(4, [0, 1, 2, 3]), (3, []), (5, [])])
def test_files_numbered_as_all_ranks_that_left_dumps_are_of_these(
    ranks_of, logs, ranks
):
    """Fewer may be of nodes, or of restarts."""
    dumps = {f"fr_rank_{rank}.json": dump(rank) for rank in range(4)}
    files = {f"logs/client_{n}.log": "step 3\n" for n in range(logs)}
    found = ranks_of(dumps | files)
    told = [found[name] for name in files if found[name] is not None]
    assert told == ranks


def through(folders, each, name="h{}/worker-{:03}.txt"):
    """Return files that are numbered through several folders."""
    files = itertools.product(range(folders), range(each))
    return {name.format(f, f * each + n): "hello\n" for f, n in files}


def test_files_numbered_through_the_folders_of_hosts_are_of_ranks(ranks_of):
    found = ranks_of(through(2, 3))
    assert [found[file] for file in sorted(found)] == [*range(6)]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(through(4, 1), id="one a folder, as of nodes"),
        pytest.param(through(1, 4), id="one folder"),
        pytest.param(through(2, 3, "h{0}/worker-{1}0.txt"), id="with gaps"),
        pytest.param(
            {f"h{f}/{n}.txt": "hello\n" for f in range(2) for n in range(3)},
            id="each from 0",
        ),
        pytest.param(through(2, 2) | {"h1/worker-003.txt": said(7)}, id="one is not"),
    ],
)
def test_other_numbers_in_folders_tell_no_rank(ranks_of, files):
    found = ranks_of(files)
    assert {found[file] for file in found if files[file] == "hello\n"} == {None}


def test_beside_the_files_of_other_ranks_the_one_without_a_number_is_rank_0s(ranks_of):
    """As detectron2 names them; with a file of rank 0, it is somebody else's."""
    files = {"log.txt": "hello\n", **{f"log.txt.rank{n}": said(n) for n in (1, 2)}}
    assert ranks_of(files)["log.txt"] == 0
    assert ranks_of({**files, "log.txt.rank0": said(0)})["log.txt"] is None


def steps(rank):
    return "".join(
        f"step {n} forward {0.1 * n:.3f} s sync {0.2 + rank:.3f} s\n" for n in range(9)
    )


def test_files_of_numbered_nodes_are_numbered_through(ranks_of):
    places = list(itertools.product(range(3), range(2)))
    files = {f"pods/job-worker-{n}/proc-{k}.log": steps(n) for n, k in places}
    found = ranks_of(files)
    for n, k in places:
        assert found[f"pods/job-worker-{n}/proc-{k}.log"] == 2 * n + k


def test_files_that_are_numbered_anew_on_each_host_tell_no_rank(ranks_of):
    hosts = ("ip-10-4-31-118", "ip-10-4-38-118")
    files = {f"out/{h}/job{n}.out": steps(n) for h in hosts for n in range(4)}
    assert {*ranks_of(files).values()} == {None}


def test_a_process_may_say_its_number_and_how_many_there_are(ranks_of):
    told = "1 device per process.Process {}, total 8, device cuda:{}.\n"
    hosts = {"ip-10-4-38-118": 0, "ip-10-4-31-118": 4}  # not in the order of names
    files = {
        f"out/{h}/local{n}.out": told.format(first + n, n) + steps(n)
        for h, first in hosts.items()
        for n in range(4)
    }
    found = ranks_of(files)
    assert found["out/ip-10-4-31-118/local2.out"] == 6


def test_one_number_may_stand_in_a_name_twice(ranks_of):
    found = ranks_of({f"replica_{n}@site{n}.log": steps(n) for n in range(4)})
    assert found["replica_3@site3.log"] == 3
