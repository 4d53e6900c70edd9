"""Writes Flight Recorder dumps for the benchmarks, opcode by opcode as c10d does.

c10's pickler is not Python's: it keeps every text once by its content and every stack
frame that entries share, nothing else, so a list of frames is written out each time. A
test compares the opcodes with those of a dump that torch wrote.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

START_NS = 1_767_323_045_000_000_000
TENSOR_PARALLEL = 8
TORCH = "/usr/lib/python3/dist-packages/torch/distributed"


class Frame(dict[str, object]):
    """A stack frame, which c10's pickler writes once and then refers to."""


class Pickler:
    """Protocol 2 as `c10::Pickler` writes it."""

    def __init__(self) -> None:
        """Begin with nothing kept."""
        self.parts: list[bytes] = [b"\x80\x02"]
        self.memo: dict[str | int, bytes] = {}

    def keep(self, key: str | int) -> None:
        """Memorise what was written last."""
        number = len(self.memo)
        short = number < 256
        self.parts.append(
            b"q%c" % number if short else b"r" + number.to_bytes(4, "little")
        )
        self.memo[key] = (
            b"h%c" % number if short else b"j" + number.to_bytes(4, "little")
        )

    def write(self, value: Any) -> None:
        """Write a plain value."""
        kind = type(value)
        key = value if kind is str else id(value) if kind is Frame else None
        if key is not None and (known := self.memo.get(key)):
            self.parts.append(known)
        elif kind is str:
            data = value.encode()
            self.parts.append(b"X" + len(data).to_bytes(4, "little") + data)
            self.keep(value)
        elif kind is bool:
            self.parts.append(b"\x88" if value else b"\x89")
        elif kind is int:
            self.parts.append(number(value))
        elif kind is float:
            self.parts.append(b"G" + struct.pack(">d", value))
        elif value is None:
            self.parts.append(b"N")
        elif kind is tuple:
            for item in value:
                self.write(item)
            self.parts.append({2: b"\x86"}[len(value)])
        elif kind is list:
            self.parts.append(b"](")
            for item in value:
                self.write(item)
            self.parts.append(b"e")
        else:
            self.parts.append(b"}(")
            for name, item in value.items():
                self.write(name)
                self.write(item)
            self.parts.append(b"u")
            if kind is Frame:
                self.keep(id(value))


def number(value: int) -> bytes:
    """Return the opcode of a number: 1, 2 or 4 bytes wide, or LONG1 of 8."""
    if 0 <= value < 256:
        return b"K%c" % value
    if 0 <= value < 65536:
        return b"M" + value.to_bytes(2, "little")
    if -(2**31) <= value < 2**31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def stack(op: str, site: str, line: int, outer: list[Frame]) -> list[Frame]:
    """Return the frames of a call, innermost first; `outer` are shared."""
    return [
        Frame(name=op, filename=f"{TORCH}/distributed_c10d.py", line=2810),
        Frame(name="wrapper", filename=f"{TORCH}/c10d_logger.py", line=83),
        Frame(name=site, filename="/job/layers.py", line=line),
        *outer,
    ]


def outer() -> list[Frame]:
    """Return the frames that all calls of a rank have in common."""
    return [
        *(
            Frame(name=f"call_{depth}", filename="/job/model.py", line=100 + depth)
            for depth in range(8)
        ),
        Frame(name="train", filename="/job/train.py", line=60),
        Frame(name="<module>", filename="/job/train.py", line=99),
    ]


def told(rank: int, ranks: int, entries: int, absent: int) -> dict[str, Any]:
    """Return the dump of one rank: 9 calls in its group, then one of all ranks."""
    first = rank // TENSOR_PARALLEL * TENSOR_PARALLEL
    own = (str(1 + rank // TENSOR_PARALLEL), "TENSOR_MODEL_PARALLEL_GROUP")
    groups = [
        ("0", "default_pg", list(range(ranks))),
        (*own, list(range(first, min(first + TENSOR_PARALLEL, ranks)))),
    ]
    made = list(_entries(rank, entries, absent, [g[:2] for g in groups]))
    counts = [0, 0]
    for entry in made:
        counts[entry["pg_id"]] += 1
    open_in = made[-1]["pg_id"] if rank != absent else None
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(members)}
            for name, desc, members in groups
        },
        "comm_lib_version": "2.27.3",
        "pg_status": {
            str(group): {
                "last_enqueued_collective": counts[group],
                "last_started_collective": -1,
                "last_completed_collective": counts[group] - (group == open_in),
            }
            for group in (0, 1)
        },
        "entries": made,
    }


def _entries(
    rank: int, entries: int, absent: int, names: list[Any]
) -> Iterator[dict[str, Any]]:
    shared = outer()
    stacks = [
        stack("all_gather_into_tensor", "forward", 40 + i, shared) for i in range(9)
    ]
    stacks.append(stack("all_reduce", "loss", 70, shared))
    counts = [0, 0]
    for record in range(entries - (rank == absent)):
        kind = record % 10
        group = 0 if kind == 9 else 1
        counts[group] += 1
        over = record < entries - 1
        created = START_NS + record * 1_000_000 + rank
        yield {
            "frames": list(stacks[kind]),
            "record_id": record,
            "pg_id": group,
            "process_group": names[group],
            "thread_name": "python3",
            "thread_id": "23456244340032",
            "collective_seq_id": counts[group],
            "p2p_seq_id": 0,
            "op_id": counts[group],
            "profiling_name": "nccl:_all_gather_base" if group else "nccl:all_reduce",
            "time_created_ns": created,
            "input_sizes": [[4096, 5120] if group else [1]],
            "input_dtypes": ["BFloat16" if group else "Float"],
            "output_sizes": [[32768, 5120] if group else [1]],
            "output_dtypes": ["BFloat16" if group else "Float"],
            "state": "completed" if over else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": created + 500_000 if over else None,
            "retired": over,
            "timeout_ms": 600_000,
            "is_p2p": False,
        }


def plain(value: Any) -> Any:
    """Return a value with plain dicts for frames, each of them once."""
    frames: dict[int, dict[str, object]] = {}
    for entry in value["entries"]:
        entry["frames"] = [frames.setdefault(id(f), dict(f)) for f in entry["frames"]]
    return value


def dump(rank: int, ranks: int, entries: int, absent: int) -> bytes:
    """Return the bytes of one rank's dump; `absent` is the rank without a last call."""
    pickler = Pickler()
    pickler.write(told(rank, ranks, entries, absent))
    return b"".join(pickler.parts) + b"."
