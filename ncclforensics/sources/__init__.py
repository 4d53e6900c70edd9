"""Discovers the files: the kind of each, and the rank and host that its path names.

`discover` is the only entry point. Kinds are decided by content; names are used only
for rank, host, attempt and stream. Nothing here loads a pickle or follows a link out of
the evidence, and archive members are written only to numbered files in scratch.
"""

from ncclforensics.sources.discovery import discover
from ncclforensics.sources.model import Discovery, Source

__all__ = ["Discovery", "Source", "discover"]
