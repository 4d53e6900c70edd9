"""Ranks and hosts that nothing places, where launchers number ranks host by host."""

import pytest

from ncclforensics.correlate.identity import host_blocks
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames


def frames(placed, *, files=(), world=8):
    """Return frames in which `placed` maps hosts to ranks, with a file of each host."""
    ranks = [{"rank": r, "host": h} for h, some in placed.items() for r in some]
    ranks += [{"rank": world - 1}]
    named = [{"source": f"{h}.log", "host": h} for h in (*placed, *files)]
    return Frames(
        {
            "ranks": tables.rows("ranks", ranks),
            "sources": tables.rows("sources", named),
        }
    )


EVEN = {"a": [0, 1], "b": [2, 3], "d": [6, 7]}


def test_the_block_that_is_left_over_is_of_the_host_without_ranks():
    known = frames(EVEN, files=["c"])
    assert host_blocks.ranks_on(known, "c") == (4, 5)
    assert host_blocks.home(known, [4, 5]) == ("c",)


@pytest.mark.parametrize(
    ("placed", "files", "ranks"),
    [
        (EVEN, ["c", "login"], [4, 5]),
        (EVEN, [], [4, 5]),
        (EVEN, ["c"], [4]),
        (EVEN, ["c"], [2, 3]),
        ({"a": [0, 1], "b": [2, 3], "d": [7]}, ["c"], [4, 5]),
    ],
    ids=["two such hosts", "none", "half", "another's", "unequal blocks"],
)
def test_else_nobody_knows_its_host(placed, files, ranks):
    assert host_blocks.home(frames(placed, files=files), ranks) == ()


@pytest.mark.parametrize(("own", "block"), [([4], (4, 5)), ([4, 5], (4, 5)), ([3], ())])
def test_a_host_of_which_some_ranks_are_known_holds_their_block(own, block):
    """Its other ranks left nothing; rank 3 is on another host's place."""
    placed = {"a": [0, 1], "b": [2, 3] if own != [3] else [2], "d": [6, 7]}
    known = frames({**placed, "c": own})
    assert host_blocks.ranks_on(known, "c") == block


NUMBERED = {"gpu-a01": [0, 1], "gpu-a03": [4, 5], "gpu-a04": [6, 7]}


def test_a_host_whose_blocks_go_by_number_has_the_block_of_its_own():
    known = frames(NUMBERED, files=["gpu-a06"], world=14)
    assert host_blocks.ranks_on(known, "gpu-a06") == (10, 11)


@pytest.mark.parametrize(
    ("placed", "host"),
    [
        (NUMBERED, "gpu-b06"),
        (NUMBERED, "gpu-a09"),
        ({"gpu-a01": [0, 1], "gpu-a03": [6, 7], "gpu-a04": [4, 5]}, "gpu-a06"),
        ({"gpu-a01": [0, 1], "gpu-a03": [4, 5]}, "gpu-a06"),
    ],
    ids=["another name", "beyond the job", "other turns", "two hosts"],
)
def test_else_a_number_tells_no_block(placed, host):
    assert host_blocks.ranks_on(frames(placed, files=[host], world=14), host) == ()


PARTS = {"a": [0, 1, 3], "b": [8], "f": [41, 42, 43, 47], "j": [72, 73]}


@pytest.mark.parametrize(
    ("placed", "world", "block"),
    [
        (PARTS, 128, tuple(range(40, 48))),
        (PARTS, 0, ()),  # how many ranks there are, nothing tells
        ({**PARTS, "a": [0], "f": [41], "j": [72]}, 128, ()),
        ({"a": [0, 1], "f": [40, 41], "j": [64]}, 128, ()),  # by 2 or by 32
        ({**PARTS, "b": [8, 17]}, 128, ()),
    ],
    ids=["one size", "no world", "one each", "several sizes", "two blocks"],
)
def test_hosts_known_in_part_hold_blocks_of_the_one_size_that_fits(
    monkeypatch, placed, world, block
):
    monkeypatch.setattr(host_blocks.world, "told_size", lambda _: world)
    known = frames(placed, world=max(world, 74))
    assert host_blocks.ranks_on(known, "f") == block
    assert host_blocks.around(known, [40, 44]) == (("f",) if block else ())
    assert host_blocks.around(known, [39, 40]) == ()
    assert host_blocks.around(known, [56]) == ()


def test_groups_in_dumps_list_how_many_ranks_there_are():
    known = frames(PARTS, world=128)
    assert host_blocks.fitted(known) == []
    members = [{"rank": 0, "members": [*range(64)]}, {"rank": 1, "members": [64, 127]}]
    members.append({"rank": 2, "members": [*range(65, 127)]})
    listed = Frames({**known.tables, "groups": tables.rows("groups", members)})
    blocks = host_blocks.fitted(listed)
    assert (len(blocks), blocks[1]) == (16, frozenset(range(8, 16)))


@pytest.mark.parametrize(
    ("ranks", "hosts"),
    [(range(128), 16), (range(12), 0), (range(8, 24), 0), ([0, *range(2, 17)], 0)],
)
def test_where_no_host_is_known_ranks_from_0_on_fill_hosts_of_8(ranks, hosts):
    assert host_blocks.many(frames({}, world=128), ranks) == hosts
