"""One GPU of nvidia-smi's table: whether the driver can read its values.

|   1  NVIDIA H100 80GB HBM3     On  |   00000000:3B:00.0 Off |              ERR! |
|ERR!  ERR! ERR!       ERR! / ERR!   |   70123MiB /  81559MiB |    ERR!   Default |
"""

from __future__ import annotations

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("unread",)
KINDS = {"unread": "int"}


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `unread`: how many values are `ERR!`; none if all are there."""
    first, *below = capped(text).splitlines() or [""]
    # the memory in use begins no line of the next GPU
    mine = [first, *(line for line in below if "00000000:" not in line)]
    unread = "\n".join(mine).count("ERR!")
    return [{"unread": unread}] if unread else []
