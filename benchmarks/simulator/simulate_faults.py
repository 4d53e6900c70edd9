"""The faults that strike a simulated job, and who is to blame for each.

A fault changes a job before it runs. It is played, and what each rank had done at the
end (or, for a healthy snapshot, at some moment) is what the dumps will show.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import simulate
from simulate import Job, Op

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_SECONDS = 600.0


@dataclass(slots=True)
class Case:
    """A job that was played, and the truth about it.

    `cut` is the moment of each rank's dump, `mute` the ranks whose dump holds no
    entries, `frameless` those whose dump holds no stacks.
    """

    job: Job
    outcome: str
    classes: frozenset[str]
    ranks: frozenset[int]
    cut: list[float]
    mute: frozenset[int] = frozenset()
    frameless: frozenset[int] = frozenset()
    timing: bool = False
    told: dict[str, object] = field(default_factory=dict)


def _index(
    job: Job, rank: int, dice: random.Random, wanted: Callable[[Op], bool]
) -> int:
    """Choose a late call of a rank; one that has happened before in its program."""
    program = job.runs[rank].program
    half = len(program) // 2
    found = [i for i in range(half, len(program)) if wanted(program[i])]
    return dice.choice(found)


def _size(job: Job, op: Op) -> int:
    return len(job.groups[op.group].members)


def _case(
    job: Job, seed: int, classes: tuple[str, ...], ranks: set[int], **more: object
) -> Case:
    simulate.play(job, seed)
    cut = [math.inf] * len(job.runs)
    return Case(job, "failure", frozenset(classes), frozenset(ranks), cut, **more)  # type: ignore[arg-type]


def absent(job: Job, places: list[dict], seed: int, number: int = 1) -> Case:
    """Hosts that get stuck before a call."""
    dice = random.Random(seed)
    ranks = set(dice.sample(range(len(job.runs)), number))
    for rank in ranks:
        index = _index(job, rank, dice, lambda op: op.name != "send")
        job.runs[rank].stops = index
    case = _case(job, seed, ("missing-rank", "straggler"), ranks)
    # a rank that hangs on the other one never comes to the place where it would stop
    stopped = {r for r in ranks if len(job.runs[r].made) == job.runs[r].stops}
    return replace(case, ranks=frozenset(stopped), told={"some": number > 1})


def gil(job: Job, places: list[dict], seed: int) -> Case:
    """A host that is stuck and cannot write its stacks, or not even its entries."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    run = job.runs[rank]
    run.stops = _index(job, rank, dice, lambda op: op.name != "send")
    case = _case(job, seed, ("gil-deadlock", "missing-rank"), {rank})
    if dice.random() < 0.5:
        return replace(case, mute=frozenset({rank}))
    return replace(case, frameless=frozenset({rank}))


def stall(job: Job, places: list[dict], seed: int) -> Case:
    """A GPU whose calls its peers finish and it does not."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    run = job.runs[rank]
    collective = [i for i, op in enumerate(run.program) if not op.is_p2p]
    late = [i for i in collective if len(run.program) // 2 <= i < len(run.program) - 16]
    run.hides = dice.choice(late)
    run.stalls = run.hides + 4 + dice.randrange(8)
    return _case(job, seed, ("gpu-stall", "gpu-fault"), {rank})


def stall_timed(job: Job, places: list[dict], seed: int) -> Case:
    """A GPU that does not begin a call which its peers have begun; timing is on."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    run = job.runs[rank]
    run.stalls = _index(job, rank, dice, lambda op: not op.is_p2p)
    return _case(job, seed, ("gpu-stall", "gpu-fault"), {rank}, timing=True)


def mismatch(job: Job, places: list[dict], seed: int) -> Case:
    """A rank that calls another operation than its group."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    index = _index(job, rank, dice, lambda op: not op.is_p2p and _size(job, op) > 2)
    simulate.with_op(job.runs[rank], index, name="broadcast", site="broadcast_buffers")
    return _case(job, seed, ("collective-mismatch",), {rank})


def shape(job: Job, places: list[dict], seed: int) -> Case:
    """A rank whose tensor is shorter than its peers', or of another type."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    index = _index(
        job,
        rank,
        dice,
        lambda op: not op.is_p2p and _size(job, op) > 2 and op.name != "all_to_all",
    )
    op = job.runs[rank].program[index]
    if dice.random() < 0.3:
        changes: dict[str, object] = {"dtype": "Double"}
    else:
        changes = {
            "into": (op.into[0] * 3,),
            "out": (op.out[0] * 3,),
        }
    simulate.with_op(job.runs[rank], index, **changes)
    return _case(job, seed, ("shape-mismatch",), {rank})


def order(job: Job, places: list[dict], seed: int) -> Case:
    """A rank that enters the last two groups of a step in opposite order."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    run = job.runs[rank]
    index = _index(job, rank, dice, lambda op: op.site == "weights")
    program = list(run.program)
    program[index], program[index + 1] = program[index + 1], program[index]
    run.program = program
    mates = set(job.groups[program[index + 1].group].members)
    return _case(job, seed, ("call-order-deadlock",), mates, told={"any_of": {rank}})


def extra(job: Job, places: list[dict], seed: int) -> Case:
    """Rank 0 alone evaluates, in between two steps."""
    dice = random.Random(seed)
    run = job.runs[0]
    ends = [i for i, op in enumerate(run.program) if op.site == "loss"]
    index = dice.choice(ends[len(ends) // 2 : -1])
    group = job.runs[0].program[index - 1].group if dice.random() < 0.5 else 0
    op = Op(group, "all_reduce", "evaluate", (2,), (2,), "Float", syncs=True)
    run.program = [*run.program[: index + 1], op, *run.program[index + 1 :]]
    return _case(job, seed, ("rank-conditional-collective",), {0})


def early(job: Job, places: list[dict], seed: int) -> Case:
    """A rank that runs out of data and waits for the others after the epoch."""
    dice = random.Random(seed)
    end = Op(0, "barrier", "epoch_end", (1,), (1,), "Byte", syncs=True)
    rank = dice.randrange(1, len(job.runs))
    for r, run in enumerate(job.runs):
        # the last two steps are left out, as far as they have their loss
        ends = [i for i, op in enumerate(run.program) if op.site == "loss"]
        upto = ends[-2] + 1 if r == rank else len(run.program)
        run.program = [*run.program[:upto], end]
    return _case(job, seed, ("uneven-inputs",), {rank})


def unmatched(job: Job, places: list[dict], seed: int) -> Case:
    """A stage that skips a receive and goes on."""
    dice = random.Random(seed)
    ranks = [
        r
        for r, run in enumerate(job.runs)
        if any(op.name == "recv" for op in run.program)
    ]
    rank = dice.choice(ranks)
    run = job.runs[rank]
    last = [i for i, op in enumerate(run.program) if op.name == "recv"]
    index = dice.choice(last[len(last) // 2 :])
    run.program = [*run.program[:index], *run.program[index + 1 :]]
    return _case(job, seed, ("unmatched-p2p",), {rank})


def stuck(job: Job, places: list[dict], seed: int) -> Case:
    """A call that all have joined and nobody finishes."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    run = job.runs[rank]
    index = _index(job, rank, dice, lambda op: not op.is_p2p)
    group = run.program[index].group
    number = sum(op.group == group and not op.is_p2p for op in run.program[: index + 1])
    job.broken.add((group, None, None, number))
    return _case(job, seed, ("stuck-in-collective",), set())


def late(job: Job, places: list[dict], seed: int) -> Case:
    """A rank that comes to a call of the whole job after its peers gave up."""
    dice = random.Random(seed)
    rank = dice.randrange(len(job.runs))
    run = job.runs[rank]
    index = _index(job, rank, dice, lambda op: op.site == "loss")
    number = sum(op.group == 0 for op in run.program[: index + 1])
    job.broken.add((0, None, None, number))
    run.late[index] = TIMEOUT_SECONDS * dice.uniform(1.01, 1.5)
    return _case(job, seed, ("straggler",), {rank})


def healthy(job: Job, places: list[dict], seed: int) -> Case:
    """A job that runs; each rank dumps at about the same moment."""
    dice = random.Random(seed)
    simulate.play(job, seed)
    last = max(end for run in job.runs for end in run.ended if end is not None)
    moment = last * dice.uniform(0.5, 0.95)
    jitter = dice.choice([0.0, 1e-3, last / 20, last])
    cut = [moment + jitter * dice.random() for _ in job.runs]
    return Case(job, "no-failure", frozenset(), frozenset(), cut)


def uneven(job: Job, places: list[dict], seed: int) -> Case:
    """A job that runs, whose ranks load each step's data in 5 to 300 ms."""
    dice = random.Random(seed)
    for run in job.runs:
        for index, op in enumerate(run.program[:-1]):
            if op.site in ("setup", "loss"):
                run.late[index + 1] = dice.uniform(0.005, 0.3)
    case = healthy(job, places, seed)
    moment = min(case.cut)
    return replace(case, cut=[moment + 5e-3 * dice.random() for _ in job.runs])


def finished(job: Job, places: list[dict], seed: int) -> Case:
    """A job that ran to its end."""
    simulate.play(job, seed)
    cut = [math.inf] * len(job.runs)
    return Case(job, "no-failure", frozenset(), frozenset(), cut)


FAULTS: dict[str, Callable[[Job, list[dict], int], Case]] = {
    function.__name__: function
    for function in (
        absent,
        gil,
        stall,
        stall_timed,
        mismatch,
        shape,
        order,
        extra,
        early,
        unmatched,
        stuck,
        late,
        healthy,
        uneven,
        finished,
    )
}


def two_absent(job: Job, places: list[dict], seed: int) -> Case:
    """Two hosts that get stuck, each at a place of its own."""
    return absent(job, places, seed, 2)


FAULTS["two_absent"] = two_absent
