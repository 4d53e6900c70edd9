"""The command about the cache of earlier analyses: cache clear."""

from __future__ import annotations

import click

from ncclforensics.cli import console, options
from ncclforensics.model.errors import ExitCode
from ncclforensics.model.folding import count


@click.group()
def cache() -> None:
    """Clear the cache of earlier analyses."""


@cache.command(epilog=options.examples("ncclforensics cache clear"))
def clear() -> int:
    """Remove all that is kept of earlier analyses.

    Commands that read evidence keep what they found in the user's cache folder, so that
    the next one answers at once. It holds at most 2 GiB; --no-cache keeps nothing.
    """
    from ncclforensics.engine import store

    root = options.cache_folder()
    entries, held = store.clear(root)
    removed = count(entries, "entry", "entries")
    console.say(f"Removed {removed} ({held / 2**20:.1f} MiB) from {root}")
    return ExitCode.OK
