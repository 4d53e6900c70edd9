"""`Rendezvous complete for workers. Result:` of torchelastic's agent (INFO).

Its lines are `name=value`. `local_ranks` and `global_ranks` are lists of equal length
that map each local rank of this host to its global rank; `restart_count` is the
attempt.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.message_parsers.rank_set import ranks, refuses_one

refuses = refuses_one
COLUMNS = ("local_rank", "rank", "attempt", "node", "nodes", "master")
_LINE = pp.Word(pp.alphas + "_")("name") + pp.Suppress("=") + pp.Regex(r".*")("value")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per worker of the agent: `local_rank`, `rank`, `attempt`, `node`.

    `node` is the rank of the agent among the agents, `nodes` their number, and `master`
    the address where rank 0 serves its store. Lists of unequal length yield no rows.
    """
    told: dict[str, str] = {}
    for line in capped(text).splitlines()[1:]:
        try:
            found = _LINE.parse_string(line)
        except pp.ParseException:
            break
        told[found["name"]] = found["value"]
    local, world = (
        ranks(told.get("local_ranks", "")),
        ranks(told.get("global_ranks", "")),
    )
    if not local or len(local) != len(world):
        return []
    attempt, node, nodes = (
        next(iter(ranks(told.get(name, ""))), None)
        for name in ("restart_count", "group_rank", "group_world_size")
    )
    met: dict[str, object] = {"attempt": attempt, "node": node, "nodes": nodes}
    met["master"] = told.get("master_addr")
    return [
        {"local_rank": one, "rank": rank, **met}
        for one, rank in zip(local, world, strict=True)
    ]
