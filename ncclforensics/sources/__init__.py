"""Finds the files, says what each is and why, and what its path tells of its writer.

`discover` is the stage's one entry. Kinds are decided from the content; names serve for
rank, host, attempt and stream only. Nothing in here opens a pickle or follows a link,
and nothing an archive holds is written anywhere but to numbered files in scratch.
"""

from ncclforensics.sources.discovery import discover
from ncclforensics.sources.model import Discovery, Source

__all__ = ["Discovery", "Source", "discover"]
