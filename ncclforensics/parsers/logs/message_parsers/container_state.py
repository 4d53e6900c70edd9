"""How a container ended, below its `State: Terminated` in `kubectl describe pod`.

    State:          Terminated
      Reason:       Error
      Exit Code:    137
      Started:      Fri, 20 Nov 2026 10:00:00 +0000
      Finished:     Fri, 20 Nov 2026 10:12:44 +0000

Some releases print the times as ISO 8601. Rendered from kubectl's describe.go.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("code", "t")
_CODE = re.compile(r"(?m)^\s+Exit Code: +(?P<code>[1-9]\d{0,2})\s*$")
_ENDED = re.compile(r"(?m)^\s+Finished: +(?P<at>\S[^\n]{0,40}?)\s*$")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `code` and `t`; an empty list if the container ended well."""
    code, ended = _CODE.search(capped(text)), _ENDED.search(capped(text))
    if not code:
        return []
    return [{"code": int(code["code"]), "t": _time(ended["at"] if ended else "")}]


def _time(text: str) -> datetime | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            told = read(text)
        except ValueError:
            continue
        return told.replace(tzinfo=told.tzinfo or UTC)
    return None
