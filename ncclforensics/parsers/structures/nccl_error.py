"""What follows torch's `NCCL error in: …`: the class of the error and NCCL's last words.

`ncclRemoteError: A call failed …`, then `Last error:` and the text of the last WARN of
the process, which may belong to another communicator or be older than the failure.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.structures.limits import capped

_CLASS = pp.Combine("nccl" + pp.Word(pp.alphas))
_EXPLAINED = (
    _CLASS("error_class") + pp.Suppress(":") + pp.Regex(r"[^\n]*")("explanation")
)
_LAST = pp.Suppress("Last error:") + pp.Regex(r"[^\n]*")("last_error")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `error_class`, `explanation`, `last_error`, null where not told."""
    text = capped(text)
    row: dict[str, object] = dict.fromkeys(
        ("error_class", "explanation", "last_error"), None
    )
    for element in (_EXPLAINED, _LAST):
        for found, _, _ in element.scan_string(text, max_matches=1):
            row.update({k: str(v).strip() or None for k, v in found.as_dict().items()})
    return [row]
