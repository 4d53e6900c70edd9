"""Whether any process of this host still has one of the files open for writing.

Once nobody has, although somebody had, the job is over. Processes of other users and of
other hosts are not seen: then nothing is known.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

PROCESSES = Path("/proc")
_RANK = re.compile(rb"(?:^|\0)(?:(?:PMIX?_|OMPI_COMM_WORLD_)?RANK|SLURM_PROCID)=\d")


def writers(files: Collection[str]) -> list[int] | None:
    """Return the processes that write to one of `files`, given by their real paths.

    None where the system does not tell.
    """
    try:
        processes = [entry.name for entry in os.scandir(PROCESSES)]
    except OSError:
        return None
    return [int(p) for p in processes if p.isdigit() and _writes(p, files)]


def have_ranks(pids: Collection[int]) -> bool:
    """Whether one of some processes was given a rank by its launcher."""
    for pid in pids:
        with suppress(OSError):
            if _RANK.search((PROCESSES / str(pid) / "environ").read_bytes()):
                return True
    return False


def _writes(pid: str, files: Collection[str]) -> bool:
    opened = PROCESSES / pid / "fd"
    # processes end meanwhile, and those of other users cannot be looked at
    with suppress(OSError):
        for number in os.listdir(opened):
            with suppress(OSError):
                if os.readlink(opened / number) in files and _for_writing(pid, number):
                    return True
    return False


def _for_writing(pid: str, number: str) -> bool:
    told = (PROCESSES / pid / "fdinfo" / number).read_text("ascii")
    flags = next(line.split()[1] for line in told.splitlines() if "flags" in line)
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
