"""The ranks that a person names in front of what they all did: `Ranks 0-2,5 timed out`.

They are ranks of the job, as people count them, not of a group.
"""

from __future__ import annotations

from ncclforensics.parsers.logs.message_parsers import rank_set

COLUMNS = ("rank",)
refuses = rank_set.refuses


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `rank` per rank of the first set in `text`."""
    return [{"rank": rank} for rank in rank_set.ranks(text)]
