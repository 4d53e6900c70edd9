"""Megatron's times across ranks: below the name of a part of a step, a line a rank.

`  forward-compute:` and below it `     rank  0: 812.20`, milliseconds each. Ranks whose
timer was not used are left out.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("timer", "of_rank", "took_us", "below")
KINDS = {"of_rank": "int", "took_us": "int", "below": "int"}
_NAME = re.compile(r"\s*([A-Za-z][\w-]{0,63}):\s*$", re.ASCII)
_RANK = re.compile(r"\s*rank\s{1,8}(\d{1,7}): (\d{1,12}(?:\.\d{1,6})?)\s*$", re.ASCII)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row a rank and timer: `timer`, `of_rank`, `took_us`, `below`.

    That is how many lines below the first one the rank stands.

    The list ends at the first line of another form.
    """
    rows: list[dict[str, object]] = []
    timer = None
    for below, line in enumerate(capped(text).splitlines()[1:], 1):
        if (rank := _RANK.match(line)) is not None and timer is not None:
            of_rank, took = int(rank[1]), round(1000 * float(rank[2]))
            rows.append(
                {"timer": timer, "of_rank": of_rank, "took_us": took, "below": below}
            )
        elif (name := _NAME.match(line)) is not None:
            timer = name[1]
        else:
            break
    return rows
