"""The lines below an `ncclras` heading: ranks' progress, and ranks that do not answer.

A heading is `#0-0 (27a079b828ff1a75) MISMATCH` for one communicator, `INCOMPLETE` or
`DEAD` for processes. Below it NCCL counts `N ranks have launched up to operation K` and
then lists them; since 2.28 per operation, and a single rank gets a line of its own.
Groups that are too large to be outliers are counted but not listed.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = (
    *("kind", "op", "operation", "ranks", "comm_rank", "gpu", "process", "node"),
    "said_at",
)
KINDS = dict.fromkeys(("operation", "ranks", "comm_rank", "process"), "int")
_NUMBER = pp.Word(pp.nums, max=18).set_parse_action(lambda found: int(found[0]))
_RANKS = pp.Suppress(pp.one_of("ranks rank"))
_GPU = pp.Suppress("GPU") + pp.Regex(r"[\d,]+(?: \(NVML [\d,]+\))?")("gpu")
_OWNER = (
    pp.Suppress("managed by process")
    + _NUMBER("process")
    + pp.Suppress("on node")
    + pp.Word(pp.printables)("node")
)
_PLACE = pp.Opt(pp.Suppress("--") + _GPU + _OWNER)
_LAUNCHED = pp.Suppress(pp.Keyword("have") | pp.Keyword("has")) + (
    pp.Suppress("launched up to operation") + _NUMBER("operation")
    | pp.Literal("not launched any operations").set_parse_action(lambda: 0)("operation")
)
_MANY = _NUMBER("ranks") + _RANKS + _LAUNCHED
_ONE = pp.Suppress("Rank") + _NUMBER("comm_rank") + pp.Opt(_LAUNCHED) + _PLACE
_MISSING = pp.Suppress(
    pp.Literal("The missing rank") + pp.Opt("s") + pp.Literal(":")
) + pp.DelimitedList(_NUMBER)("missing")
_DIFFERENT = (
    pp.Suppress("Communicator ranks have different")
    + pp.Word(pp.alphas)("op")
    + pp.Suppress("operation counts")
)
_PROCESS = (
    pp.Suppress("Process")
    + _NUMBER("process")
    + pp.Suppress("on node")
    + pp.Word(pp.printables)("node")
    + pp.Opt(
        pp.Suppress("managing") + (_GPU | pp.Suppress("GPUs") + pp.Regex(r"\S+")("gpu"))
    )
)
_LOST = (
    pp.Suppress("Missing communicator data from")
    + _NUMBER
    + pp.Regex(r"job process|rank")
)
_LINE = _DIFFERENT | _LOST("lost") | _MISSING | _MANY | _PROCESS | _ONE


def parse(text: str) -> list[dict[str, object]]:
    """Return rows of COLUMNS, in line order; `said_at` is the line of `text`, from 0.

    `kind` is "count" (`ranks` members, or member `comm_rank`, launched `operation`
    calls of `op`), "missing" (a member does not answer) or "process" (a whole process).
    """
    rows: list[dict[str, object]] = []
    op, operation, kind = None, None, "count"
    for at, line in enumerate(capped(text).splitlines()[1:], 1):
        try:
            found = _LINE.parse_string(line).as_dict()
        except pp.ParseException:
            if line.strip().endswith("unreachable via the RAS network)"):
                continue
            break
        if "op" in found:
            op, kind = (None if found["op"] == "collective" else found["op"]), "count"
        elif "lost" in found:
            kind = "missing"
        elif "missing" in found:
            rows += [
                {"kind": "missing", "comm_rank": rank, "said_at": at}
                for rank in found["missing"]
            ]
        elif "comm_rank" in found or "ranks" in found:
            operation = found.pop("operation", operation)
            known = {"op": op, "operation": operation} if kind == "count" else {}
            rows.append({"kind": kind, **known, **found, "said_at": at})
        else:
            rows.append({"kind": "process", **found, "said_at": at})
    return [dict.fromkeys(COLUMNS) | row for row in rows]
