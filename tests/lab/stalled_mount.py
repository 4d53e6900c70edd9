"""A file system in user space (FUSE) whose server answers no read and no write.

    python stalled_mount.py FOLDER        # needs fusepy, libfuse 2 and /dev/fuse

Files can be made and opened; whoever reads or writes waits until the server is ended.
The kernel reads the request before it is held back, so that not even SIGKILL ends the
wait: the process stands in state D, as in a hard mount of NFS.
"""

from __future__ import annotations

import errno
import stat
import sys
import threading
from typing import Any

from fuse import FUSE, FuseOSError, Operations

FOLDER = {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
FILE = {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": 1 << 20}


class Stalled(Operations):
    """Answers everything but a read or a write."""

    def __init__(self) -> None:
        self.names = {"/shard-000.bin"}

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        if path != "/" and path not in self.names:
            raise FuseOSError(errno.ENOENT)
        return FOLDER if path == "/" else FILE

    def create(self, path: str, mode: int, fi: object = None) -> int:
        self.names.add(path)
        return 1

    def open(self, path: str, flags: int) -> int:
        return 1

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        threading.Event().wait()
        return b""

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        threading.Event().wait()
        return len(data)


if __name__ == "__main__":
    FUSE(
        Stalled(), sys.argv[1], foreground=True, direct_io=True, fsname="storage1:/ckpt"
    )
