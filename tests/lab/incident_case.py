"""What an incident of the lab is: a job, what lies beside it, and what is lost of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One job on several hosts, the text that is rendered beside it, and the truth."""

    slug: str
    title: str
    happened: str
    fault: str
    who: tuple[int, ...] = (0,)
    hosts: int = 4
    each: int = 2
    # or "srun", which labels one stream, or "tasks": srun with a file for each task
    launch: str = "torchrun"
    train: tuple[str, ...] = ()
    torchrun: tuple[str, ...] = ()
    nccl_files: bool = False  # NCCL_DEBUG_FILE, a file for each process
    nccl_subsystems: str = ""  # NCCL_DEBUG_SUBSYS
    odd_host: int | None = None  # this host's NCCL is told to use docker0
    small_disk: int | None = None  # this host's ckpt/ is too small
    stop_after: float = 0.0  # seconds, by whoever is named in `stop`
    stop: str = "operator"  # or "preemption", or "node" for the loss of `lost_host`
    lost_host: int | None = None

    kernel: str = "dmesg"  # or "journal", or "" for none
    fault_text: str = ""  # "xid", "oom" or "gil": what is rendered of the fault
    slurm_says: str = ""  # how srun says that the culprit's task ended
    remove: tuple[str, ...] = ()  # glob patterns of evidence that is lost
    halve: tuple[str, ...] = ()  # evidence cut in half
    compress: tuple[str, ...] = ()  # evidence that was rotated and gzipped
    pack: tuple[str, ...] = ()  # hosts whose dumps were collected as an archive

    outcome: str = "failure"
    failure: str = ""
    also: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    at: tuple[int, ...] = ()  # numbers of the hosts at fault
    may_name_nobody: bool = False
    second: tuple[str, int] | None = None  # class and rank of another root
    seq: int | None = None
    group: str = ""
