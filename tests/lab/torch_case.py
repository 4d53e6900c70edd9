"""What a case of the torch lab is: what is run, and what the evidence then shows."""

from __future__ import annotations

from dataclasses import dataclass

SLOW_AGENT = ("--monitor-interval", "8")  # so that all peers fail by themselves
HANG = ("--dump-after", "4", "--timeout", "7")
TWO_LOOKS = ("--dump-after", "3", "--dump-again", "3", "--timeout", "20")
NCCL_TRACE = "fr/nccl_trace_rank_{rank}"
BOTH_LOOKS = "{look}/nccl_trace_rank_{rank}"
COMM_LIB_TRACE = "comm_lib_trace_rank_{rank}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One job: how it is launched, what of it is kept, and the truth about it."""

    slug: str
    title: str
    happened: str
    fault: str = "healthy"
    who: tuple[int, ...] = ()
    nodes: int = 1
    processes: int = 4
    debug: str = ""
    dump: str = ""  # path of a dump in the evidence; "" for none
    train: tuple[str, ...] = HANG
    torchrun: tuple[str, ...] = ()
    launch: str = "torchrun"  # or "python", "absent-node", "apart": each rank by itself
    busy_port: bool = False
    narrow: bool = False  # large packets get lost on the way between the hosts
    record: bool = False
    spy_after: float = 0  # seconds until py-spy looks at every process; 0: never
    stalled: bool = False  # /mnt/ckpt answers no read and no write
    merged: bool = False  # one stream for all ranks, not a tree of files
    unmarked: bool = False  # the same without a word of who wrote a line
    lost: tuple[str, ...] = ()  # evidence removed afterwards
    halved: tuple[str, ...] = ()  # evidence cut in half afterwards

    outcome: str = "failure"
    failure: str = ""
    also: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    tie: bool = False
    seq: int | None = None
    op: str = ""
    group: str = ""
