"""Collects on all nodes and brings the shares into one folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.fleet import kubernetes, manifest, ray, runner, targets
from ncclforensics.fleet.answers import Answer
from ncclforensics.fleet.script import script
from ncclforensics.fleet.shares import Shares
from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncclforensics.collect.redaction import Redactor
    from ncclforensics.fleet.nodes import Node
    from ncclforensics.fleet.targets import Target

COLLECT = ("ncclforensics.collect.node", "ncclforensics.collect")


def gather(
    target: Target,
    arguments: Sequence[str],
    into: Path,
    redactor: Redactor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Answer]:
    """Run `collect --tar` with `arguments` on all nodes; return their answers.

    The shares and the manifest go into the folder `into`. A node whose share is there
    already is not asked again. `redactor` puts the pseudonyms that the nodes put.
    Raises UsageError if the nodes cannot be listed, and KeyboardInterrupt after what
    came in was kept.
    """
    found = targets.listed(target, ("--tar", *arguments))
    before = manifest.answered(into)
    if redactor is not None and (into / manifest.NAME).exists():
        raise UsageError(f"{into} has other pseudonyms: give another DIR")
    nodes = [node for node in found.nodes if node.name not in before]
    clean = bytes if redactor is None else _known(redactor, nodes).text
    answers = list(before.values())
    try:
        shares = Shares(into, lambda name: clean(name.encode()).decode())
        if found.pods:
            (into / "pods.json").write_bytes(clean(kubernetes.told(found.pods)))
    except OSError as caught:
        raise UsageError(f"{into}: {reason(caught)}") from caught
    ask = ray.ask if target.by == "ray" else runner.ask
    with tempfile.NamedTemporaryFile(suffix=".py") as packed:
        packed.write(script(*COLLECT))
        packed.flush()
        try:
            for answer in ask(
                nodes,
                Path(packed.name),
                shares.take,
                limit=target.limit,
                at_once=target.at_once,
            ):
                answers.append(answer)
                if progress is not None:
                    progress(len(answers), len(found.nodes))
        finally:
            shares.close()
            told = {answer.node for answer in answers}
            answers += [
                Answer(node.name, "unasked", "interrupted")
                for node in nodes
                if node.name not in told
            ]
            manifest.write(into, target.by, target.limit, answers, clean)
    return answers


def _known(redactor: Redactor, nodes: Sequence[Node]) -> Redactor:
    """Tell a redactor the names of all nodes."""
    redactor.hosts |= {node.name for node in nodes}
    redactor.hosts |= {node.name.partition(".")[0] for node in nodes}
    return redactor
