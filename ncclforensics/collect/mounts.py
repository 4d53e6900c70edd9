"""Whether file systems answer: each is asked in a child that may never come back.

The list itself comes from /proc and waits for nobody. Network and FUSE mounts are asked
for their size and for one name of their root; local ones by `df -l`.
"""

from __future__ import annotations

import os
import re
from functools import partial

from ncclforensics.collect.children import Question

LIMIT_S = 4.0
MOST = 64
# file systems whose server may fall silent
REMOTE = re.compile(
    r"nfs\d?|lustre|ceph|cifs|smb\d?|smbfs|fuse(?:\..*|blk)?|gpfs|mmfs|beegfs|wekafs"
    r"|glusterfs|9p|afs|panfs|pvfs2|orangefs|virtiofs|ocfs2|gfs2|davfs|s3fs|vastnfs"
)
_OURS = re.compile(r"fuse\.(?:lxcfs|gvfsd-fuse|portal|snapfuse|squashfuse\w*)|fusectl")
_ESCAPE = re.compile(r"\\([0-7]{3})")


def questions() -> list[Question]:
    """Return a question per network mount, named by `PATH (TYPE from SOURCE)`."""
    asked = []
    for path, kind, source in listed():
        if REMOTE.fullmatch(kind) and not _OURS.fullmatch(kind):
            name = f"{path} ({kind} from {source})"
            asked.append(Question(name, partial(_size, path), LIMIT_S))
    return asked[:MOST]


def listed() -> list[tuple[str, str, str]]:
    """Return path, type and source of every mount, each path once."""
    found: dict[str, tuple[str, str, str]] = {}
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        head, _, rest = line.partition(" - ")
        fields, others = head.split(), rest.split()
        if len(fields) > 4 and len(others) > 1:
            path = _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])
            found[path] = (path, others[0], others[1])
    return list(found.values())


def _size(path: str) -> bytes:
    told = os.statvfs(path)
    with os.scandir(path) as names:
        next(names, None)
    free = told.f_bavail * told.f_frsize >> 20
    return f"{told.f_blocks * told.f_frsize >> 20} MiB, {free} MiB free".encode()


def line(question: Question, seconds: float, why_not: str, said: bytes) -> str:
    """Return what is written of one mount, as the grammar `collect.mount` reads it."""
    if why_not.startswith("no answer"):
        return f"mount {question.name} does not answer within {seconds:.0f} s"
    return f"mount {question.name}: {why_not or said.decode('utf-8', 'replace')}"
