"""Each story of a standstill: it is told, it is not, and its look-alike is another one."""

import polars as pl
import pytest
from standstills import STEP, all_but, frames, named, told

from ncclforensics.correlate import correlate
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.theory.weigh import weighed

HISTORY = STEP * 16
WAITS = f"{HISTORY}abcdp|W"
EPOCHS = ("I" + STEP * 20 + "BF") * 3 + STEP * 12


def circle(odd, other="abcd|p", before=HISTORY, **more):
    """Return what is told where rank 2 is odd, its pair waits, and the rest behind."""
    usual = f"{before}abcdp|W"
    return named([usual, usual, before + odd, before + other], **more)


def first(odd, **more):
    """Return the same of rank 0."""
    return named([HISTORY + odd, f"{HISTORY}abcd|p", WAITS, WAITS], **more)


def test_missing_is_who_waits_for_nobody():
    assert circle("abc") == [("missing-rank", (2,))]


def test_missing_is_who_skipped_a_collective_and_went_on():
    assert circle("abcdpabcd|p", other="abcdp|W") == [("missing-rank", (2,))]


def test_nobody_is_missing_of_whom_nothing_was_seen():
    found = told(all_but("", WAITS), unseen=[2])
    assert found == [("crashed-rank", (2,), "possible")]


def test_where_others_left_nothing_either_nobody_of_them_is_named():
    programs = [f"{HISTORY}abcd|p", "", f"{HISTORY}abcd|p", ""]
    assert named(programs, unseen=[1, 3]) == []


def test_who_printed_a_timeout_waited_and_was_not_missing():
    assert circle("abcd|p") != [("missing-rank", (2,))]


def test_two_that_stopped_at_places_of_their_own_are_both_missing():
    programs = [f"{HISTORY}abc", f"{HISTORY}abcd|p"] * 2
    ranks = {rank for slug, some in named(programs) for rank in some}
    assert ranks == {0, 2}


def test_another_operation_in_place_of_a_call_is_a_mismatch():
    assert named(all_but(f"{HISTORY}abcdp|Q", WAITS)) == [("collective-mismatch", (2,))]


def test_other_sizes_are_too():
    sizes = {(2, len(WAITS) - 2): 9}
    assert named([WAITS] * 4, sizes=sizes) == [("shape-mismatch", (2,))]


def test_other_sizes_at_a_place_where_nobody_else_is_are_another_call():
    told = named(all_but(f"{HISTORY}|M", WAITS))
    assert told == [("rank-conditional-collective", (2,))]


@pytest.mark.parametrize(
    ("function", "slug"),
    [("barrier", "uneven-inputs"), ("all_reduce", "rank-conditional-collective")],
)
def test_a_barrier_is_known_by_its_frame_where_it_is_recorded_as_an_all_reduce(
    function, slug
):
    shown = frames(all_but(f"{HISTORY}|M", WAITS))
    torch = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
    call = {"function": function, "file": f"{torch}/distributed_c10d.py", "depth": 0}
    inside = [{"stack": ord("M"), "source": "dump_2", "line": 1, **call}]
    stacks = tables.rows("stacks", inside)
    (end,) = weighed(Frames({**shown.tables, "stacks": stacks})).ends
    assert (end.story.slug, end.story.ranks) == (slug, (2,))


@pytest.mark.parametrize("before", ["", f"{HISTORY}abcdp"])
def test_of_two_against_two_both_sides_are_told(before):
    programs = [f"{before}|W", f"{before}|W", f"{before}|Q", f"{before}|Q"]
    assert named(programs) == [("collective-mismatch", (0, 1, 2, 3))]


def test_members_that_agree_are_stuck_and_nobody_is_blamed():
    assert told([WAITS] * 4) == [("stuck-in-collective", (), "likely")]


def test_two_that_both_posted_their_halves_of_a_message_are_stuck_in_it():
    programs = [f"{HISTORY}abcd|>", f"{HISTORY}abcd|<"] + [f"{HISTORY}abcdp|W"] * 2
    found = told(programs)
    assert ("stuck-in-collective", (), "likely") in found
    # the look-alike: one of them did not post its half
    programs[1] = f"{HISTORY}abcd"
    assert "stuck-in-collective" not in {slug for slug, _, _ in told(programs)}


def test_in_a_job_that_may_run_that_is_only_possible():
    found = told([WAITS] * 4, stands=False)
    assert found == [("stuck-in-collective", (), "possible")]


@pytest.mark.parametrize("call", ["X", "Q", "B"])
def test_a_call_of_its_own_is_conditional(call):
    assert first(f"|{call}") == [("rank-conditional-collective", (0,))]


@pytest.mark.parametrize("call", ["X", "Q"])
def test_one_of_another_rank_than_the_first_is_too(call):
    assert circle(f"|{call}") == [("rank-conditional-collective", (2,))]


def test_but_a_barrier_there_stands_behind_a_loop():
    assert circle("|B") == [("uneven-inputs", (2,))]
    # whose loop goes on behind it
    assert circle("|Babcd") == [("rank-conditional-collective", (2,))]


def test_an_extra_call_that_all_others_are_at_another_one_in_place_of_is_too():
    """Everybody came to its number, and the call stands in no other one's place."""
    programs = all_but(f"{HISTORY}|X", WAITS)
    assert named(programs) == [("rank-conditional-collective", (2,))]


def test_where_a_condition_and_a_shorter_loop_tie_only_the_mismatch_is_told():
    """A barrier in place of a call: of rank 0, which conditions are on, or of a loop."""
    barrier = f"{HISTORY}abcdp|B"
    assert named([barrier, *[WAITS] * 3]) == [("collective-mismatch", (0,))]


@pytest.mark.parametrize("stacks", [True, False])
def test_the_call_at_the_end_of_an_epoch_too_early_is_uneven(stacks):
    found = circle("|BF", before=EPOCHS, stacks=stacks)
    assert found == [("uneven-inputs", (2,))]


SHORT = ("W" * 30 + "Y") * 3 + "W" * 20


def test_the_end_of_a_loop_that_surprises_as_it_does_each_time_is_uneven_as_well():
    """All ranks came to it a little before, and there it surprised as much."""
    assert named(all_but(f"{SHORT}|Y", f"{SHORT}|W")) == [("uneven-inputs", (2,))]


def test_who_comes_to_it_after_as_many_rounds_as_before_has_not_left_early():
    whole = SHORT + "W" * 10
    assert ("uneven-inputs", (2,)) not in named(all_but(f"{whole}|Y", f"{whole}|W"))


@pytest.mark.parametrize("ahead", ["W", "Wp"])
def test_two_groups_in_the_other_order(ahead):
    assert circle(f"abcd|{ahead}") == [("call-order-deadlock", (2,))]
    assert circle(f"abcd|{ahead}", other="abcd|pW") == [("call-order-deadlock", (2,))]


def test_the_name_of_a_place_is_no_hint_where_the_program_comes_there_anyway():
    """All log in each step; rank 2 does it before its pair's call, for which 3 waits."""
    usual = f"{HISTORY}abcdp|W"
    found = frames([usual, usual, f"{HISTORY}abcd|W", f"{HISTORY}abcd|p"])
    names = {"W": "log_metrics", "p": "step"}
    rows = [
        {"stack": ord(c), "depth": 0, "function": name, "file": "t.py", "file_line": n}
        for n, (c, name) in enumerate(names.items())
    ]
    stacks = tables.rows("stacks", rows)
    (end,) = weighed(Frames({**found.tables, "stacks": stacks})).ends
    assert (end.story.slug, end.story.ranks) == ("call-order-deadlock", (2,))


SENDER, TAKER = ">a<aW" * 16, "<a>aW" * 16


def test_who_left_out_a_half_and_went_on_owes_it():
    others = [f"{SENDER}>a<a|W", f"{TAKER}<a>a|W"]
    left_out = [f"{SENDER}|>a<", f"{TAKER}a|>aW"]
    assert named([*left_out, *others]) == [("unmatched-p2p", (1,))]


def test_who_is_on_the_way_to_it_owes_nothing_and_is_missing():
    others = [f"{SENDER}>a<a|W", f"{TAKER}<a>a|W"]
    late = [f"{SENDER}|>a<", f"{TAKER}"]
    assert named([*late, *others]) == [("missing-rank", (1,))]


def test_all_send_before_they_receive():
    """Which worked as long as messages were small."""
    assert named(["a><" * 16 + "a|>"] * 2) == [("call-order-deadlock", (0, 1))]


def test_a_gpu_is_stalled_in_a_call_that_its_peers_finished():
    programs = [f"{HISTORY}abcdpWa|p"] * 2 + [
        f"{HISTORY}abcdp|Wa",
        f"{HISTORY}abcdpWa|p",
    ]
    assert ("gpu-stall", (2,)) in named(programs)


def test_a_gpu_that_has_not_begun_what_others_have_is_too():
    begun = {0: "started", 1: "started", 3: "started"}
    assert named([WAITS] * 4, states=begun) == [("gpu-stall", (2,))]


def test_gpus_that_have_all_not_begun_one_call_stopped_together():
    """Ranks 0 and 1 make up a group, the others wait for them behind it."""
    programs = [f"{HISTORY}abcd|p"] * 2 + [WAITS] * 6
    assert named(programs, timed=True) == [("gpu-stall", (0, 1))]
    # the look-alikes: one of them has begun it, nothing tells, it may be running
    one = named(programs, timed=True, states={0: "started"})
    assert one == [("gpu-stall", (1,))]
    both = named(programs, timed=True, states={0: "started", 1: "started"})
    assert both == named(programs) == [("stuck-in-collective", ())]
    assert ("gpu-stall", (0, 1)) not in named(programs, timed=True, stands=False)


def test_of_a_rooted_call_others_may_be_done_before_some_have_begun():
    """A reduce ends where a rank has sent its part."""
    before = HISTORY.replace("W", "Z")
    programs = [f"{before}abcdpZ|a"] * 2 + [f"{before}abcdp|Za", f"{before}abcdpZ|a"]
    sure = {(slug, ranks): how for slug, ranks, how in told(programs)}
    assert sure.get(("gpu-stall", (2,))) != "certain"


def test_who_came_when_the_timeout_of_its_peers_had_passed_is_a_straggler():
    late = {2: 700.0}
    assert named([WAITS] * 4, late=late) == [("straggler", (2,))]
    # the job goes on once it has come, as dumps of that moment show
    assert named([WAITS] * 4, late=late, fresh=(0, 1)) == [("straggler", (2,))]
    soon = {2: 400.0}
    assert named([WAITS] * 4, late=soon) == [("stuck-in-collective", ())]


def test_sizes_that_differ_from_step_to_step_change_no_verdict():
    sizes = {
        (rank, place): 100 + 7 * (place // len(STEP))
        for rank in range(4)
        for place in range(300)
    }
    assert circle("abcd|W", sizes=sizes) == [("call-order-deadlock", (2,))]
    assert circle("abc", sizes=sizes) == [("missing-rank", (2,))]


@pytest.mark.parametrize("kept", [6, 12, 30])
def test_a_ring_that_kept_less_changes_no_verdict(kept):
    found = circle("abcd|W", kept={3: kept})
    assert found == [("call-order-deadlock", (2,))]


TALKS = "abc><d", "abc<>d"  # the first rank of a pair sends first


def talk(odd, other, many=16):
    """Return what is told of two pairs, where rank 2 is odd and rank 3 waits for it."""
    mine, theirs = (step * many for step in TALKS)
    rest = [f"{mine}abc|><d", f"{theirs}abc|<>d"]
    return named([*rest, mine + odd, theirs + other])


def test_a_message_that_was_left_out_shifts_the_later_ones():
    """Rank 3's receive is met by the send of the next step, which stands behind."""
    found = talk("abc|<dabc><dabc><d", "abc|<>dabc<>dabc<>d")
    assert ("unmatched-p2p", (2,)) in found


def test_two_calls_in_another_order_at_another_line_are_out_of_order():
    """Rank 2 makes the call of all first, behind a condition; its pair waits."""
    sizes = {(2, len(HISTORY) + 4): ord("W")}
    assert circle("abcd|V", sizes=sizes) == [("call-order-deadlock", (2,))]


def test_a_stage_that_makes_a_call_of_its_own_is_behind_a_condition():
    """All ranks of a role make it, so none of them shows what is usual there."""
    first, last = "abW" * 16, "cdW" * 16
    programs = [f"{first}ab|W"] * 4 + [f"{last}|Y"] * 4
    found = told(programs, hosts=[*"aaaabbbb"])
    assert found == [("rank-conditional-collective", (4, 5, 6, 7), "likely")]


def test_a_stage_that_waits_as_in_each_step_is_not():
    first, last = "abW" * 16, "cdW" * 16
    programs = [f"{first}ab"] * 4 + [f"{last}cd|W"] * 4
    found = named(programs, hosts=[*"aaaabbbb"])
    assert found == [("missing-rank", (0, 1, 2, 3))]


def test_equal_sizes_of_one_rank_in_each_group_of_a_kind_are_one_mismatch():
    """Of four groups of four, with a member that left nothing in each."""
    programs = dict.fromkeys(range(16), f"{'p' * 20}|p")
    groups = {rank: [rank % 4 + 4 * n for n in range(4)] for rank in range(16)}
    sizes = {(rank, 20): 9 for rank in range(4)}
    told = of_groups(programs, groups, sizes, unseen=range(12, 16))
    assert told == [("shape-mismatch", (0, 1, 2, 3), "certain")]


def of_groups(programs, groups, sizes, unseen):
    """What is told where the pairs of the programs are other groups, by rank."""
    found = frames(programs, sizes=sizes, unseen=unseen, hosts=[*"aaaabbbbccccdddd"])
    name = {rank: f"PAIR{min(some)}" for rank, some in groups.items()}
    of_rank = pl.col("rank").replace_strict(name, default=None)
    is_pair = pl.col("pg_desc") == "PAIR"
    pg = pl.when(is_pair).then(of_rank).otherwise("pg").alias("pg")
    members = pl.col("rank").replace_strict(
        groups, default=None, return_dtype=pl.List(pl.Int64)
    )
    listed = pl.when(is_pair).then(members).otherwise("members").alias("members")
    given = {
        **{name: found[name] for name in ("ranks", "sources", "exits")},
        "collectives": found["collectives"].with_columns(pg),
        "groups": found["groups"].with_columns(pg, listed),
    }
    again = correlate(Frames(given))
    ends = weighed(again).ends
    return [(e.story.slug, e.story.ranks, e.confidence) for e in ends]


def test_the_first_call_of_a_group_that_nothing_lists_lacks_members():
    """Ranks 1 and 2 left the loop; Gloo's dumps do not tell who else has to come."""
    programs = [WAITS, f"{HISTORY}abcd|Y", f"{HISTORY}abcd|Y", WAITS]
    assert unlisted(programs) in (
        [("uneven-inputs", (1, 2))],
        [("rank-conditional-collective", (1, 2))],
    )


def test_two_that_met_before_in_such_a_group_may_be_all_its_members():
    """The look-alike: then they are stuck, and the others behind them."""
    programs = [f"Y{p}" if n in (1, 2) else p for n, p in enumerate(LEFT)]
    assert all(ranks == () for _, ranks in unlisted(programs))


LEFT = [WAITS, f"{HISTORY}abcd|Y", f"{HISTORY}abcd|Y", WAITS]


def unlisted(programs):
    """What is told if no dump lists the members of the second group of all."""
    found = frames(programs)
    named = pl.col("pg_desc") != "META"
    given = {name: found[name] for name in ("ranks", "sources", "exits", "collectives")}
    given["groups"] = found["groups"].filter(named)
    again = correlate(Frames(given))
    return [(e.story.slug, e.story.ranks) for e in weighed(again).ends if e.confidence]
