"""Entry point on a node: prints the facts as one JSON document.

`--ring ADDRESS,…` has the addresses of all nodes: those behind this one are pinged.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ncclforensics.collect.children import Answer, Question, ask_all
from ncclforensics.preflight.node import network
from ncclforensics.preflight.node.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FACT_S = 8.0  # nvidia-smi takes seconds where no process keeps the driver loaded
WHOLE_S = 30.0


def gathered(ring: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of this node by name; `unknown` says why others miss."""
    until = time.monotonic() + WHOLE_S
    asked = [Question(n, _as_json(fact), FACT_S) for n, fact in FACTS.items()]
    told: dict[str, Any] = {"host": os.uname().nodename, "unknown": {}}
    for answer in ask_all(asked, until):
        _keep(told, answer)
    if ring:
        told["reached"] = network.reached(network.neighbours(list(ring)), until)
    return told


def _as_json(fact: Callable[[], Any]) -> Callable[[], bytes]:
    return lambda: json.dumps(fact()).encode()


def _keep(told: dict[str, Any], answer: Answer) -> None:
    name = answer.question.name
    try:
        told[name] = json.loads(answer.data)
    except ValueError:
        told["unknown"][name] = answer.why_not or "no answer"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the facts of this node."""
    parser = argparse.ArgumentParser(prog="ncclforensics preflight")
    parser.add_argument("--ring", default="")
    asked = parser.parse_args(argv)
    facts = gathered([address for address in asked.ring.split(",") if address])
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0
