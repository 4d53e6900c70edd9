"""What pdsh puts in front of a line is a host's whole name; what looks so is none."""

import polars as pl
import pytest

from ncclforensics.parsers.logs import framing


def framed(line):
    return framing.frame(pl.DataFrame({"line": [1], "raw": [line]})).row(0, named=True)


def test_a_whole_name_of_a_host_is_peeled_off():
    told = framed("trn2.hpc.uni.edu: [rank12]: torch.OutOfMemoryError: CUDA")
    assert (told["host"], told["rank"]) == ("trn2.hpc.uni.edu", 12)
    assert told["text"] == "torch.OutOfMemoryError: CUDA"


@pytest.mark.parametrize(
    "line",
    [
        "libnccl2.so: cannot open shared object file",
        "libcudart12.so.12: cannot open shared object file",
        "torch.distributed.elastic: started",
        "train2.py: error: argument --lr",
    ],
)
def test_a_file_or_a_module_is_no_host(line):
    assert framed(line)["host"] is None


def habit(*lines):
    raw = pl.DataFrame({"line": range(1, len(lines) + 1), "raw": lines})
    return framing.frame(raw)


def test_a_short_name_in_front_of_torchs_own_prefix_is_a_host():
    told = habit("box-a: step 1", "box-a: step 2", "box-a: [rank6]: RuntimeError: x")
    assert told["host"].to_list() == ["box-a"] * 3
    assert told["rank"].to_list() == [None, None, 6]
    assert told["text"].to_list() == ["step 1", "step 2", "RuntimeError: x"]


@pytest.mark.parametrize(
    "last",
    [
        "train: step 3",  # a logger's name, not a host's
        "[rank6]: RuntimeError: x",
        "other: prefix: [rank6]: RuntimeError: x",
    ],
)
def test_a_name_alone_in_front_of_each_line_is_no_host(last):
    """Nor is a task of srun, whatever stands behind its number."""
    tasks = habit(*(f"{n}: [rank{n}]: RuntimeError: x" for n in range(3)))
    assert tasks["host"].null_count() == 3
    told = habit("train: step 1", "train: step 2", last)
    assert told["host"].null_count() == 3


def test_a_pid_in_front_of_the_lines_of_a_file_is_peeled_off():
    lines = [f"({4121 + n % 2}) [rank{n % 2}]: step {n}" for n in range(6)]
    told = habit(*lines)
    assert told["pid"].to_list() == [4121, 4122] * 3
    assert told["rank"].to_list() == [0, 1] * 3
    assert told["text"].to_list() == [f"step {n}" for n in range(6)]


def test_numbers_of_a_list_are_no_pids():
    told = habit(*(f"({n}) check the cable" for n in range(1, 7)))
    assert told["pid"].null_count() == 6
    assert told["text"][0] == "(1) check the cable"


def test_one_line_of_each_host_shows_the_names_as_well():
    told = habit("box-a: [rank6]: x", "box-b: [rank8]: y", "box-c: [rank1]: z")
    assert told["host"].to_list() == ["box-a", "box-b", "box-c"]
