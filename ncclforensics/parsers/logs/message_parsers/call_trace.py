"""The kernel's call trace of a process, from its log or its `/proc/PID/stack`.

    INFO: task python3:10189 blocked for more than 120 seconds.
     request_wait_answer+0x151/0x210
     nfs_wait_bit_killable+0x12/0x60 [nfs]

The innermost frame comes first. A file system is known by its kernel module, which is
printed in brackets, or by how its functions begin. A frame behind `? ` is a guess.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("file_system", "waits_at")
_FRAME = re.compile(
    r"^\s*(?:\[<\w+>\] )?(\w[\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?"
)
_NEXT = re.compile(r"INFO: task |/stack\b|^-{3}|^Process \d")  # another process
# how functions of a file system begin, and its modules
_FILE_SYSTEMS = {
    "NFS": r"nfs[34]?_|rpc_wait_|__rpc_|rpc_execute",
    "Lustre": r"ll_|osc_|mdc_|lov_|cl_(?:io|sync|lock)_|ldlm_|ptlrpc_|lustre_",
    "FUSE": r"fuse_|__fuse_|request_wait_answer",
    "Ceph": r"ceph_|ceph_mdsc_|rbd_",
    "SMB": r"cifs_|smb2_|compound_send_recv|wait_for_response",
    "GPFS": r"gpfs|cxi(?:Wait|Block)|_ZN\w*(?:ThCond|mmfs)",
    "9p": r"v9fs_|p9_client",
    # a write waits here as long as a file system is frozen
    "a frozen file system": r"mnt_want_write|__sb_start_write|sb_start_write",
    "a local disk": r"ext4_|xfs_|btrfs_|jbd2_|blk_mq_|submit_bio_wait|dm_|io_schedule$",
}
_BEGINS = {name: re.compile(start) for name, start in _FILE_SYSTEMS.items()}
_MODULES = {
    **dict.fromkeys(("nfs", "nfsv3", "nfsv4", "sunrpc"), "NFS"),
    **dict.fromkeys(("lustre", "lov", "osc", "mdc", "ptlrpc", "obdclass"), "Lustre"),
    **dict.fromkeys(("fuse", "virtiofs"), "FUSE"),
    **dict.fromkeys(("ceph", "libceph", "rbd"), "Ceph"),
    **dict.fromkeys(("mmfs26", "mmfslinux", "tracedev"), "GPFS"),
    **dict.fromkeys(("wekafsgw", "wekafsio"), "Weka"),
    "cifs": "SMB",
    "beegfs": "BeeGFS",
    "9p": "9p",
    "9pnet": "9p",
    **dict.fromkeys(("ext4", "xfs", "btrfs", "jbd2", "nvme", "dm_mod"), "a local disk"),
}


def parse(text: str) -> list[dict[str, object]]:
    """Return one row if the task waits in a file system, else none.

    Row: `file_system` as people call it, `waits_at`, the innermost function in it.
    """
    for line in capped(text).splitlines()[1:]:
        if _NEXT.search(line):
            break
        frame = _FRAME.match(line)
        if frame and (name := file_system(frame[1], frame[2])):
            return [{"file_system": name, "waits_at": frame[1]}]
    return []


def file_system(function: str, module: str | None = None) -> str | None:
    """Return the file system that a kernel function belongs to, or None."""
    if module:
        return _MODULES.get(module)
    found = (name for name, begins in _BEGINS.items() if begins.match(function))
    return next(found, None)
