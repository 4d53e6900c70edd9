"""`Starting elastic_operator with launch configs:` of torchelastic's agent (INFO).

Below it is one `name : value` per line, with values as Python prints them: the
requested number of nodes, the run id, and the rendezvous endpoint.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("min_nodes", "max_nodes", "run_id", "rdzv_backend", "rdzv_endpoint")
WANTED = ("min_nodes", "max_nodes", "run_id", "rdzv_backend", "rdzv_endpoint")
_LINE = pp.Word(pp.alphas + "_")("name") + pp.Suppress(":") + pp.Regex(r".*")("value")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `min_nodes` and `max_nodes` as integers, the rest as printed.

    The list is empty if no line of the table is there.
    """
    told: dict[str, str] = {}
    for line in capped(text).splitlines()[1:]:
        try:
            found = _LINE.parse_string(line)
        except pp.ParseException:
            break
        told[found["name"]] = found["value"].strip()
    if not told:
        return []
    row: dict[str, object] = {name: told.get(name) for name in WANTED}
    for name in ("min_nodes", "max_nodes"):
        count = told.get(name, "")
        row[name] = int(count) if count.isdecimal() and len(count) < 7 else None
    return [row]
