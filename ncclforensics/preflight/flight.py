"""Runs the preflight: this node alone, or all nodes by the site's tool."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncclforensics.fleet import ray, runner, targets
from ncclforensics.fleet.script import script
from ncclforensics.fleet.shares import Share
from ncclforensics.preflight import between, checks_machine, checks_network
from ncclforensics.preflight.differences import Difference, differences
from ncclforensics.preflight.node import node as here
from ncclforensics.preflight.results import Facts, Result, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncclforensics.fleet.answers import Answer, Stream
    from ncclforensics.fleet.nodes import Node
    from ncclforensics.fleet.targets import Target

CHECKS = (*checks_network.CHECKS, *checks_machine.CHECKS)
NODE = (
    "ncclforensics.preflight.node.node",
    "ncclforensics.collect",
    "ncclforensics.preflight.node",
)
MOST_BYTES = 1 << 20  # of the facts of a node


@dataclass(frozen=True, slots=True)
class Flight:
    """What a preflight found: results by node, differences, and who did not answer."""

    results: dict[str, tuple[Result, ...]]
    differences: tuple[Difference, ...] = ()
    missing: tuple[Answer, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, and every node that was asked answered."""
        told = [r.status for results in self.results.values() for r in results]
        told += [d.status for d in self.differences]
        return "failed" not in told and not self.missing


def alone() -> Flight:
    """Check this node."""
    facts = Facts(json.loads(json.dumps(here.gathered())))
    return Flight({facts.host: judged(facts)})


def judged(facts: Facts) -> tuple[Result, ...]:
    """Return the result of every check on one node."""
    return tuple(run(check, facts) for check in CHECKS)


def fleet(target: Target, progress: Callable[[int, int], None] | None = None) -> Flight:
    """Check all nodes of a target, and compare them.

    They are asked twice: for their facts, and whether they reach their neighbours.
    """
    told, asked, answers = _asked(target, (), progress)
    nodes = {name: Facts(facts) for name, facts in told.items()}
    addresses = between.ring(nodes)
    found = [*differences(nodes), *between.clocks(nodes, asked)]
    if len(set(addresses.values())) > 1:
        ring = ("--ring", ",".join(dict.fromkeys(addresses.values())))
        again, _, _ = _asked(target, ring, progress)
        reached = {name: Facts(facts) for name, facts in again.items()}
        found += between.reach(reached, addresses)
    return Flight(
        {name: judged(facts) for name, facts in nodes.items()},
        tuple(sorted(found, key=lambda one: one.status != "failed")),
        tuple(answer for answer in answers if answer.node not in nodes),
    )


def _asked(
    target: Target,
    arguments: Sequence[str],
    progress: Callable[[int, int], None] | None,
) -> tuple[dict[str, Any], dict[str, tuple[float, float]], list[Answer]]:
    """Return the facts of each node, when it was asked and answered, all answers."""
    nodes = targets.listed(target, arguments).nodes
    facts: dict[str, Any] = {}
    times: dict[str, tuple[float, float]] = {}
    lock = threading.Lock()

    def take(node: Node, stream: Stream) -> Share:
        begun, data = time.time(), b""
        while len(data) < MOST_BYTES and (got := stream.read()):
            data += got
        try:
            told = json.loads(data)
            host = str(told["host"])
        except (ValueError, KeyError, TypeError):
            return Share(None, 0, "no facts came")
        with lock:
            facts[node.name], times[node.name] = told, (begun, time.time())
        return Share(host, 1)

    answers: list[Answer] = []
    ask = ray.ask if target.by == "ray" else runner.ask
    with tempfile.NamedTemporaryFile(suffix=".py") as packed:
        packed.write(script(*NODE))
        packed.flush()
        path = Path(packed.name)
        for answer in ask(
            nodes, path, take, limit=target.limit, at_once=target.at_once
        ):
            answers.append(answer)
            if progress is not None:
                progress(len(answers), len(nodes))
    order = [node.name for node in nodes if node.name in facts]
    return {name: facts[name] for name in order}, times, answers
