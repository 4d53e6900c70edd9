"""JSON that tells on which host a rank runs, in the forms in which people write it."""

import pytest

from ncclforensics.model.placed_ranks import placed

TWO_HOSTS = [(0, "gpu0001"), (1, "gpu0001"), (2, "gpu0002"), (3, "gpu0002")]


@pytest.mark.parametrize(
    "document",
    [
        {"gpu0001": [0, 1], "gpu0002": [2, 3]},
        {"tp": 2, "hosts": {"gpu0001": [0, 1], "gpu0002": [2, 3]}},
        {"0": "gpu0001", "1": "gpu0001", "2": "gpu0002", "3": "gpu0002"},
        {"ranks": {str(r): {"host": h, "gpu": 0} for r, h in TWO_HOSTS}},
        [{"rank": r, "hostname": h} for r, h in TWO_HOSTS],
        {
            "nodes": [
                {"name": "gpu0001", "ranks": [0, 1]},
                {"name": "gpu0002", "ranks": "2-3"},
            ]
        },
        {"gpu0001": {"ranks": [0, 1]}, "gpu0002": {"ranks": [2, 3]}},
    ],
)
def test_hosts_beside_ranks_are_read(document):
    assert [(place.rank, place.host) for place in placed(document)] == TWO_HOSTS


def test_a_local_rank_is_read():
    (place,) = placed([{"rank": 5, "host": "gpu0001", "local_rank": 1}])
    assert place.local == 1


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"step-7": [0.5, 1.25]}, id="numbers that are no ranks"),
        pytest.param({"a-1": [0, 1], "b-2": [1, 2]}, id="a rank twice"),
        pytest.param(
            [{"rank": r, "host": h, "msg": "up"} for r, h in TWO_HOSTS], id="a log"
        ),
        pytest.param({"rank": [0, 1], "world_size": 2}, id="no host"),
    ],
)
def test_other_documents_place_nothing(document):
    assert not placed(document)
