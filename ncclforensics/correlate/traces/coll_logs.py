"""NCCL's COLL log lines as calls: the rank, the communicator, the ordinal in it.

The host prints such a line when it enqueues a call, so it proves that the call was made
and never that it ended. The number of a call is its place among the collectives of its
communicator; `opCount` does not advance within one node since 2.27.3, and is only used
to detect lost lines. A call that some member never made, or made differently, cannot
end: such calls become rows of `collectives`. How far each rank came goes to
`positions`. If lines may be lost, or a log ends inside a line because the rest never
left a buffer, counts prove nothing: then there is only a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import communicators
from ncclforensics.correlate.traces.communicators import PROCESS
from ncclforensics.model import tables
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import CITE, NCCL_P2P, SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.model.frames import Frames

MESSAGE = "nccl.coll"
DTYPES = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"),
)
SAME = ("op", "count", "datatype")  # what all members of a call agree on
LEADERS = 2  # ranks that must be equally far before another is called late
AHEAD = 40  # calls that a host enqueues before it notices that one does not end
SLIP = 3  # lost lines in a row that are tried
BEHIND = 500  # calls after a difference that are compared

Told = list[dict[str, object]]


def with_calls(frames: Frames) -> Frames:
    """Add calls from COLL lines to `collectives`, `positions`, `groups` and `notes`.

    Unchanged if Flight Recorder dumps have calls: they are better evidence.
    """
    if MESSAGE not in frames.messages or frames.has("collectives"):
        return frames
    known = communicators.inits(frames)
    owners = communicators.owners(known)
    calls = _calls(frames, known, owners)
    made: list[pl.DataFrame] = []
    reached: list[pl.DataFrame] = []
    members: Told = []
    notes: list[Note] = []
    for (key,), lines in calls.group_by("key", maintain_order=True):
        own = owners.filter(pl.col("key") == key)
        cites = {"source": lines["source"][0], "line": lines["line"][0]}
        why, first = _doubts(frames, lines, own)
        if why is not None:
            text = f"calls of communicator {key} are not counted: {why}"
            notes.append(Note("correlate", text, **cites))
            continue
        numbered = lines.drop_nulls("seq")
        made.append(numbered.filter(pl.col("seq") >= first))
        reached.append(_reached(numbered))
        ranks = sorted(own["rank"].drop_nulls().unique())
        if len(ranks) == own["nranks"][0]:
            members.append({"pg": key, "members": ranks, "size": len(ranks), **cites})
    return frames.noting(
        *notes,
        collectives=_with(frames, "collectives", *map(_as_calls, made)),
        positions=_with(frames, "positions", *reached),
        groups=_with(frames, "groups", tables.rows("groups", members)),
    )


def history(frames: Frames) -> pl.DataFrame:
    """Return the calls that lines with a time tell, as `inspected.calls` does.

    Only of communicators whose lines number their calls alike on all members.
    """
    of = SCHEMAS["collectives"]
    added = {"group": pl.String(), "kind": pl.UInt64()}
    if MESSAGE not in frames.messages or not frames.message(MESSAGE)["t"].count():
        return tables.without_rows(of | added)
    known = communicators.inits(frames)
    calls = _calls(frames, known, communicators.owners(known)).drop_nulls("rank")
    counted = [
        lines
        for (_,), lines in calls.group_by("key", maintain_order=True)
        if not lines["reused"].any()
        and (_counts(frames, lines)["unbroken"].all() or _alike(lines))
    ]
    made = pl.concat(counted).drop_nulls(["seq", "t"]) if counted else calls.clear()
    kind = pl.struct("op", "count", "datatype").hash(seed=0)
    beside = made.select(pl.col("key").alias("group"), kind.alias("kind"))
    return _as_calls(made).with_columns(pl.lit("nccl").alias("backend")).hstack(beside)


def _calls(frames: Frames, known: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
    """Return the COLL lines with `key comm_rank nranks rank` and `seq` from 1.

    `seq` is null on P2P calls, which are not numbered. `unread` counts the calls of the
    member that are left out above a line, `reused` tells that the pointer was given to
    another communicator among them. If two files hold the lines of
    one process (a rank's own, and the launcher's), the fuller file is taken.
    """
    lines = frames.message(MESSAGE)
    joined = communicators.named(lines, known).drop_nulls("key")
    member = ["key", "comm_rank"]
    joined = joined.filter(pl.col("nranks") > 1).drop("rank")
    joined = _with_unread(frames, joined, known)
    fullest = (
        joined.group_by(*member, *PROCESS, maintain_order=True)
        .agg((pl.len() + pl.col("unread").sum()).alias("len"))
        .sort("len", descending=True, maintain_order=True)
        .unique([*member, "host", "pid"], keep="first", maintain_order=True)
        .select(*member, *PROCESS)
    )
    kept = joined.join(fullest, on=[*member, *PROCESS], how="semi")
    numbered = ~pl.col("op").is_in(NCCL_P2P)
    place = (numbered + pl.col("unread_numbered")).cum_sum()
    return (
        kept.join(
            owners.select(*member, *PROCESS, "rank"),
            on=[*member, *PROCESS],
            how="left",
            maintain_order="left",
        )
        .sort("key", "source", "line", maintain_order=True)
        .with_columns(
            pl.when(numbered)
            .then(place.over(*member, *PROCESS))
            .cast(pl.Int64)
            .alias("seq")
        )
    )


def _with_unread(
    frames: Frames, calls: pl.DataFrame, known: pl.DataFrame
) -> pl.DataFrame:
    """Add `unread unread_numbered reused` to calls, as `_calls` has them."""
    counts = frames["unread_calls"].select(
        *CITE, "first", unread="calls", unread_numbered="numbered"
    )
    whole = calls.join(counts, on=[*CITE], how="left", maintain_order="left")
    counted = whole.drop_nulls("first")
    above = counted.select(*PROCESS, "comm", "key", at="line", line="first")
    before = communicators.named(above.rename({"key": "now"}), known)
    reused = before.filter(pl.col("key").ne_missing(pl.col("now")))
    reused = reused.select(*PROCESS, line="at", reused=pl.lit(True))
    return whole.join(
        reused, on=[*PROCESS, "line"], how="left", maintain_order="left"
    ).with_columns(
        pl.col("unread", "unread_numbered").fill_null(0),
        pl.col("reused").fill_null(False),
    )


def _doubts(
    frames: Frames, lines: pl.DataFrame, own: pl.DataFrame
) -> tuple[str | None, int]:
    """Return why one communicator's counts prove nothing, or None and a first call.

    `lines` are its COLL lines, `own` its members. The number is that of the first call
    that cannot have ended, or the one after the last if all may have; 0 with a reason.
    """
    if lines.unique(["comm_rank", *PROCESS])["comm_rank"].is_duplicated().any():
        return "two processes claim one of its ranks", 0
    if lines["rank"].null_count() or own["nranks"].n_unique() > 1:
        return "their rank is not known", 0
    # NCCL prints START since 2.18.3; if one is lost, COLL lines may be lost too
    there = own.filter(pl.col("comm_rank").is_in(lines["comm_rank"].unique().implode()))
    if not there["joined"].all() or there["began"].n_unique() > 1:
        return "lines of the log are missing", 0
    if lines["reused"].any():
        return "its pointer was used again among lines that are not read", 0
    counted = _counts(frames, lines)
    sure = counted["unbroken"].all() or _alike(lines)
    if not sure:
        return "opCount jumps, so lines are missing", 0
    numbered = lines.drop_nulls("seq")
    most, least = int(counted["calls"].max()), int(counted["calls"].min())  # type: ignore[arg-type]
    differing = _first_difference(numbered)
    frozen = not counted["moving"].all()
    if differing is not None:
        if frozen and most - differing > AHEAD:
            return "they go on long after the first that differ", 0
        if frozen and _slipped(numbered, differing):
            return "they agree again a few calls later, so lines may be missing", 0
        size = int(own["nranks"][0])
        if _undecided(numbered, differing, size):
            return (
                "the members that would show which rank differs are not in the "
                "evidence",
                0,
            )
        unread = counted.filter(pl.col("cut") & (pl.col("calls") < differing))
        if unread.height:
            return _ends_inside(unread), 0
        return None, min(differing, least + 1)
    if most == least:
        return None, most + 1
    late = counted.filter(pl.col("calls") < most)
    if late["cut"].any():
        return _ends_inside(late.filter("cut")), 0
    if late["closed"].any():
        return "a rank that made fewer calls closed it normally", 0
    leading = counted.height - late.height
    if frozen and leading <= late.height:
        return "fewer ranks are ahead than behind, and lines may be missing", 0
    if not _failing(frames):
        if leading < LEADERS:
            return "no two ranks are ahead, and nothing says that the job failed", 0
        # a stream that several ranks write may have been copied only in part
        shared = counted.filter(pl.len().over("source") > 1)["source"].unique()
        if late["source"].is_in(shared.implode()).any():
            return "the log may end while the job still ran", 0
    return None, least + 1


def _ends_inside(cut: pl.DataFrame) -> str:
    return (
        f"the log of rank {int(cut['rank'][0])} ends inside a line; "
        "what it printed last never left a buffer"
    )


def _counts(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Return a row per member: its number of calls, and how reliable its log is.

    `unbroken`: opCount starts at 0 and skips no step; `moving`: it counts at all;
    `cut`: the file ends inside a line; `closed`: the communicator was destroyed.
    """
    step = pl.col("op_count").diff()
    by_member = lines.group_by("rank", "comm", *PROCESS, maintain_order=True).agg(
        pl.col("seq").max().fill_null(0).alias("calls"),
        (
            (pl.col("op_count").first() == 0)
            & step.is_between(0, 1 + pl.col("unread")).all()
        ).alias("unbroken"),
        (pl.col("op_count").n_unique() == pl.len()).alias("moving"),
        pl.col("line").max(),
    )
    cut = frames["sources"].select("source", pl.col("cut").fill_null(False))
    ends = frames.message("nccl.comm.destroy")
    closed = (
        ends.select(*PROCESS, "comm", pl.lit(True).alias("closed")).unique()
        if "comm" in ends.columns
        else pl.DataFrame(schema={**_strings(), "closed": pl.Boolean()})
    )
    return (
        by_member.join(cut.unique("source"), on="source", how="left")
        .join(closed, on=[*PROCESS, "comm"], how="left")
        .with_columns(pl.col("cut", "closed").fill_null(False))
        .sort("rank")
    )


def _strings() -> dict[str, pl.DataType]:
    return {
        "source": pl.String(),
        "host": pl.String(),
        "pid": pl.Int64(),
        "comm": pl.String(),
    }


def _alike(lines: pl.DataFrame) -> bool:
    """Whether all members print the same opCount at each call: no line is lost."""
    numbered = lines.drop_nulls("seq")
    differ = numbered.group_by("seq").agg(pl.col("op_count").n_unique())
    return bool((differ["op_count"] == 1).all())


def _first_difference(numbered: pl.DataFrame) -> int | None:
    """Return the first call in which two members differ; None if none do."""
    signature = pl.struct(SAME).n_unique()
    split = numbered.group_by("seq").agg(signature.alias("sides"))
    found = split.filter(pl.col("sides") > 1)["seq"].min()
    return None if found is None else int(str(found))


def _undecided(numbered: pl.DataFrame, first: int, size: int) -> bool:
    """Whether the smaller side of a difference depends on members that are unseen."""
    made = numbered.filter(pl.col("seq") == first)
    sides = made.group_by(SAME).len()["len"]
    tied = int((sides == sides.max()).sum()) > 1
    return tied and made["rank"].n_unique() < size


def _slipped(numbered: pl.DataFrame, first: int) -> bool:
    """Whether lost lines explain a difference better: once shifted, members agree."""
    later = numbered.filter(pl.col("seq") >= first).sort("seq")
    tails = {
        tuple(part.select(SAME).head(BEHIND).rows())
        for part in later.partition_by("rank", maintain_order=True)
    }
    return any(
        _agreement(a[lost:], b) > _agreement(a[1:], b[1:])
        for a in tails
        for b in tails
        if a != b
        for lost in range(1, SLIP + 1)
    )


def _agreement(a: Sequence[object], b: Sequence[object]) -> int:
    """Return how many calls two members agree on before they differ."""
    both = min(len(a), len(b))
    return next((i for i in range(both) if a[i] != b[i]), both)


def _failing(frames: Frames) -> bool:
    """Whether anything at all shows that the job did not end well."""
    roles = frames["events"]["role"].is_in(["culprit", "victim", "either"])
    return bool(roles.any()) or bool((frames["exits"]["code"] != 0).any())


def _as_calls(lines: pl.DataFrame) -> pl.DataFrame:
    """Return lines as rows of `collectives`: enqueued, and proven not to end."""
    known = pl.col("datatype").is_between(0, len(DTYPES) - 1)
    dtype = pl.when(known).then(
        pl.col("datatype").replace_strict(
            dict(enumerate(DTYPES)), default=None, return_dtype=pl.String
        )
    )
    # one tensor of one dimension per call
    shape = pl.col("count").reshape((-1, 1, 1)).cast(pl.List(pl.List(pl.Int64)))
    return tables.conform(
        "collectives",
        lines.select(
            "rank",
            pl.col("key").alias("pg"),
            "seq",
            pl.col("line").alias("record_id"),
            "op",
            pl.lit(False).alias("is_p2p"),
            shape.alias("in_sizes"),
            pl.concat_list(dtype).alias("in_dtypes"),
            pl.lit("scheduled").alias("state"),
            "t",
            *CITE,
        ),
    )


def _reached(numbered: pl.DataFrame) -> pl.DataFrame:
    """Return a row of `positions` per rank: its last call in this communicator."""
    last = numbered.sort("seq").group_by("rank", maintain_order=True).last()
    return tables.conform(
        "positions",
        last.select(
            "rank",
            pl.col("key").alias("pg"),
            "op",
            pl.col("seq").alias("last_enqueued"),
            "t",
            "attempt",
            *CITE,
        ),
    )


def _with(frames: Frames, name: str, *more: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frames[name], *more])
