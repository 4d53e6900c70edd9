"""Parser for what `collect` writes: the manifest, and the processes of one look.

`{"collected_processes": 1, "host", "taken", "searched", "processes": [{"pid", "rank",
"local_rank", "is_main", "state", "wchan", "kernel_stack", "cpu_s", …}]}`. A process
that waits in a file system gives the same rows as a line of `ps` with WCHAN.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RANK, MAX_RAS_BYTES
from ncclforensics.parsers.logs import timestamps
from ncclforensics.parsers.logs.message_parsers.call_trace import file_system

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ncclforensics.sources import Source

PROCESS, MANIFEST, LISTED = "collect.process", "collect.manifest", "system.ps"
SOCKET = "collect.socket"
FIRST = "collected_processes"
ENDED = "ZX"
COUNTS = ("storage_bytes", "called_bytes", "switches")
_FRAME = re.compile(r"\[<\w+>\] (\w[\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?")
# a server of a file system in user space waits there for requests
_SERVES = "fuse_dev_do_read"
CAPTURES: Mapping[str, tables.Schema] = {
    PROCESS: {
        **dict.fromkeys(("state", "wchan", "waits_at", "file_system"), pl.String()),
        **dict.fromkeys(("name", "torch", "nccl", "interfaces"), pl.String()),
        "cpu_s": pl.Float64(),
        **dict.fromkeys(("storage_bytes", "called_bytes", "switches"), pl.Int64()),
        **dict.fromkeys(("world_size", "local_world_size"), pl.Int64()),
        **dict.fromkeys(("is_main", "searched", "uses_gpu", "is_alive"), pl.Boolean()),
    },
    LISTED: {
        **dict.fromkeys(("name", "file_system", "waits_at"), pl.String()),
        "below": pl.Int64(),
        "process_line": pl.String(),
    },
    SOCKET: {
        **dict.fromkeys(("local", "remote", "state"), pl.String()),
        **dict.fromkeys(("send_queue", "receive_queue"), pl.Int64()),
    },
    MANIFEST: dict.fromkeys(("asked", "why_not"), pl.String()),
}


def read(source: Source) -> Frames:
    """Parse one document; one that cannot be parsed yields a row of `notes`.

    The time of a look is the capture `taken`: it is not the time of an event.
    """
    try:
        data = documents.whole(source, MAX_RAS_BYTES)
        told = msgspec.json.decode(data)
        host = source.host or str(told["host"])
        is_look = FIRST in told
        rows = list(_look(told, data) if is_look else _manifest(told, data))
        begun = [str(p.get("started")) for p in told["processes"]] if is_look else []
    except documents.DAMAGE as error:
        return documents.damaged(source, f"not as `collect` writes it: {error}")
    stamps = pl.DataFrame({"stamp": [str(told.get("taken")), *begun]})
    taken, *begun = stamps.select(timestamps.absolute("stamp")).to_series()
    who = {"host": host, "source": source.name}
    ranks = tables.rows("ranks", ({**row, **who} for row in _ranks(rows)))
    messages = {
        message: _frame(message, [row for key, row in rows if key == message], who)
        for message in dict.fromkeys(key for key, _ in rows)
    }
    if PROCESS in messages:
        since = pl.Series("started", begun, tables.TIME)
        messages[PROCESS] = messages[PROCESS].with_columns(since)
    at = pl.lit(taken).cast(tables.TIME).alias("taken")
    for message in (PROCESS, SOCKET):
        if message in messages:
            messages[message] = messages[message].with_columns(at)
    columns = list(tables.SCHEMAS["events"])
    events = [frame.select(columns) for frame in messages.values()]
    given = {"ranks": ranks} | ({"events": pl.concat(events)} if events else {})
    return Frames(given, messages)


def _frame(
    message: str, rows: list[dict[str, Any]], who: dict[str, str]
) -> pl.DataFrame:
    own = ("rank", "local_rank", "pid", "text", "line")
    shared = {**who, "message": message, "role": "neutral"}
    events = tables.rows(
        "events", ({**{c: row.get(c) for c in own}, **shared} for row in rows)
    )
    schema = CAPTURES[message]
    told = [{c: row.get(c) for c in schema} for row in rows]
    return pl.concat([events, pl.DataFrame(told, schema=schema)], how="horizontal")


def _lines(data: bytes, key: bytes) -> Iterator[int]:
    """Yield the lines on which rows begin, by their first key; then line 1 for ever."""
    for number, line in enumerate(data.split(b"\n"), 1):
        for _ in range(line.count(b"{" + key)):
            yield number
    yield from repeat(1)


def _ranks(rows: list[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for key, row in rows:
        if key == PROCESS and row["is_main"] and row["rank"] is not None:
            yield {c: row[c] for c in ("rank", "local_rank", "pid", "line")}


def _manifest(
    told: dict[str, Any], data: bytes
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what could not be had, and why."""
    for line, row in zip(_lines(data, b'"asked"'), told["asked"], strict=False):
        if why := row.get("why_not"):
            asked, why = str(row["asked"])[:200], str(why)[:200]
            text = f"{asked}: {why}"
            yield MANIFEST, {"asked": asked, "why_not": why, "text": text, "line": line}


def _look(told: dict[str, Any], data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    for line, process in zip(_lines(data, b'"pid"'), told["processes"], strict=False):
        row = _process(process)
        row |= {"searched": bool(told.get("searched")), "line": line}
        yield PROCESS, row
        if row["file_system"] is not None:
            shown = f"{row['pid']} {row['state']} {row['waits_at']} {row['name']}"
            yield LISTED, {**row, "below": 0, "process_line": shown}
        if row["is_main"] and row["rank"] is not None:
            yield from _sockets(process, row)


def _sockets(
    process: dict[str, Any], row: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the connections of a rank that are not made, or that hold bytes.

    And the addresses at which it can be reached.
    """
    for told in process.get("sockets") or []:
        queues = {
            c: _number(told.get(c), 2**40) for c in ("send_queue", "receive_queue")
        }
        state = str(told["state"])
        if state in ("SYN_SENT", "LISTEN") or any(queues.values()):
            local, remote = str(told["local"])[:64], str(told["remote"])[:64]
            text = f"rank {row['rank']}: {local} to {remote}, {state}, " + ", ".join(
                f"{many} bytes in its {name.replace('_', ' ')}"
                for name, many in queues.items()
                if many
            )
            ends = {"local": local, "remote": remote, "state": state}
            who = {c: row[c] for c in ("rank", "pid", "line")}
            yield SOCKET, {**who, **ends, **queues, "text": text.rstrip(", ")}


def _process(told: dict[str, Any]) -> dict[str, Any]:
    """Return the captures of one process."""
    state, wchan = str(told.get("state") or ""), str(told.get("wchan") or "")
    system, waits_at = _waits(state, wchan, told.get("kernel_stack") or [])
    numbers = ("local_rank", "world_size", "local_world_size")
    names = ("torch", "nccl", "name")
    rank = _number(told.get("rank"), MAX_RANK)
    whose = f"rank {rank}, " if rank is not None else ""
    return {
        **{c: _number(told.get(c), MAX_RANK) for c in numbers},
        **{c: str(told[c])[:200] if told.get(c) else None for c in names},
        "rank": rank,
        "pid": _number(told.get("own_pid", told["pid"]), 2**31),
        "is_main": bool(told.get("is_main")),
        "uses_gpu": told.get("uses_gpu") is True,
        "is_alive": bool(state) and state not in ENDED,
        "state": state,
        "wchan": wchan,
        "file_system": system,
        "waits_at": waits_at,
        "cpu_s": float(told["cpu_s"]) if "cpu_s" in told else None,
        **{c: _number(told.get(c), 2**62) for c in COUNTS},
        "interfaces": ",".join(map(str, told.get("interfaces") or [])) or None,
        "text": f"{whose}process {told['pid']} in state {state} {wchan}".rstrip(),
    }


def _waits(state: str, wchan: str, stack: list[Any]) -> tuple[str | None, str | None]:
    """Return the file system and the function that a process waits in.

    In state S it waits there as well, until a first signal comes.
    """
    frames = [(f[1], f[2]) for line in stack if (f := _FRAME.match(str(line)))]
    if state not in ("D", "S") or _SERVES in (wchan, *(name for name, _ in frames)):
        return None, None
    for name, module in [*frames, (wchan, None)]:
        if system := file_system(name, module):
            return system, name
    return None, None


def _number(told: Any, most: int) -> int | None:
    """Read a number; raises ValueError if it is out of range."""
    if told is None:
        return None
    number = int(told)
    if not 0 <= number <= most:
        raise ValueError(f"a number that cannot be: {number}")
    return number
