"""Writes what a simulated job did as c10d's Flight Recorder would have dumped it.

What a dump shows is less than what happened: a ring that wrapped, only calls that are
not over, no starts without timing, no stacks, clocks that differ between hosts, files
that were lost. Fields and their traps are those of schema 2.4 to 2.10. A file has the
time at which it would have been written, unless such times are lost.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from simulate import Op, Run
    from simulate_faults import Case

EPOCH_NS = 1_767_323_045_000_000_000
TIMEOUT_MS = 600_000
WRITES_SECONDS = 8.0  # from a timeout to a dump on disk, at most
TORCH = "/usr/lib/python3/dist-packages/torch/distributed"
WRAPPERS = [
    ("{op}", f"{TORCH}/distributed_c10d.py", 2810),
    ("wrapper", f"{TORCH}/c10d_logger.py", 83),
]
# the way to a call: function, file, line, innermost first
SITES: dict[str, list[tuple[str, str, int]]] = {
    "setup": [("broadcast_params", "/job/setup.py", 31), ("main", "/job/train.py", 20)],
    "loss": [("train", "/job/train.py", 70), ("main", "/job/train.py", 24)],
    "evaluate": [
        ("evaluate", "/job/evaluate.py", 12),
        ("train", "/job/train.py", 72),
        ("main", "/job/train.py", 24),
    ],
    "epoch_end": [("main", "/job/train.py", 26)],
    "broadcast_buffers": [
        ("sync_buffers", "/job/buffers.py", 9),
        ("train", "/job/train.py", 68),
        ("main", "/job/train.py", 24),
    ],
}


@dataclass(frozen=True, slots=True)
class Style:
    """How dumps are written, and which are lost.

    `lost_times`: files are as old as their copies, and not as what they tell.
    """

    version: str = "2.10"
    json: bool = False
    frames: bool = True
    timing: bool = False
    ring: int = 2000
    only_active: bool = False
    skew_seconds: float = 0.0
    lost: frozenset[int] = frozenset()
    lost_times: bool = False


def site(name: str) -> list[tuple[str, str, int]]:
    """Return the stack of a call site; layers and schedule have theirs by name."""
    if name not in SITES:
        line = 40 + sum(map(ord, name)) % 50
        SITES[name] = [
            (name, "/job/layers.py", line),
            ("train_step", "/job/schedule.py", 100 + line),
            ("train", "/job/train.py", 60),
            ("main", "/job/train.py", 24),
        ]
    return SITES[name]


def write(case: Case, folder: Path, style: Style, seed: int = 0) -> None:
    """Write the dumps of a case into a folder."""
    dice = random.Random(seed)
    skews: dict[int, float] = {}
    times = written(case, seed)
    for rank in range(len(case.job.runs)):
        skew = skews.setdefault(rank // 8, dice.uniform(-1, 1) * style.skew_seconds)
        if rank in style.lost:
            continue
        told = dump(case, rank, style, skew)
        file = folder / f"nccl_trace_rank_{rank}"
        if style.json:
            file = file.with_suffix(".json")
            file.write_text(json.dumps(_as_json(told)))
        else:
            file.write_bytes(pickle.dumps(told, protocol=2))
        if not style.lost_times:
            when = EPOCH_NS + int((times[rank] + skew) * 1e9)
            os.utime(file, ns=(when, when))


def written(case: Case, seed: int = 0) -> list[float]:
    """Return when each rank's dump is written, in seconds of the job.

    That is at the moment of a snapshot, or behind the first timeout of a call that
    never ended, when the watchdog that finds it tells all others. Who makes calls later
    than that writes its dump behind them.
    """
    dice = random.Random(f"written {seed}")
    runs = case.job.runs
    stuck = [
        run.made[index]
        for run in runs
        for index in range(len(run.made))
        if _times(run, index, math.inf)[1] is None
    ]
    noticed = min(stuck) + TIMEOUT_MS / 1e3 if stuck else 0.0
    found = []
    for run, cut in zip(runs, case.cut, strict=True):
        if cut < math.inf:
            found.append(cut + dice.uniform(0.001, 0.2))
            continue
        ended = [t for t in (*run.made, *run.ended) if t is not None]
        last = max(noticed, *ended) if ended else noticed
        found.append(last + dice.uniform(0.2, WRITES_SECONDS))
    return found


def dump(case: Case, rank: int, style: Style, skew: float = 0.0) -> dict[str, Any]:
    """Return the dump of one rank."""
    run = case.job.runs[rank]
    groups = case.job.groups
    mine = [i for i, group in enumerate(groups) if rank in _members(group)]
    ids = {group: number for number, group in enumerate(mine)}
    timing = style.timing or case.timing
    cut = case.cut[rank]
    entries: list[dict[str, Any]] = []
    counts = dict.fromkeys(mine, (0, 0, 0))
    status: dict[int, list[int]] = {}
    frames: dict[str, list[dict[str, Any]]] = {}
    with_frames = style.frames and rank not in case.frameless and not style.json
    for index, made in enumerate(run.made):
        if made > cut:
            break
        op = run.program[index]
        collective, p2p, number = counts[op.group]
        collective, p2p = collective + (not op.is_p2p), p2p + op.is_p2p
        counts[op.group] = (collective, p2p, number + 1)
        began, ended = _times(run, index, cut)
        seq = p2p if op.is_p2p else collective
        place = status.setdefault(op.group, [0, -1, 0])
        place[0] = seq
        if ended is not None:
            place[2] = seq
        if timing and began is not None:
            place[1] = seq
        if rank in case.mute or (style.only_active and ended is not None):
            continue
        entry = {
            "record_id": index,
            "pg_id": ids[op.group],
            "process_group": (groups[op.group].name, groups[op.group].desc),
            "collective_seq_id": collective,
            "p2p_seq_id": p2p,
            "op_id": number + 1,
            "profiling_name": _name(op, rank, groups[op.group].members),
            "time_created_ns": _ns(made, skew),
            "input_sizes": [list(op.into)],
            "output_sizes": [list(op.out)],
            "input_dtypes": [op.dtype],
            "output_dtypes": [op.dtype],
            "state": _state(began, ended, timing),
            "time_discovered_started_ns": _ns(began, skew) if timing else None,
            "time_discovered_completed_ns": _ns(ended, skew),
            "retired": ended is not None,
            "timeout_ms": TIMEOUT_MS,
            "is_p2p": op.is_p2p,
        }
        if timing and ended is not None and began is not None:
            entry["duration_ms"] = (ended - began) * 1e3
        if with_frames:
            if op.site not in frames:
                frames[op.site] = [
                    {"name": f.format(op=op.name), "filename": file, "line": line}
                    for f, file, line in [*WRAPPERS, *site(op.site)]
                ]
            entry["frames"] = frames[op.site]
        entries.append(entry)
    told = {
        "version": style.version,
        "pg_config": {
            groups[i].name: {
                "name": groups[i].name,
                "desc": groups[i].desc,
                "ranks": str(list(groups[i].members)),
            }
            for i in mine
        },
        "pg_status": {
            str(ids[group]): {
                "last_enqueued_collective": place[0],
                "last_started_collective": place[1],
                "last_completed_collective": place[2],
            }
            for group, place in status.items()
        },
        "entries": entries[-style.ring :],
    }
    if style.version == "2.4":
        del told["pg_status"]
    return told


def _members(group: Any) -> frozenset[int]:
    found = _CACHE.get(id(group))
    if found is None or found[0] is not group:
        found = _CACHE[id(group)] = (group, frozenset(group.members))
    return found[1]


_CACHE: dict[int, tuple[Any, frozenset[int]]] = {}


def _times(run: Run, index: int, cut: float) -> tuple[float | None, float | None]:
    began = run.began[index] if index < len(run.began) else None
    ended = run.ended[index] if index < len(run.ended) else None
    if began is not None and began > cut:
        began = None
    if ended is not None and (ended > cut or index >= run.hides):
        ended = None
    return began, ended


def _state(began: float | None, ended: float | None, timing: bool) -> str:
    if ended is not None:
        return "completed"
    return "started" if timing and began is not None else "scheduled"


def _ns(seconds: float | None, skew: float) -> int | None:
    return None if seconds is None else EPOCH_NS + int((seconds + skew) * 1e9)


def _name(op: Op, rank: int, members: tuple[int, ...]) -> str:
    if op.src is None or op.dst is None:
        return f"nccl:{op.name}"
    src, dst = members.index(op.src), members.index(op.dst)
    if op.name == "send":
        return f"nccl:send {src}->{dst}"
    return f"nccl:recv {dst}<-{src}"


def _as_json(told: dict[str, Any]) -> dict[str, Any]:
    for entry in told["entries"]:
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[key] = entry[key] or 0
        entry["process_group"] = list(entry["process_group"])
    for status in told.get("pg_status", {}).values():
        status.update({key: str(value) for key, value in status.items()})
    if not told["entries"]:
        del told["entries"]
    return told
