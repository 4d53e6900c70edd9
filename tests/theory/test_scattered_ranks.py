"""Many slow ranks are a host where they may be one; scattered ones are no answer."""

from types import SimpleNamespace

import polars as pl
import pytest

from ncclforensics.theory import slow_ranks


def shares(slow, hosts):
    """Return what 16 ranks work longer, as a share; without `hosts` none is known."""
    own = {"role": 1, "peers": {"role": 1}, "error": 0.01, "batches": 12}
    return pl.DataFrame(
        [
            {"rank": rank, "clock": rank // 5 if hosts else rank}
            | {"share": 0.2 if rank in slow else 0.001 * (rank % 3)}
            | own
            for rank in range(16)
        ]
    )


@pytest.mark.parametrize(
    ("slow", "hosts", "told"),
    [
        pytest.param([5, 6, 7, 8, 9], True, True, id="a host"),
        pytest.param([5, 6, 7, 8, 9], False, True, id="in a row: may be a host"),
        pytest.param([1, 4, 6, 9, 12], False, False, id="scattered"),
        pytest.param([4, 5, 6, 7, 8], True, False, id="of two hosts"),
        pytest.param([1, 9], False, True, id="few"),
    ],
)
def test_many_slow_ranks_are_named_only_as_a_host(slow, hosts, told):
    of = SimpleNamespace(timed=True, shows_messages=True)
    found = slow_ranks._slowest(of, shares(slow, hosts))
    assert (found is not None and found[1].to_list() == slow) is told
