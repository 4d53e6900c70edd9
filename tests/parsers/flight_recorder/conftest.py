"""What torch writes on a machine without a GPU, in one start for all tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from known_jobs import once

PROGRAM = """
import sys, torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
where = sys.argv[1]
store = f"file://{where}/store"
dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
def train():
    dist.all_reduce(torch.ones(4, 8))
    dist.all_gather([torch.tensor([0, 0, 0])], torch.tensor([1, 2, 3]))
for step in range(6):
    train()
while True:  # Gloo's own thread still marks the last calls as retired
    decoded, pickled = _dump_fr_trace_json(), _dump_fr_trace()
    if decoded == _dump_fr_trace_json():
        break
open(f"{where}/rank_0", "wb").write(pickled)
text = decoded if isinstance(decoded, str) else decoded.decode()
open(f"{where}/rank_0.json", "w").write(text)
for step in range(30):
    dist.all_reduce(torch.ones(4, 8))
open(f"{where}/reduced", "wb").write(_dump_fr_trace())
"""


@pytest.fixture(scope="session")
def torch_dumps(tmp_path_factory):
    """The bytes of `rank_0` and `rank_0.json`, a dump of the last 10 of 12 calls in two
    forms, and of `reduced`, one of 10 calls of one line each time."""

    def make():
        where = tmp_path_factory.mktemp("torch")
        env = {"TORCH_FR_BUFFER_SIZE": "10", "PATH": "", "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, "-c", PROGRAM, str(where)]
        subprocess.run(command, check=True, env=env)
        names = ("rank_0", "rank_0.json", "reduced")
        return {name: Path(where, name).read_bytes() for name in names}

    return once("torch", make)
