"""A row of calls is over for a rank with the last that anybody in it waits for."""

import polars as pl

from ncclforensics.correlate.timing.streams import over

# ranks 0 and 1 meet, then 0 with 2 and 1 with 3; rank 1 comes late to all of its row
MADE = {0: 0.0, 1: 0.5, 2: 0.0, 3: 0.0}
MEETS = ((0, (0, 1)), (1, (2, 3)), (2, (0, 2)), (3, (1, 3)))


def calls(*, blocks):
    """Return a row of two calls a rank; `blocks` is whether ranks wait in the first."""
    rows = [
        {
            "rank": rank,
            "group": f"{'outer' if meets > 1 else 'inner'} {members[0]}",
            "meets": meets,
            "made": MADE[rank] + 1e-3 * (meets > 1),
            "blocks": blocks or meets > 1,
        }
        for rank in MADE
        for meets, members in MEETS
        if rank in members
    ]
    return pl.DataFrame(rows)


def ends(told):
    """Return when the last call of each rank was over, and how many calls count."""
    last = told.group_by("rank", maintain_order=True).last()
    return [round(one, 3) for one in last["over"]], told["counts"].sum()


def test_who_waits_for_one_that_waits_for_a_late_rank_waits_as_long():
    """Rank 2 meets rank 0 alone, whose GPU is held up by rank 1."""
    assert ends(over(calls(blocks=False))) == ([0.5, 0.501, 0.5, 0.501], 8)


def test_where_ranks_wait_in_each_call_the_times_of_the_calls_tell():
    assert ends(over(calls(blocks=True))) == ([0.001, 0.501, 0.001, 0.501], 8)
