"""The manifest of a gathering, `fleet.json`: which nodes were asked, and what came.

It is evidence: a node that did not answer in its limit, where others did, is known by
this file alone. `parsers/fleet_json.py` reads it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from ncclforensics import __version__
from ncclforensics.fleet.answers import Answer
from ncclforensics.model.folding import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

NAME = "fleet.json"


def write(
    folder: Path,
    by: str,
    limit: float,
    answers: Iterable[Answer],
    clean: Callable[[bytes], bytes] = bytes,
) -> None:
    """Write the manifest of `folder`; one that is there is replaced as a whole.

    `clean` puts pseudonyms for names.
    """
    rows = [asdict(a) for a in sorted(answers, key=lambda a: natural(a.node))]
    head = {"ncclforensics_fleet": 1, "tool": __version__, "by": by, "limit_s": limit}
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    text = f'{json.dumps(head)[:-1]}, "nodes": [\n  {lines}\n]}}\n'
    beside = folder / f".{NAME}"
    beside.write_bytes(clean(text.encode()))
    os.replace(beside, folder / NAME)


def answered(folder: Path) -> dict[str, Answer]:
    """Return the nodes whose whole share is in `folder`, by its manifest."""
    try:
        told = json.loads((folder / NAME).read_bytes())
        answers = [Answer(**row) for row in told["nodes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {a.node: a for a in answers if a.kind == "share"}
