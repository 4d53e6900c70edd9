"""The table of torch lab cases: what is run, and what the evidence then shows.

Sequence numbers are those of the Flight Recorder and of DETAIL, which both count the
default group's first call (the broadcast of the weights) as 1 and 0 respectively.
"""

from __future__ import annotations

from dataclasses import dataclass

HANG = ("--dump-after", "4", "--timeout", "7")


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
    launch: str = "torchrun"  # or "python", or "absent-node"
    busy_port: bool = False
    record: bool = False
    merged: bool = False  # one stream for all ranks, not a tree of files
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


CASES = (
    Case(
        slug="collective-mismatch",
        title="rank 3 broadcasts where its peers reduce",
        happened="In step 4 rank 3 calls broadcast and the others all_reduce.",
        fault="collective-mismatch",
        who=(3,),
        dump="fr/nccl_trace_rank_{rank}",
        failure="collective-mismatch",
        ranks=(3,),
        seq=5,
        op="broadcast",
        group="default_pg",
    ),
)


if __name__ == "__main__":
    print(*(case.slug for case in CASES), sep="\n")
