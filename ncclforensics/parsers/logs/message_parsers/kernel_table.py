"""A table of torch.profiler: what the GPU did, a row a kernel or operation.

    ------------  ------------  ------------  ------------
            Name     Self CUDA    CUDA total    # of Calls
    ------------  ------------  ------------  ------------
    ncclDevKernel…   1551.044ms    1551.044ms            40

`key_averages().table()` of torch/autograd/profiler_util.py; which columns there are
depends on what was recorded. The name may hold blanks, no other cell does.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("kernels_us", "nccl_us")
KINDS = {"kernels_us": "float", "nccl_us": "float"}
GPU = ("Self CUDA", "Self XPU", "CUDA total", "XPU total")  # the best first
_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(us|ms|s)")
_US = {"us": 1.0, "ms": 1e3, "s": 1e6}
_RULE = re.compile(r"[-\s]+$")
_COLUMN = re.compile(r"\S+(?: \S+)*")
NCCL = re.compile(r"nccl|rccl", re.IGNORECASE)
# marks that hold the time of what is listed beside them
RANGES = re.compile(r"ProfilerStep|nccl:|Optimizer\.|enumerate\(|## ")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: microseconds of all kernels but NCCL's, and of NCCL's.

    None without a column of GPU times, or without NCCL's kernels.
    """
    lines = [line for line in capped(text).splitlines() if not _RULE.match(line)]
    if not lines:
        return []
    names = _COLUMN.findall(lines[0])
    column = next((names.index(name) for name in GPU if name in names), None)
    if column is None:
        return []
    took = {True: 0.0, False: 0.0}
    for line in lines[1:]:
        cells = line.rsplit(None, len(names) - 1)
        if len(cells) < len(names):
            break
        time = _TIME.fullmatch(cells[column])
        if time is not None and not RANGES.search(cells[0]):
            took[NCCL.search(cells[0]) is not None] += float(time[1]) * _US[time[2]]
    return [{"kernels_us": took[False], "nccl_us": took[True]}] if took[True] else []
