"""What proves that a job stands, or goes on: each fact by itself, and none of them."""

import datetime

import polars as pl
import pytest
from standstills import EPOCH, STEP, frames

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.theory import standstill, weigh

WAITS = f"{STEP * 4}abcdp|W"
LATE = [WAITS, WAITS, f"{STEP * 4}abc", f"{STEP * 4}abcd|p"]
TIMEOUT = 600.0


def made(**more):
    return frames(LATE, stands=False, **more)


def plus(told, **rows):
    """Add rows to frames, given by the name of the frame."""
    given = {name: tables.rows(name, some) for name, some in rows.items()}
    return Frames({**told.tables, **given})


def files(told, seconds):
    """Give the dumps times: how many seconds behind the last call of each rank."""
    newest = EPOCH + datetime.timedelta(seconds=len(WAITS) - 2)
    at = newest + datetime.timedelta(seconds=seconds)
    rows = [
        {"source": f"dump_{rank}", "kind": "flight_recorder.pickle", "modified": at}
        for rank in range(4)
    ]
    return plus(told, sources=rows)


def both(told):
    standing, motion = standstill.standing(told), standstill.motion(told)
    return standing.name, standing.answer, motion.name, motion.answer


NOTHING = ("", "unknown", "", "unknown")


def test_dumps_alone_prove_neither():
    assert both(made()) == NOTHING
    assert standstill.standing(made()).why
    assert standstill.motion(made()).why


@pytest.mark.parametrize(
    "rows",
    [
        {"exits": [{"rank": 2, "code": 1}]},
        {"exits": [{"code": -9}]},
        {"events": [{"message": "c10d.watchdog.timeout", "role": "victim"}]},
    ],
    ids=["exit", "signal", "line"],
)
def test_a_failing_line_or_exit(rows):
    assert standstill.standing(plus(made(), **rows)).name == "line"


def test_an_end_in_peace_proves_nothing():
    assert both(plus(made(), exits=[{"rank": 2, "code": 0}])) == NOTHING


def test_a_call_that_a_watchdog_gave_up():
    told = made()
    open_ = pl.col("state") == "scheduled"
    gave_up = told["collectives"].with_columns(
        pl.when(open_).then(True).otherwise("retired").alias("retired")
    )
    given = {k: v for k, v in told.tables.items() if k != "outline"}
    assert (
        standstill.standing(Frames({**given, "collectives": gave_up})).name == "aborted"
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (TIMEOUT + 5, ("written", "yes", "", "unknown")),
        (TIMEOUT - 30, NOTHING),
        (TIMEOUT + 3_600, NOTHING),
        (1e6, NOTHING),
        (2, ("", "unknown", "early", "yes")),
        (-3_600, NOTHING),
    ],
)
def test_the_time_of_a_file_behind_its_calls(seconds, expected):
    assert both(files(made(), seconds)) == expected


@pytest.mark.parametrize(
    ("apart_s", "moves"), [(310, False), (3_000, True), (20, True)]
)
def test_who_moved_early_between_two_looks_may_have_stopped_since(apart_s, moves):
    """All wait for five minutes; twenty seconds apart are looks at copied files."""
    looks = [
        {"rank": rank, "kind": "dump", "moved": True, "what": "made 36 more calls"}
        | {"apart_ms": apart_s * 1_000, "source": f"dump_{rank}", "line": 1}
        for rank in range(4)
    ]
    found = standstill.motion(plus(files(made(), 300), looks=looks))
    assert (found.name == "looks") == moves


def test_what_is_cited_tells_the_time_that_passed():
    told = standstill.standing(files(made(), TIMEOUT + 5))
    assert [cite.text for cite in told.cites] == [
        "rank 0: written 10 min 5 s after that call began, timeout 10 min"
    ]


def test_a_call_that_was_open_for_its_timeout():
    """A dump is no older than its newest time, here that a GPU's call was found."""
    told = made()
    seen = pl.lit(EPOCH + datetime.timedelta(seconds=700)).cast(tables.TIME)
    first = (pl.col("rank") == 0) & (pl.col("record_id") == 0)
    noticed = told["collectives"].with_columns(
        pl.when(first).then(seen).otherwise("t_completed").alias("t_completed")
    )
    given = {k: v for k, v in told.tables.items() if k != "outline"}
    found = standstill.standing(Frames({**given, "collectives": noticed}))
    assert (found.name, found.why) == (
        "overdue",
        "rank 0 had been in a call for its timeout",
    )


def test_one_that_came_when_the_timeout_had_passed():
    told = frames([WAITS] * 4, stands=False, late={2: TIMEOUT + 100})
    assert standstill.standing(told).name in ("late", "overdue")
    assert (
        standstill.standing(frames([WAITS] * 4, stands=False, late={2: 300})).name == ""
    )


def look(rank, moved):
    what = "made 3 calls more" if moved else "stood in all_reduce"
    return {"rank": rank, "moved": moved, "what": what, "source": f"dump_{rank}"}


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ([True] * 4, ("", "unknown", "looks", "yes")),
        ([False] * 4, ("looks", "yes", "", "unknown")),
        # others came to the call of one that stood: some may still come
        ([False, True, True, True], NOTHING),
    ],
)
def test_two_looks(moved, expected):
    rows = [look(rank, did) for rank, did in enumerate(moved)]
    assert both(plus(made(), looks=rows)) == expected


def test_a_look_at_a_rank_that_waits_for_nobody_does_not_prove_a_hang():
    assert both(plus(made(), looks=[look(2, moved=False)])) == NOTHING


def test_a_call_that_nobody_had_retired_yet():
    assert standstill.motion(made(fresh=[0])).name == "fresh"
    assert standstill.motion(made(fresh=[2])).answer == "unknown"  # the one in question


def test_steps_that_go_on_long_after():
    def at(seconds):
        return EPOCH + datetime.timedelta(seconds=len(WAITS) + seconds)

    def logged(*seconds):
        lines = pl.DataFrame(
            [
                {"message": "python.step", "text": f"step {n}", "step": n}
                | {"t": at(s), "source": "log", "line": n}
                for n, s in enumerate(seconds)
            ]
        )
        events = tables.empty("events")
        typed = pl.concat([events, lines], how="diagonal_relaxed")
        return Frames(made().tables, {"python.step": typed})

    assert standstill.motion(logged(100, 130)).name == "steps"
    assert (
        standstill.motion(logged(100)).answer == "unknown"
    )  # may have left its buffer late
    assert standstill.motion(logged(10, 20)).answer == "unknown"


def test_fresh_dumps_of_ranks_that_wait_in_a_cycle_show_no_job_at_work():
    """In one order of groups nobody waits in a cycle, at any moment."""
    history = f"{STEP * 4}abcd"
    crossed = [f"{history}|p", f"{history}|W", f"{history}p|W", f"{history}p|W"]
    told = files(frames(crossed, stands=False), 2)
    assert standstill.motion(told).name == standstill.EARLY
    assert not weigh.is_moving(told)
    assert weigh.is_moving(files(made(), 2))


def test_fresh_dumps_of_members_in_different_calls_show_no_job_at_work():
    """Under one number, some are in another operation: that never goes on."""
    history = f"{STEP * 4}abcdp"
    told = files(frames([f"{history}|{c}" for c in "WWQW"], stands=False), 2)
    assert standstill.motion(told).name == standstill.EARLY
    assert not weigh.is_moving(told)
    (end,) = weigh.weighed(told).ends
    assert (end.story.slug, end.story.ranks) == ("collective-mismatch", (2,))
    assert end.confidence == "possible"


@pytest.mark.parametrize(("seconds", "name"), [(TIMEOUT + 100, "late"), (300, "")])
def test_an_absent_rank_that_is_in_other_calls_after_the_timeout_proves_it(
    seconds, name
):
    """Rank 2 is on its way still; the others wait since its call before last."""
    programs = [WAITS, WAITS, f"{STEP * 4}abcdpabc|", WAITS]
    told = frames(programs, stands=False, late={2: seconds})
    assert standstill.standing(told).name == name


def test_dumps_that_others_show_to_be_older_are_of_a_job_that_ran_meanwhile():
    """Unless files tell that the last one waited long after the older were written."""
    moved = [STEP * 4, STEP * 4, STEP * 5, f"{STEP * 6}abcdp|W"]
    told = frames(moved, stands=False)
    ends = [len(some.partition("|")[0]) for some in moved]

    def written(*seconds):
        after = zip(ends, seconds, strict=True)
        at = [EPOCH + datetime.timedelta(seconds=sum(both)) for both in after]
        some = zip(told["sources"].iter_rows(named=True), at, strict=True)
        return plus(told, sources=[{**row, "modified": time} for row, time in some])

    year = 365 * 86400
    assert standstill.motion(told).name == "passed"
    assert standstill.motion(written(year, year, year, year)).name == "passed"
    assert standstill.motion(written(0, 0, 0, 300)).name != "passed"


def test_ranks_whose_gpus_are_stuck_have_made_all_calls_and_prove_no_motion():
    """Their peers finished these calls, in which an older dump would stand as well."""
    history = STEP * 4
    ahead, stuck = f"{history}abcdpqp|W", f"{history}abcd|pqpW"
    told = frames([ahead, stuck, ahead, stuck], stands=False)
    assert standstill.motion(told).answer == "unknown"
    older = f"{history}abcd|p"
    told = frames([ahead, older, ahead, older], stands=False)
    assert standstill.motion(told).name == "passed"
