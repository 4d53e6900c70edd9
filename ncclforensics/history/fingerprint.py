"""When two failures are the same one again, whoever it hit.

Same class, same call, same place in the code, same words of the error. Ranks, hosts,
addresses and numbers are left out, and so are line numbers: they move with each commit.
The number of an Xid, an errno, a signal or an exit code is a word of the error.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.report.contract import Verdict

_CODE = r"\b(?:S?Xid|errno|[Ss]ignal|[Ee]xit code|CUDA error|code) \d+"
_NUMBER = (
    r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{2,}(?::[0-9a-fA-F]+)+(?:\.\d)?"
    r"|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+(?:[.,:/-]\d+)*"
)
_TOLD = re.compile(rf"({_CODE})|{_NUMBER}")
_LINE = re.compile(r":\d+")
_PLURAL = re.compile(r"\b(rank|host|node|parameter)s\b")


def fingerprint(verdict: Verdict, hosts: Iterable[str]) -> str:
    """Return sixteen hex digits of the failure's kind; `hosts` are those of the job."""
    call = verdict.collective
    parts = (
        verdict.slug,
        "" if call is None else call.op or "",
        "" if call is None else call.process_group_desc or "",
        _LINE.sub("", call_site(verdict) or ""),
        without_numbers(verdict.headline, {*hosts, *verdict.culprits.hosts}),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def call_site(verdict: Verdict) -> str | None:
    """Return the place in the code of the call that failed, if it is known."""
    return None if verdict.collective is None else verdict.collective.call_site


def without_numbers(text: str, hosts: Iterable[str] = ()) -> str:
    """Return an error's words: hosts are HOST, numbers and addresses are #."""
    shapes = {re.sub(r"\\?\d+", "#", re.escape(h)) for h in hosts if h}
    for shape in sorted(shapes, key=lambda s: (-len(s), s)):
        # also in a folded set: gpu[0001-0004,0007]
        any_number = shape.replace("#", r"(?:\d+|\[[\d,-]+\])")
        text = re.sub(
            rf"(?<![\w.-]){any_number}(?:\.[a-z][\w.-]*)?(?![\w-])", "HOST", text
        )
    text = _TOLD.sub(lambda found: found[1] or "#", text)
    return re.sub(r"\bHOST(?:, HOST)+\b", "HOST", _PLURAL.sub(r"\1", text))
