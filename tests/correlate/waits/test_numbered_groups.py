"""Groups of old dumps, which have no name and no members, but a number of each process.

Torch 2.2 wrote a dump as a list of entries, each with the number that its process gave
the group: ranks 0 and 2 may be in one group with number 1, ranks 1 and 3 in another.
"""

import pickle

HOUR_US = 3_600_000_000
WORLD, OWN = 0, 1
STEPS = 12


def entry(group, seq, at_us, state="completed"):
    return {
        "pg_id": group,
        "seq_id": seq,
        "profiling_name": "nccl:all_reduce",
        "time_created_us": HOUR_US + at_us,
        "input_sizes": [[64 + group]],
        "output_sizes": [[64 + group]],
        "state": state,
        "retired": state == "completed",
        "frames": [{"name": f"step_{group}", "filename": "train.py", "line": 7}],
    }


def dump(last):
    """A rank that made two calls a step, in its own group first; `last` are not over."""
    made = []
    for step in range(STEPS):
        made += [entry(OWN, step + 1, 10 * step), entry(WORLD, step + 1, 10 * step + 5)]
    counts = {OWN: STEPS, WORLD: STEPS}
    for group, state in last:
        counts[group] += 1
        made.append(entry(group, counts[group], 200, state))
    return pickle.dumps(made)


WAITS = [(OWN, "scheduled"), (WORLD, "scheduled")]
PASSED = [(OWN, "completed"), (WORLD, "scheduled")]
OTHER = [(WORLD, "scheduled")]  # without the call of its own group


def named(analyzed, **last):
    files = {f"nccl_trace_{rank}": dump(calls) for rank, calls in last.items()}
    verdict = analyzed(files).ranked.verdict
    return verdict and (verdict.slug, verdict.ranks)


def test_the_one_rank_that_is_a_call_behind_is_missed_by_those_who_wait(analyzed):
    told = named(analyzed, rank_0=PASSED, rank_1=WAITS, rank_2=PASSED, rank_3=[])
    assert told == ("missing-rank", (3,))


def test_who_went_past_it_is_in_another_group_and_says_nothing_of_its_age(analyzed):
    told = named(analyzed, rank_0=PASSED, rank_1=WAITS, rank_2=PASSED, rank_3=OTHER)
    assert told == ("call-order-deadlock", (3,))


def test_of_several_that_are_a_call_behind_nobody_knows_whose_they_are(analyzed):
    last = {"rank_0": PASSED, "rank_1": WAITS, "rank_2": [], "rank_3": []}
    told = named(analyzed, rank_4=PASSED, rank_5=WAITS, **last)
    assert told is None or told[1] not in ((2,), (3,))


def test_a_rank_without_a_dump_may_be_the_one_that_is_missed(analyzed):
    told = named(analyzed, rank_0=PASSED, rank_1=WAITS, rank_2=[], rank_4=PASSED)
    assert told is None or told[1] == ()
