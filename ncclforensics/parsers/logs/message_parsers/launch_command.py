"""A command line that starts one node's part of a job, as a shell shows it.

`torchrun --nnodes=2 --nproc_per_node=1 --node_rank=1 train.py`, or the program with its
own `--world-size 2 --rank 1`. The node rank equals the rank only if the node starts one
process. That number is given explicitly, or by the number of visible GPUs.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("node_rank", "each", "rank", "host")
KINDS = {"node_rank": "int", "each": "int"}
_NODE = re.compile(r"--(?:node[_-]rank|machine[_-]rank|rank)[= ](\d{1,6})\b")
_EACH = re.compile(r"--(?:nproc[_-]per[_-]node|num[_-]gpus)[= ](\d{1,4})\b")
_GPUS = re.compile(r"\bCUDA_VISIBLE_DEVICES=(\d+(?:,\d+)*)\b")
_PROMPT = re.compile(r"^\[?(?P<user>[\w.-]+)@(?P<host>[\w.-]+)[ :]")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `node_rank`, `each` (processes per node), `rank` and `host`.

    Unknown values are null. A line without a unique node rank yields an empty list.
    """
    line = capped(text).partition("\n")[0]
    nodes = set(_NODE.findall(line))
    if len(nodes) != 1:
        return []
    said = _EACH.search(line)
    seen = _GPUS.search(line)
    each = int(said[1]) if said else seen[1].count(",") + 1 if seen else None
    node = int(nodes.pop())
    prompt = _PROMPT.match(line)
    return [
        {
            "node_rank": node,
            "each": each,
            "rank": node if each == 1 else None,
            "host": prompt["host"] if prompt else None,
        }
    ]
