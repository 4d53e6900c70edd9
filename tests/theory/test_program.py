"""What a rank was to call next, in bits: who left the program of its role."""

import pytest
from standstills import STEP, all_but, frames

from ncclforensics.theory import program, weights

HISTORY = STEP * 16
RANKS = range(4)


def of(programs, **more):
    return program.program(frames(programs, **more), RANKS)


def bits(programs, **more):
    return {rank: d.bits for rank, d in of(programs, **more).deviations.items()}


def odd(programs, **more):
    return [r for r, some in bits(programs, **more).items() if some >= weights.NOISE]


@pytest.mark.parametrize(
    "last", ["|X", "ab|d", "abcd|W", "abc|p", "|F"], ids=lambda word: word
)
def test_who_calls_something_else_stands_out(last):
    told = of(all_but(HISTORY + last, f"{HISTORY}abcdp|W")).deviations
    assert told[2].bits > 3.7
    assert all(told[rank].bits < weights.NOISE for rank in (0, 1, 3))
    row = told[2].row
    assert of(all_but(HISTORY + last, f"{HISTORY}abcdp|W")).calls["rank"][row] == 2


@pytest.mark.parametrize("made", range(len(STEP) + 1))
def test_a_loop_that_goes_on_surprises_nobody(made):
    step = f"{STEP[:made]}|{STEP[made:][:1]}"
    assert odd(all_but(HISTORY + step, f"{HISTORY}abcdp|W")) == []


def test_what_all_do_for_the_first_time_is_the_programs_own():
    assert odd([f"{HISTORY}evalX|Y"] * 4) == []


@pytest.mark.parametrize(("lengths", "stands_out"), [("8463975", []), ("7777777", [2])])
def test_how_long_a_loop_of_no_certain_length_is_surprises_nobody(lengths, stands_out):
    """As where each rank generates until its text ends: two calls may be as many."""

    def made(rank, last):
        turned = lengths[rank:] + lengths[:rank]
        return "".join("a" * int(n) + "bW" for n in turned) + "a" * last

    programs = [made(rank, 7) + "b|W" for rank in RANKS]
    programs[2] = made(2, 2) + "b|W"
    assert odd(programs) == stands_out


def test_who_alone_does_not_do_it_left_it_out():
    told = of(all_but(f"{HISTORY}|abcd", f"{HISTORY}|X")).deviations
    assert told[2].left_out
    assert told[2].bits >= weights.NOISE
    assert all(told[rank].bits < weights.NOISE for rank in (0, 1, 3))


@pytest.mark.parametrize("before", ["", "ab", "abcdpW"])
def test_without_a_history_nothing_is_claimed(before):
    assert odd(all_but(f"{before}|X", f"{before}|a")) == []


@pytest.mark.parametrize("kept", [1, 2, 5, 20])
def test_a_ring_that_kept_less_is_no_other_program(kept):
    assert odd([f"{HISTORY}abcdp|W"] * 4, kept={2: kept}) == []


def test_sizes_that_differ_from_step_to_step_are_no_surprise():
    lengths = {
        (rank, place): 100 + 7 * (place // len(STEP))
        for rank in RANKS
        for place in range(len(HISTORY) + 6)
    }
    usual = all_but(f"{HISTORY}abc|d", f"{HISTORY}abcdp|W")
    assert odd(usual, sizes=lengths) == []
    assert odd(all_but(f"{HISTORY}|X", f"{HISTORY}abcdp|W"), sizes=lengths) == [2]


def test_another_size_in_one_call_of_many_is_one():
    usual = [f"{HISTORY}abcdp|W"] * 4
    assert odd(usual, sizes={(2, len(HISTORY) + 5): 9}) == [2]


def test_ranks_of_another_role_have_a_program_of_their_own():
    """What the first stage does is no surprise though most do something else."""
    first, last = "a>bW" * 24, "<bcW" * 24
    programs = [f"{first}a|>", f"{last}|<", f"{first}a|>", f"{last}|<"]
    assert odd(programs) == []
    told = of([f"{first}|X", *programs[1:]])
    assert told.deviations[0].bits > 3.7
    roles = dict(told.calls.select("rank", "role").unique().rows())
    assert roles[0] == roles[2] != roles[1] == roles[3]


def test_where_stacks_tell_a_place_is_part_of_a_call():
    """Calls of one operation and size, at two places."""
    same = {(rank, place): 8 for rank in RANKS for place in range(len(HISTORY) + 6)}
    swapped = all_but(f"{HISTORY}b|a", f"{HISTORY}abcdp|W")
    assert odd(swapped, sizes=same) == [2]
    assert odd(swapped, sizes=same, stacks=False) == []


def test_two_against_two_is_nobodys_deviation():
    two = f"{HISTORY}|X"
    other = f"{HISTORY}|Y"
    told = bits([two, two, other, other])
    assert max(told.values()) - min(told.values()) < 0.5


def test_the_history_foresees_a_step():
    told = of([f"{HISTORY}|a"] * 4)
    rows = [row for row in range(len(told.calls)) if told.calls["rank"][row] == 0]
    last = rows[-1]
    step = told.calls["label"][rows[0] : rows[len(STEP)]].to_list()
    assert told.foreseen(last)[: len(STEP)] == step
    assert told.actual(last) == step[:1]


@pytest.mark.parametrize("steps", [2, 6])
def test_a_call_that_its_rank_makes_seldom_surprises_nobody_when_it_comes_again(steps):
    loop = STEP * steps
    alone = f"{(loop + 'e') * 4}{loop}|e"
    assert odd(all_but(alone, f"{loop * 5}|a")) == []
    assert odd(all_but(f"{loop * 5}|e", f"{loop * 5}|a")) == [2]


def test_who_goes_through_an_inner_loop_once_less_stands_out():
    """Micro-batches of a pipeline: only all of them together tell which is the last."""
    whole, short = "i" + "abcd" * 10 + "F", "i" + "abcd" * 9
    assert odd(all_but(f"{whole * 6}{short}|F", f"{whole * 6}{short}|a")) == [2]
    assert odd([f"{whole * 6}{short}|a"] * 4) == []


@pytest.mark.parametrize("kept", [16, 18, 20])
def test_a_step_that_peers_took_as_well_sets_nobody_apart(kept):
    """Rings that kept as many calls begin at other ones where a rank made fewer."""
    base = ("WQZB" * 4 + "X" + "WQZB") * 6
    rings = dict.fromkeys(RANKS, kept)
    told = of(all_but(f"{base}|Y", f"{base}|WQZB"), kept=rings).deviations[2]
    calls = of(all_but(f"{base}|Y", f"{base}|WQZB"), kept=rings).calls
    assert calls["pg_desc"][told.row] == "META"  # `Y`, and none that all have made


def test_a_message_that_was_left_out_long_before_the_end_still_stands_out():
    """Hosts run ahead: nothing met since, and the next message took its place."""
    step = "<>" * 4 + "W"
    whole = f"{step * 12}{'<>' * 60}|{'<>' * 20}"
    programs = [whole] * 6
    programs[2] = f"{step * 12}{'<>' * 20}>{'<>' * 39}|{'<>' * 20}"
    assert odd(programs) == [2]


@pytest.mark.parametrize(("before", "stands_out"), [("", [2]), ("efgh", [])])
def test_behind_calls_that_were_never_seen_little_is_known(before, stands_out):
    """Only the last call before it is known: that is less than the usual context."""
    way = f"{HISTORY}{before}a"
    assert odd(all_but(f"{way}|c", f"{way}|b")) == stands_out
