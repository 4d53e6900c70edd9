"""Horovod's list under `Missing ranks:`: the ranks that others wait for.

`3: [allreduce.conv1.weight, allreduce.fc.bias ...]`: rank 3 did not submit these
tensors; a `!` after the number means that Horovod gave up waiting. It prints a few
tensors of each rank, and dots in place of the rest.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("missing", "tensor", "given_up")
# hydra's `-l` prefixes each line with the printing rank
_OF_HYDRA = pp.Suppress(pp.Optional(pp.Regex(r"\[\d{1,9}\](?= )")))
_LINE = (
    _OF_HYDRA
    + pp.Regex(r"\d{1,6}")("missing")
    + pp.Optional("!")("given_up")
    + pp.Suppress(pp.Literal(": ["))
    + pp.Regex(r"[^\s,\]]+")("tensor")
)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row for each rank listed: `missing`, its first `tensor`, `given_up`.

    The list ends at the first line of another form.
    """
    rows: list[dict[str, object]] = []
    for line in capped(text).splitlines()[1:]:
        if not _LINE.matches(line, parse_all=False):
            break
        told = _LINE.parse_string(line).as_dict()
        rows.append(
            {
                "missing": int(told["missing"]),
                "tensor": told["tensor"],
                "given_up": "given_up" in told,
            }
        )
    return rows
