"""NVRx's scores of GPUs against the others: below a heading, the worst or all.

`  Worst performing 5/16 ranks:` and below it `    Rank=14 Node=gpu0002 Score=0.87`, one
or several in a line; 1 is as quick as the quickest.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("of_rank", "on", "score_pct", "below")
KINDS = {"of_rank": "int", "score_pct": "int", "below": "int"}
_HEAD = re.compile(r"\s*Worst performing \d{1,7}/\d{1,7} ranks:\s*$", re.ASCII)
_RANK = re.compile(
    r"Rank=(\d{1,7}) Node=(\S{1,253}) Score=(\d(?:\.\d{1,9})?)(?=\s|$)", re.ASCII
)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row a rank: `of_rank`, its host `on`, `score_pct`, `below`.

    The last is how many lines below the first one it stands. The list ends at the
    first line of another form, as that above the best: between the worst and these
    are others.
    """
    rows: list[dict[str, object]] = []
    for below, line in enumerate(capped(text).splitlines()[1:], 1):
        told = _RANK.findall(line)
        if not told and _HEAD.match(line) is None:
            break
        rows += (
            {
                "of_rank": int(rank),
                "on": host,
                "score_pct": round(100 * float(score)),
                "below": below,
            }
            for rank, host, score in told
        )
    return rows
