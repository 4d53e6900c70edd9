"""The hosts of a job as DeepSpeed's launcher names them, in the order of their ranks.

`WORLD INFO DICT: {'a': [0, 1], 'b': [0, 1]}` lists the GPUs of each host, and so does
the base64 text of `--world_info=`; `global_rank_mapping` lists their ranks. In all of
them ranks are counted host by host, in this order (DeepSpeed 0.3 to 0.18, launch.py).
"""

from __future__ import annotations

import ast
import base64
import binascii
import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("on", "first", "turn")
KINDS = {"first": "int", "turn": "int"}
_TABLE = re.compile(r"\{[^{}]*\}")
_CODED = re.compile(r"--world_info=([\w+/=-]+)")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per rank: its host `on`, its number `first`, its local rank."""
    line = capped(text).partition("\n")[0]
    if coded := _CODED.search(line):
        try:
            line = base64.urlsafe_b64decode(coded[1]).decode()
        except (binascii.Error, UnicodeDecodeError):
            return []
    table = _TABLE.search(line)
    try:
        hosts = ast.literal_eval(table[0]) if table else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    places = [
        (host, turn)
        for host, gpus in hosts.items()
        if isinstance(host, str) and isinstance(gpus, list)
        for turn in range(len(gpus))
    ]
    return [
        {"on": host, "first": rank, "turn": turn}
        for rank, (host, turn) in enumerate(places)
    ]
