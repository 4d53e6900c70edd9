"""What a row of each frame is: for `help()` and the documentation.

`tables.SCHEMAS` has the columns, and comments on single ones.
"""

from __future__ import annotations

from ncclforensics.model.tables import SCHEMAS

ROWS = {
    "sources": "a file of the evidence: what it is and why, whose it is",
    "events": "a log line that a grammar knows",
    "ranks": "a rank: its host, process and GPU",
    "groups": "a process group as one rank lists it; members are global ranks",
    "collectives": "one call of one rank, from dumps and COLL logs",
    "positions": "how far a rank came in a group, as a log line tells it",
    "stacks": "a frame of a stack; depth 0 is the innermost",
    "exits": "a process that ended; code as Python spells it (-9 is SIGKILL)",
    "standings": "how far a rank came in a group, all evidence together",
    "calls": "a call that blocks some rank, and the state of each member in it",
    "roots": "a rank that others wait for and that waits for none",
    "looks": "whether a rank moved between two observations",
    "lateness": "how much longer than its peers a rank worked in a slice of its time",
    "others": "a job or attempt that was left out of this analysis",
    "unread_calls": "calls of one communicator in a log, counted and not read",
    "last_lines": "of a dataset: the last line of a log above its first trouble",
    "notes": "what was damaged, skipped or assumed",
    "entries": "a call of a dump: the fields of its own",
    "templates": "the fields that many calls of a dump share",
    "outline": "calls of dumps that stand for all: unfinished, first, last, extreme",
    "held": "a call that may block a rank, the most likely first (choice 0)",
    "group_names": "the group that a rank means by a name or number",
}


def described() -> str:
    """Return all frames as text: what a row is, and each column with its type."""
    parts = []
    for name, schema in SCHEMAS.items():
        columns = "\n".join(f"    {c:<18}{dtype!s}" for c, dtype in schema.items())
        parts.append(f"{name}: {ROWS[name]}\n{columns}")
    return "\n\n".join(parts)
