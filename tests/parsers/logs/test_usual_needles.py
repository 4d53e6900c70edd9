"""Needles that block after block holds are looked for apart, until one is missing."""

from ncclforensics.parsers.logs.usual_needles import BLOCKS, Usual


def test_what_all_of_some_blocks_hold_is_usual():
    usual = Usual()
    for n in range(BLOCKS):
        assert not usual.needles
        usual.learn({1, 2, 3 if n % 2 else 4})
    assert usual.needles == {1, 2}


def test_nothing_is_usual_once_a_block_lacks_it_until_as_many_hold_it_again():
    usual = Usual()
    for _ in range(BLOCKS):
        usual.learn({1, 2})
    usual.learn({1, 2, 7})
    assert usual.needles == {1, 2}
    usual.learn({1})
    assert not usual.needles
    for _ in range(2 * BLOCKS - 2):
        usual.learn({1, 2})
    assert usual.needles == {1, 2}


def test_what_blocks_hold_in_turns_is_not_usual():
    usual = Usual()
    for n in range(4 * BLOCKS):
        usual.learn({n % 2})
    assert not usual.needles
