"""A team that is late as a whole, and may wait for one of its own ranks."""

import polars as pl
import pytest

from ncclforensics.correlate.timing.own_time import OwnTime
from ncclforensics.theory import slow_ranks

SHARES = {4: 0.07, 5: 0.072, 6: 0.11, 7: 0.071}


def team(last, others=()):
    """Return the history of a team: who comes `last` to each call it makes alone."""
    rows = [
        {"meets": n, "rank": rank, "late": float(rank == who)}
        for n, who in enumerate(last)
        for rank in (*SHARES, *others)
    ]
    return OwnTime(pl.DataFrame(), pl.DataFrame(rows), 1.0, timed=False)


def leader(told, shares=None):
    ranks = pl.DataFrame({"rank": [*SHARES], "share": [*(shares or SHARES).values()]})
    return slow_ranks._leader(told, pl.Series("rank", [*SHARES]), ranks)


def test_the_rank_that_is_last_to_most_calls_of_its_team_leads():
    assert leader(team([6, 6, 6, 5])) == (0.11, 6)


@pytest.mark.parametrize(
    ("told", "shares"),
    [
        pytest.param(team([4, 5, 6, 7]), None, id="any is the last"),
        pytest.param(team([4, 4, 4, 6]), None, id="another is the last"),
        pytest.param(team([6, 6, 6, 6], (8,)), None, id="others make the calls, too"),
        pytest.param(
            team([6, 6, 6, 5]), {**SHARES, 6: 0.08}, id="it works hardly longer"
        ),
    ],
)
def test_a_team_that_is_slow_as_a_whole_has_no_leader(told, shares):
    assert leader(told, shares) is None
