"""`dcgmi diag --json`: which tests failed, and on which GPUs.

    {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Integration", "tests":
        [{"name": "PCIe", "results": [{"gpu_ids": "3", "status": "Fail", …

DCGM 2 and 3 name GPUs as `gpu_ids` or `gpu_id`, DCGM 4 as `entity_id`. NVIDIA promises
no schema, so names and statuses are read in their order, also of a text that is cut.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("test", "which")
_TOKEN = re.compile(
    r'"(?P<key>name|gpu_ids?|entity_id|status|results)"\s*:\s*'
    r'(?:"(?P<text>[^"]{0,200})"|(?P<number>[0-9]{1,6})|\[)'
)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row `test which` per test and GPUs that failed; `which` may be None."""
    rows: list[dict[str, object]] = []
    test: str | None = None
    which: str | None = None
    for token in _TOKEN.finditer(capped(text)):
        key, value = token["key"], token["text"] or token["number"]
        if key == "name":
            test, which = value, None
        elif key == "results":
            which = None
        elif key == "status":
            if (value or "").lower() == "fail" and test:
                rows.append({"test": test, "which": which})
            which = None
        else:
            which = value
    return rows
