"""The exit code below the line in which a launcher names a process.

Open MPI prints `Exit code:    139`, SGLang Python's `Exit code: -9` behind the time.
MPICH's hydra prints `=   EXIT CODE: 11`, where the number of a fatal signal means that
signal: programs do not return it by themselves.
"""

from __future__ import annotations

import re
import signal

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("code",)
_CODE = re.compile(
    r"(?im)^(?P<hydra>=)?(?:\[[^\]\n]{1,40}\])?[ \t]*exit code:[ \t]+"
    r"(?P<code>-?\d{1,3})[ \t\r]*$"
)
SIGNALS = (
    *(signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE),
    *(signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM),
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `code` (negative: the signal), or an empty list."""
    found = _CODE.search(capped(text))
    if not found:
        return []
    code = int(found["code"])
    return [{"code": -code if found["hydra"] and code in SIGNALS else code}]
