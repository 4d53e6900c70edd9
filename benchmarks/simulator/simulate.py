"""A training job in virtual time: what every rank called, and how far each call came.

Ranks run programs like Megatron's: tensor, data, pipeline and expert groups, forward
and backward over micro-batches, gradients, the loss of the whole job. A host enqueues
calls ahead of its GPU until it waits for a result; a GPU executes them in order; a
collective ends when all members have begun it, a message when both sides have.

It is a model and leaves out: several streams of one GPU, eager sends, the time of the
watchdog's polling, retries. It shares no code with the analyzer.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field, replace

AHEAD = 40  # calls that a host may be ahead of its GPU
HOST_SECONDS = 2e-5
CALL_SECONDS = 3e-4


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its name (c10d's counter), what it is for, its global ranks."""

    name: str
    desc: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """A call of a rank's program; `src` and `dst` are global ranks."""

    group: int
    name: str
    site: str
    into: tuple[int, ...] = (1024,)
    out: tuple[int, ...] = (1024,)
    dtype: str = "BFloat16"
    src: int | None = None
    dst: int | None = None
    blocks: bool = True
    syncs: bool = False
    work: float = 2e-4

    @property
    def is_p2p(self) -> bool:
        """Whether it is a message and no collective."""
        return self.src is not None


@dataclass(slots=True)
class Run:
    """A rank's program, and when the host made, the GPU began and ended each call.

    `stops` is the call that its host never makes, `stalls` the one that its GPU never
    begins, `hides` the first whose end is never noticed; `late` delays calls.
    """

    program: list[Op]
    stops: float = math.inf
    stalls: float = math.inf
    hides: float = math.inf
    late: dict[int, float] = field(default_factory=dict)
    made: list[float] = field(default_factory=list)
    began: list[float | None] = field(default_factory=list)
    ended: list[float | None] = field(default_factory=list)
    free: float | None = 0.0
    counts: dict[object, int] = field(default_factory=dict)


@dataclass(slots=True)
class Job:
    """The groups, one program a rank, and the calls that never end once joined."""

    groups: list[Group]
    runs: list[Run]
    broken: set[object] = field(default_factory=set)


def layout(tp: int, pp: int, dp: int, ep: int = 1) -> tuple[list[Group], list[dict]]:
    """Return the groups, and for each rank its place and its group of each kind.

    Ranks count tensor first, then data, then pipeline. Group names are a counter of the
    whole job, as c10d's are.
    """
    world = tp * pp * dp

    def rank(t: int, d: int, p: int) -> int:
        return t + tp * (d + dp * p)

    places = [
        {"t": r % tp, "d": r // tp % dp, "p": r // (tp * dp), "kinds": {}}
        for r in range(world)
    ]
    groups = [Group("0", "default_pg", tuple(range(world)))]
    for place in places:
        place["kinds"]["WORLD"] = 0
    wanted = [
        ("DATA_PARALLEL_GROUP", lambda q: (q["t"], q["p"]), dp),
        ("TENSOR_MODEL_PARALLEL_GROUP", lambda q: (q["d"], q["p"]), tp),
        ("PIPELINE_MODEL_PARALLEL_GROUP", lambda q: (q["t"], q["d"]), pp),
        ("EXPERT_MODEL_PARALLEL_GROUP", lambda q: (q["p"], q["t"], q["d"] // ep), ep),
    ]
    counter = 1
    for desc, key, size in wanted:
        found: dict[object, list[int]] = {}
        for r, place in enumerate(places):
            found.setdefault(key(place), []).append(r)
        for members in found.values():
            if size > 1:
                for r in members:
                    places[r]["kinds"][desc[:2]] = len(groups)
                groups.append(Group(str(counter), desc, tuple(members)))
            counter += 1
    return groups, places


def step(rank: int, place: dict, groups: list[Group], batches: int) -> list[Op]:
    """Return one training step of a rank."""
    kinds = place["kinds"]
    pipeline = groups[kinds["PI"]].members if "PI" in kinds else (rank,)
    stage = pipeline.index(rank)
    before = pipeline[stage - 1] if stage else None
    behind = pipeline[stage + 1] if stage + 1 < len(pipeline) else None
    ops: list[Op] = []

    def message(name: str, src: int, dst: int, site: str, waits: bool = True) -> None:
        ops.append(Op(kinds["PI"], name, site, src=src, dst=dst, blocks=waits))

    def layers(site: str) -> None:
        for _ in range(2):
            if "TE" in kinds:
                n = len(groups[kinds["TE"]].members)
                ops.append(Op(kinds["TE"], "_all_gather_base", site, (64,), (64 * n,)))
            if "EX" in kinds:
                uneven = (512 + 16 * rank,)
                ops.append(Op(kinds["EX"], "all_to_all", f"{site}_moe", uneven, uneven))
            if "TE" in kinds:
                out = f"{site}_out"
                ops.append(
                    Op(kinds["TE"], "_reduce_scatter_base", out, (64 * n,), (64,))
                )

    for last in [*[False] * (batches - 1), True]:
        if before is not None:
            message("recv", before, rank, "recv_forward")
        layers("forward")
        if behind is not None:
            message("send", rank, behind, "send_forward", last)
    for last in [*[False] * (batches - 1), True]:
        if behind is not None:
            message("recv", behind, rank, "recv_backward")
        layers("backward")
        if before is not None:
            message("send", rank, before, "send_backward", last)
    if "DA" in kinds:
        n = len(groups[kinds["DA"]].members)
        ops.append(
            Op(kinds["DA"], "_reduce_scatter_base", "gradients", (512 * n,), (512,))
        )
        ops.append(Op(kinds["DA"], "_all_gather_base", "weights", (512,), (512 * n,)))
    ops.append(Op(0, "all_reduce", "loss", (1,), (1,), "Float", syncs=True))
    return ops


def job(
    tp: int, pp: int, dp: int, ep: int = 1, steps: int = 3, batches: int = 2
) -> tuple[Job, list[dict]]:
    """Return a job before its first call, with the place of each rank."""
    groups, places = layout(tp, pp, dp, ep)
    runs = []
    for rank, place in enumerate(places):
        begin = Op(0, "broadcast", "setup", (2048,), (2048,), "Float", syncs=True)
        runs.append(Run([begin] + step(rank, place, groups, batches) * steps))
    return Job(groups, runs), places


def signature(op: Op) -> object:
    """Return what members have to agree on for a call to end."""
    if op.name == "all_to_all":
        return op.name, op.dtype
    return op.name, op.into, op.dtype


def play(told: Job, seed: int) -> None:
    """Let every rank run until all have ended or nothing moves any more."""
    dice = random.Random(seed)
    arrived: dict[object, list[tuple[int, int]]] = {}
    pending = deque(range(len(told.runs)))
    queued = set(pending)
    while pending:
        rank = pending.popleft()
        queued.discard(rank)
        for woken in _advance(told, rank, arrived, dice):
            if woken not in queued:
                queued.add(woken)
                pending.append(woken)


def _advance(told: Job, rank: int, arrived: dict, dice: random.Random) -> set[int]:
    run = told.runs[rank]
    woken: set[int] = set()
    _enqueue(run)
    while len(run.began) < len(run.made) and run.free is not None:
        index = len(run.began)
        if index >= run.stalls:
            break
        op = run.program[index]
        work = op.work * dice.uniform(0.7, 1.3)
        start = max(run.made[index], run.free + work)
        run.began.append(start)
        run.ended.append(None)
        run.free = None if op.blocks else start
        key = (
            (op.group, op.src, op.dst, op.name == "send")
            if op.is_p2p
            else (op.group, None, None, False)
        )
        number = run.counts[key] = run.counts.get(key, 0) + 1
        call = (*key[:3], number)
        came = arrived.setdefault(call, [])
        came.append((rank, index))
        size = 2 if op.is_p2p else len(told.groups[op.group].members)
        if len(came) == size and call not in told.broken:
            signatures = {
                signature(told.runs[r].program[i]) if not op.is_p2p else None
                for r, i in came
            }
            if len(signatures) == 1:
                begun = [told.runs[r].began[i] or 0.0 for r, i in came]
                for r, i in came:
                    peer = told.runs[r]
                    peer.ended[i] = max(begun) + CALL_SECONDS
                    if peer.program[i].blocks:
                        peer.free = peer.ended[i]
                    woken.add(r)
            del arrived[call]
        _enqueue(run)
    return woken


def _enqueue(run: Run) -> None:
    """Let a host make calls until it has to wait."""
    while (index := len(run.made)) < len(run.program) and index < run.stops:
        ready = run.made[-1] + HOST_SECONDS if index else 0.0
        waits = []
        if index and run.program[index - 1].syncs:
            waits.append(index - 1)
        if index >= AHEAD:
            waits.append(index - AHEAD)
        ends = [run.ended[i] if i < len(run.ended) else None for i in waits]
        if None in ends or any(i >= run.hides for i in waits):
            return
        ready = max([ready, *(end for end in ends if end is not None)])
        run.made.append(ready + run.late.get(index, 0.0))


def with_op(run: Run, index: int, **changes: object) -> None:
    """Change one call of a program."""
    run.program = list(run.program)
    run.program[index] = replace(run.program[index], **changes)  # type: ignore[arg-type]
