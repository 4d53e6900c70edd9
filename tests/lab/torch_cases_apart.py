"""Cases in which each rank was started by itself: its log is all that there is."""

from __future__ import annotations

from torch_case import Case

CASES = (
    Case(
        slug="apart-missing-rank",
        title="rank 2 sleeps; four processes without an agent, a log each",
        happened="After step 3 rank 2 hangs in save_checkpoint; its peers wait in the "
        "all_reduce of step 4 until their timeout. Rank 2 is ended from outside.",
        fault="missing-rank",
        who=(2,),
        launch="apart",
        failure="missing-rank",
        also=("straggler",),
        ranks=(2,),
    ),
    Case(
        slug="apart-rank-conditional",
        title="rank 0 alone gathers scores; its peers are in backward of step 4",
        happened="Before step 4 rank 0 calls gather_scores() alone, in the control "
        "group; its peers wait for it in the all_reduce of DDP's backward pass.",
        fault="ddp-evaluates-alone",
        who=(0,),
        launch="apart",
        failure="rank-conditional-collective",
        also=("call-order-deadlock",),
        ranks=(0,),
    ),
    Case(
        slug="apart-uneven-inputs",
        title="rank 3 waits for everyone; its peers are in backward of step 4",
        happened="Rank 3 is out of batches after step 3 and goes to the barrier of "
        "wait_for_everyone(), in the control group; its peers wait for it in the "
        "all_reduce of DDP's backward pass.",
        fault="ddp-uneven-inputs",
        who=(3,),
        launch="apart",
        failure="uneven-inputs",
        also=("rank-conditional-collective", "call-order-deadlock"),
        ranks=(3,),
    ),
)
