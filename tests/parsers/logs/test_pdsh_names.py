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
