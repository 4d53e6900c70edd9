"""Of ranks in a circle the numbers of their groups tell whose turn a call was."""

import polars as pl
import pytest

from ncclforensics import tables
from ncclforensics.evidence import divergence
from ncclforensics.frames import Frames

RANKS = (0, 1, 2, 3)


def group_of(letter):
    """Capitals are calls of one group, small letters those of another."""
    return "W" if letter.isupper() else "S"


def frames_of(programs, stacks, pairs=False):
    """Every rank is in the first call behind its bar, and made those behind that.

    In `pairs`, small letters are calls of two ranks each, not of all.
    """

    def name(group, rank):
        return f"S{rank // 2}" if pairs and group == "S" else group

    made, names, held = [], [], {}
    for rank, program in enumerate(programs):
        over, ahead = program.split("|")
        count = {"W": 0, "S": 0}
        for number, letter in enumerate(over + ahead):
            group = group_of(letter)
            count[group] += 1
            entry = {
                "rank": rank,
                "record_id": number,
                "line": number,
                "source": str(rank),
                "op": letter.lower(),
                "is_p2p": False,
                "pg": name(group, rank),
                "pg_desc": group,
                "seq": count[group],
                "stack": ord(letter.lower()) if stacks else None,
                "state": "completed" if number < len(over) else "scheduled",
            }
            made.append(entry)
            if number == len(over):
                held[rank] = entry
        names += [
            {"rank": rank, "pg": n, "pg_desc": g, "pg_id": None, "group": n}
            for g, n in ((g, name(g, rank)) for g in count)
        ]
    calls = []
    for group, seq in sorted({(held[r]["pg"], held[r]["seq"]) for r in RANKS}):
        here = {e["rank"] for e in made if (e["pg"], e["seq"]) == (group, seq)}
        waiting = [r for r in RANKS if (held[r]["pg"], held[r]["seq"]) == (group, seq)]
        members = [r for r in RANKS if group in (name("W", r), name("S", r))]
        calls.append(
            {
                "call": len(calls),
                "group": group,
                **{k: held[waiting[0]][k] for k in ("pg", "pg_desc", "op", "stack")},
                "seq": seq,
                "is_p2p": False,
                "members": members,
                "waiting": waiting,
                "behind": sorted(here - {*waiting}),
                "absent": [r for r in members if r not in here],
                **{state: [] for state in ("done", "unseen", "unstarted")},
            }
        )
    return Frames(
        {
            "collectives": tables.rows("collectives", made),
            "group_names": tables.rows("group_names", names),
            "calls": tables.rows("calls", calls),
        }
    )


def told(odd, others, *, stacks=False):
    """Return the kind and the odd ranks of a circle: rank 2's program and the rest's."""
    programs = [odd if rank == 2 else others for rank in RANKS]
    (found,) = divergence.divergences(frames_of(programs, stacks))
    return found.kind, found.odd


STEP = "abcdeW"


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("late", ["abcd|eW", "abcd|e"])
def test_groups_entered_in_another_order_name_the_circle(late, stacks):
    assert told(STEP * 3 + "abcd|W", STEP * 3 + late, stacks=stacks) == ("order", RANKS)


@pytest.mark.parametrize("before", ["", STEP * 3 + "abcd"])
def test_two_calls_that_all_have_enqueued_in_either_order_name_who_did(before):
    kind, odd = told(f"{before}|Fg", f"{before}|gF")
    assert (kind, odd) == ("order", RANKS)


def test_two_calls_of_which_one_is_not_the_same_for_all_were_not_swapped():
    kind, odd = told(STEP * 3 + "abcd|Xe", STEP * 3 + "abcd|eW")
    assert (kind != "order", odd) == (True, (2,))


def test_another_call_behind_what_holds_a_rank_is_a_mismatch_and_no_order():
    programs = ["|W", "|W", "|eX", "|W"]
    frames = frames_of([STEP * 3 + "abcd" + p for p in programs], stacks=False)
    (found,) = divergence.divergences(frames)
    assert (found.kind, found.odd, found.call["group"]) == ("mismatch", (2,), "W")
    in_e = {found.others[0]["call"]}
    assert divergence.calls_in_circles(frames) == in_e


@pytest.mark.parametrize("stacks", [True, False])
def test_a_call_that_other_pairs_made_as_well_is_not_behind_the_loop(stacks):
    def odd(others):
        programs = [others, others, STEP * 3 + "ab|q", STEP * 3 + "ab|W"]
        (found,) = divergence.divergences(frames_of(programs, stacks, pairs=True))
        return found.odd

    assert odd(STEP * 3 + "abq|W") == ()
    assert odd(STEP * 3 + "ab|W") == (2,)


def test_a_call_that_is_another_one_for_some_was_entered_in_no_order_by_anybody():
    programs = ["Bab|abW", "Bab|B", "Bab|abW", "Bab|B"]
    (found,) = divergence.divergences(frames_of(programs, stacks=False))
    assert (found.kind, found.odd) == ("order", ())


def test_those_beside_a_circle_in_one_of_its_calls_are_on_a_side_as_well():
    """Of ranks 1 and 3 nothing would show the call that rank 2 is in."""
    frames = frames_of(["|W", "|W", "|f", "|W"], stacks=False)
    small = pl.col("group") == "S"
    calls = frames["calls"].with_columns(
        pl.when(small).then([0]).otherwise("absent").alias("absent"),
        pl.when(small).then([1, 3]).otherwise("unseen").alias("unseen"),
    )
    made = frames["collectives"].with_columns(
        pl.when(pl.col("pg") == "W").then(pl.lit("barrier")).otherwise("op").alias("op")
    )
    changed = {**frames.tables, "calls": calls, "collectives": made}
    (found,) = divergence.divergences(Frames(changed))
    assert found.odd != (0,)


@pytest.mark.parametrize("late", ["|abcdeW", "|ab"])
def test_an_extra_call_that_looks_like_the_one_of_a_step_names_who_made_it(late):
    assert told(STEP * 3 + "|W", STEP * 3 + late) == ("conditional", (2,))


def test_one_in_the_middle_of_a_step_may_be_either_and_names_nobody():
    assert told(STEP * 3 + "abc|W", STEP * 3 + "abc|deW") == ("order", ())


def test_calls_that_nobody_made_before_are_none_of_a_step_but_at_one_place():
    odd, others = STEP * 3 + "abcdeW|F", STEP * 3 + "abcdeW|f"
    assert told(odd, others) == ("order", ())
    assert told(odd, others, stacks=True) == ("order", RANKS)


@pytest.mark.parametrize("stacks", [True, False])
def test_a_number_spent_on_another_call_is_no_matter_of_order(stacks):
    odd, others = STEP * 3 + "abcd|X", STEP * 3 + "abcd|eW"
    kind, ranks = told(odd, others, stacks=stacks)
    assert (kind in ("conditional", "uneven"), ranks) == (True, (2,))


def sides(two, ahead=""):
    """Ranks 0 and 1 are in a call of all, the rest in calls of pairs, in open dumps."""
    programs = ["|W", "|W" + ahead, *two]
    told = frames_of(programs, stacks=False)
    (found,) = divergence.divergences(told)
    return found.kind, found.odd


def test_where_many_of_each_side_have_made_one_call_only_they_may_have_left_a_loop():
    # no dump tells what was made before
    assert sides(["|s", "|s"]) == ("order", ())
    assert sides(["|s", "|s"], ahead="s") == ("order", RANKS)
    assert told("|W", "|s") == ("order", RANKS)


@pytest.mark.parametrize("stacks", [True, False])
def test_two_calls_that_are_as_seldom_as_each_other_are_no_end_of_a_loop(stacks):
    before = "ababfGabab"
    assert told(f"{before}|G", f"{before}|f", stacks=stacks) == ("order", RANKS)
    assert told("ababGabab|G", "ababGabab|a", stacks=stacks) == ("uneven", (2,))
