"""Every member came to the call, and nobody finished it.

What it means
    The program did nothing wrong: all ranks of the group made the same call. The call
    itself does not end, because of the network, a GPU, NVLink, a driver, or a deadlock
    inside the communication library. This alone blames nobody.

How we know
    All waits lead to one call that every member has enqueued, with matching tensors as
    far as dumps show them, and that none has left. This is a rare cause: members that
    differ, a GPU that did not start the call where others did, or a rank that came
    after the timeout explain the call better. If evidence of the network or a GPU names
    a host or rank, this finding is its echo.

What to do
    Check the network and the GPUs: NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET,
    `dmesg -T | grep -i -E 'xid|mlx5'`, `ibstat`, `nvidia-smi nvlink -e`, the RAS client
    (`ncclras -v`). Run nccl-tests over the same hosts. TORCH_NCCL_ENABLE_TIMING=1 shows
    next time whose GPU did not even start the call.

Looks like
    `missing-rank` with the dump lost: there one member is unseen.
    A job that runs has unfinished calls as well: without proof that the job stands
    still, this is no more than `possible`.

References
    NCCL user guide, RAS; torch.distributed Flight Recorder tutorial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncclforensics.evidence import common, first_large_call
from ncclforensics.model import wanted
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "runtime"
NEEDS = ("standings",)
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = ("timeout-masking",)
SPREADS = True

REMEDY = (
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET TORCH_NCCL_ENABLE_TIMING=1",
    "dmesg -T | grep -i -E 'xid|mlx5'   # on the hosts of the group",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report the call that all members joined, the one that blocks most ranks first."""
    for told in weighed(frames).of("stuck-in-collective")[:1]:
        call = told.story.call
        assert call is not None
        failing = common.collective(frames, call)
        large = first_large_call.first_large(frames, call)
        who, each = f"all {len(call['waiting']):,} members", "Every member"
        if told.story.what == "seen":
            who = each = f"all {len(call['waiting']):,} ranks that are shown"
        behind = wording.others_behind(frames, call["waiting"])
        yield wording.finding(
            frames,
            told,
            f"{who} are in {common.call_words(failing)}, and none finishes",
            f"{each.capitalize()} made {common.call_words(failing)} and none finished "
            f"it.{behind} That blames no rank.{f' {large.words}.' if large else ''}",
            (*REMEDY, *(first_large_call.PING if large else ())),
            (*wording.waiting(frames, call), *(large.evidence if large else ())),
        )


def full_call(frames: Frames) -> dict[str, Any] | None:
    """Return the row of `calls` that all members joined and none has left, or None."""
    found = weighed(frames).of("stuck-in-collective")
    return found[0].story.call if found else None
