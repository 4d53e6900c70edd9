"""The commands of a gathering as lines for a shell, for who would rather paste them."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from ncclforensics.fleet import ray, shares, targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.fleet.targets import Target


def lines(
    target: Target,
    packed: Sequence[str],
    arguments: Sequence[str],
    into: str,
    suffix: str,
) -> list[str]:
    """Return the commands that write what each node sends to `into`/NODE`suffix`.

    `packed` are the arguments of `script.script`. One line a node, so that a part of
    them can be pasted. Raises UsageError if the nodes cannot be listed.
    """
    packer = [sys.executable, "-m", "ncclforensics.fleet.script", *packed]
    script, folder = "collector.py", shlex.quote(into)
    said = [
        f"mkdir -p {folder} && script=$(mktemp -d)/{script}",
        f'{shlex.join(packer)} > "$script"',
    ]
    if target.by == "ray":
        argv = ray.command(into, target.limit, target.at_once, arguments)
        return [*said, f'{shlex.join(argv)} < "$script"', 'rm "$script"']
    for node in targets.listed(target, arguments).nodes:
        if not node.argv:
            said.append(f"# {node.name} is not asked: {node.why_not}")
            continue
        out = shlex.quote(f"{into}/{shares.plain(node.name)}{suffix}")
        command = shlex.join(("timeout", f"{target.limit:g}", *node.argv))
        said.append(f'{command} < "$script" > {out}')
    return [*said, 'rm "$script"']
