"""When the job stopped, how long nobody noticed, and the symptoms that followed.

A watchdog reports a call when it has waited as long as its timeout, so the job stopped
when that call began to wait. Lines printed after that are counted per kind of message.
They show which ranks waited, never which rank they waited for.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.timing import old_dumps
from ncclforensics.correlate.waits import wait_graph
from ncclforensics.evidence import common, external_stop
from ncclforensics.evidence.external_stop import OUTSIDE
from ncclforensics.model.findings import Cite, Collective, Course, Onset, Seen
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import CITE, FAILING
from ncclforensics.parsers.logs import grammar
from ncclforensics.theory import slow_jobs, wording

if TYPE_CHECKING:
    from ncclforensics.model.findings import Finding, Ranked
    from ncclforensics.model.frames import Frames

WAITED = ("c10d.watchdog.timeout", "c10d.gloo.timeout", "c10d.blocking_wait.timeout")
# exits, and the last words of victims, are reported by other lines as well
TWICE = (
    r"^(?:python\.traceback|python\.cpp_terminate"
    r"|torchelastic\.(?:child_failed|error_file))"
)
CAUSE_NS = 600_000_000_000  # a cause shows at most this long before a rank waits for it
MOST_SEEN = 12
MAX_NS = 2**63 - 1


def of(frames: Frames, ranked: Ranked) -> Course:
    """Return onset and echoes of a ranked analysis; empty if nothing stopped."""
    if ranked.outcome == "no-failure" or slow_jobs.goes_on(frames):
        return Course()
    named = ranked.verdict if ranked.outcome == "failure" else None
    return Course(_onset(frames, ranked), _seen(frames, named), _held(frames, named))


def _held(frames: Frames, verdict: Finding | None) -> Seen | None:
    """Return how many ranks wait for the culprits, directly or through others."""
    if frames["calls"].is_empty():
        return None
    ranks = [] if verdict is None else list(verdict.ranks)
    held = wait_graph.behind(wait_graph.graph(frames["calls"]), ranks)
    calls = frames["calls"].filter(
        pl.col("waiting").list.set_intersection(sorted(held)).list.len() > 0
    )
    if calls.is_empty():
        return None
    first = calls.sort("t", "call", nulls_last=True).row(0, named=True)
    for_whom = f"for {common.ranks(ranks)}"
    words = wording.others_behind(frames, ranks, for_whom).strip().rstrip(".")
    cites = wording.waiting(frames, first)
    cite = cites[0] if cites else Cite(first["source"] or "?", first["line"], "")
    return Seen("waits", words, len(held), tuple(sorted(held)), cite)


def with_call(frames: Frames, ranked: Ranked) -> Ranked:
    """Add the call in which the others waited to a verdict that does not know it."""
    verdict = ranked.verdict
    if verdict is None or ranked.outcome != "failure" or not ranked.findings:
        return ranked
    if slow_jobs.goes_on(frames):
        return ranked
    known = verdict.collective
    if known is not None and (known.seq is not None or (known.op and known.call_site)):
        return ranked
    alone = [role for role, _ in ranked.findings].count("root") == 1
    call = _waited_in(frames, verdict.ranks, alone=alone)
    if call is None:
        return ranked
    if known is not None and known.call_site is not None:
        call = dataclasses.replace(call, call_site=known.call_site)
    told = dataclasses.replace(verdict, collective=call)
    findings = ((ranked.findings[0][0], told), *ranked.findings[1:])
    return dataclasses.replace(ranked, verdict=told, findings=findings)


def _waited_in(
    frames: Frames, ranks: tuple[int, ...], *, alone: bool
) -> Collective | None:
    """Return what the calls with the most waiting ranks have in common, or None.

    Only calls of groups with one of `ranks` count. If there are none, other calls count
    only if these ranks are `alone` to blame.
    """
    calls = frames["calls"].with_columns(pl.col("waiting").list.len().alias("many"))
    calls = calls.filter((pl.col("many") > 0) & ~pl.col("is_p2p").fill_null(False))
    if calls.is_empty():
        return None
    members = pl.concat_list("members", "absent", "unseen")
    theirs = members.list.set_intersection(list(ranks)).list.len() > 0
    numbered = pl.col("seq").is_not_null()
    choices = (theirs & numbered, numbered & alone, theirs, pl.lit(alone))
    chosen = (found for some in choices if (found := calls.filter(some)).height)
    calls = next(chosen, calls.clear())
    if calls.is_empty():
        return None
    # the calls of a step follow one another: of calls with equal waiters, the first
    most = calls.filter(pl.col("many") == pl.col("many").max())
    first = common.collective(
        frames, most.sort("t", "call", nulls_last=True).row(0, named=True)
    )
    return Collective(
        process_group=first.process_group if most["group"].n_unique() == 1 else None,
        process_group_desc=_only(most["pg_desc"], first.process_group_desc),
        seq=first.seq if most["seq"].n_unique() == 1 else None,
        op=_only(most["op"], first.op),
        call_site=_only(most["stack"], first.call_site),
    )


def _only(values: pl.Series, word: str | None) -> str | None:
    return word if values.n_unique() == 1 else None


def _seen(frames: Frames, verdict: Finding | None) -> tuple[Seen, ...]:
    """Count the victims' lines by message, in the order of their first lines."""
    events = frames["events"]
    culprits = [] if verdict is None else list(verdict.ranks)
    cited = set() if verdict is None else {(c.source, c.line) for c in verdict.evidence}
    theirs = ~pl.col("rank").is_in(culprits).fill_null(False)
    suffered = (pl.col("role") == "victim") | (
        (pl.col("role") == "either") & (theirs & pl.col("rank").is_not_null())
    )
    told = events.filter(
        (suffered | (pl.col("message") == "torchelastic.closing"))
        & ~pl.col("message").str.contains(OUTSIDE)
        & ~pl.col("message").str.contains(TWICE)
    )
    if told.is_empty():
        return ()
    # an agent kills processes only after another has failed, so its lines come last
    agents = pl.col("message").str.starts_with("torchelastic.")
    kinds = (
        told.sort(agents, "t", "source", "line", "message", nulls_last=True)
        .group_by("message", maintain_order=True)
        .agg(
            pl.len().alias("many"),
            pl.col("rank").drop_nulls().unique().sort(),
            pl.col("source", "line", "text").first(),
        )
    )
    kinds, followed = _folded(kinds)
    means = {message.id: message.meaning for message in grammar.load()}
    lines = [
        Seen(
            row["message"],
            means.get(row["message"], "") + followed.get(row["message"], ""),
            row["many"],
            tuple(row["rank"]),
            Cite(row["source"] or "?", row["line"], row["text"] or ""),
        )
        for row in kinds.head(MOST_SEEN).iter_rows(named=True)
        if row["many"] > 1 or (row["source"], row["line"]) not in cited
    ]
    return (*lines, *_ended(frames, culprits))


def _folded(kinds: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]]:
    """Keep only the first kind of line of one component on the same ranks.

    A watchdog that gives up prints half a dozen kinds of lines for one event. `kinds`
    has `message many rank`. Returns the kept rows, and by message the text for the
    lines that were left out.
    """
    first: dict[str, tuple[str, set[int]]] = {}
    follow: dict[str, list[int]] = {}
    kept = []
    for message, many, ranks in kinds.select("message", "many", "rank").iter_rows():
        part = ".".join(message.split(".")[:2])
        name, known = first.setdefault(part, (message, set(ranks)))
        kept.append(name == message or not ranks or not set(ranks) <= known)
        if not kept[-1]:
            follow.setdefault(name, []).append(many)
    words = {
        name: f"; {sum(lines):,} more lines of the same event"
        for name, lines in follow.items()
    }
    return kinds.filter(pl.Series(kept, dtype=pl.Boolean)), words


def _ended(frames: Frames, culprits: list[int]) -> tuple[Seen, ...]:
    """Count how the other processes ended, by exit code."""
    if not frames.has("exits"):
        return ()
    ended = frames["exits"].filter(
        (pl.col("code") != 0)
        & pl.col("rank").is_not_null()
        & ~pl.col("rank").is_in(culprits)
    )
    ordered = ended.sort("source", "line", "rank")
    each = ordered.unique("rank", keep="first", maintain_order=True)
    kinds = (
        each.with_columns(common.exit_words(pl.col("code")).alias("word"))
        .sort("source", "line", "rank")
        .group_by("word", maintain_order=True)
        .agg(pl.col("rank").sort(), pl.col("source", "line").first())
    )
    return tuple(
        Seen(
            "exit",
            f"ended with {row['word']}",
            len(row["rank"]),
            tuple(row["rank"]),
            Cite(row["source"] or "?", row["line"], row["word"]),
        )
        for row in kinds.iter_rows(named=True)
    )


def _onset(frames: Frames, ranked: Ranked) -> Onset | None:
    """Return when the job stopped, when that was noticed, and what it cost."""
    verdict = ranked.verdict
    timeouts = _timeouts(frames).drop_nulls("t")
    waits = pl.concat([_open_calls(frames).drop_nulls("t"), timeouts])
    if old_dumps.age(frames) is not None and timeouts.height:
        waits = timeouts
    first = waits.sort("t", "source", "line").head(1)
    stopped = common.first_seen(first)
    how = str(first["text"][0]) if first.height else ""
    cite = common.cites(first)[0] if first.height else None
    seen = verdict.first_seen if verdict is not None else None
    if verdict is not None and seen is not None:
        near = stopped is not None and 0 <= stopped - seen < CAUSE_NS
        if stopped is None or near:
            stopped, how = seen, verdict.headline
            cite = verdict.evidence[0] if verdict.evidence else None
    if stopped is None:
        return None
    noticed = _noticed(frames, stopped)
    alive = _alive(frames, verdict, stopped, noticed)
    if alive.height:
        # steps were still made, so what waited before was not yet the standstill
        at, last_step = pl.col("t").dt.epoch("ns"), common.first_seen(alive)
        later = waits.filter(at.is_between(last_step, noticed or MAX_NS))
        first = later.sort("t", "source", "line").head(1)
        first = first if first.height else alive
        stopped, how = common.first_seen(first) or stopped, str(first["text"][0])
        cite = common.cites(first)[0]
    size = ranked.job.get("world_size") or ranked.job.get("ranks_seen")
    return Onset(
        t=stopped,
        how=how,
        cite=cite,
        noticed=noticed,
        world_size=size if isinstance(size, int) else None,
    )


def _alive(
    frames: Frames, verdict: Finding | None, stopped: int, noticed: int | None
) -> pl.DataFrame:
    """Return the last step made after `stopped`, as `t text source line`.

    Culprits may go on alone, and a step that is printed again is none. After `noticed`,
    ranks that shut down may print their last one.
    """
    culprits = [] if verdict is None else list(verdict.ranks)
    steps = job.steps(frames).drop_nulls("t")
    if steps.is_empty():
        return _open_calls(frames).clear()
    new = pl.col("step") > pl.col("step").cum_max().shift(1).over("source")
    at = pl.col("t").dt.epoch("ns")
    before = at < noticed if noticed is not None else pl.lit(True)
    return (
        steps.sort("source", "line")
        .filter(new.fill_null(False))
        .filter(~pl.col("rank").is_in(culprits).fill_null(False) & before)
        .filter(at > stopped)
        .sort("t", "source", "line")
        .tail(1)
        .select("t", pl.lit("the last step").alias("text"), *CITE)
    )


@remembered
def _open_calls(frames: Frames) -> pl.DataFrame:
    """Return the calls in which a rank waits, as `t text source line`."""
    calls = frames["calls"].filter(pl.col("waiting").list.len() > 0)
    words = common.sentence(
        "ranks wait in ",
        pl.col("op").fill_null("a call"),
        " SeqNum=",
        pl.col("seq").cast(pl.String).fill_null("?"),
        " since then",
    )
    return calls.select("t", words.alias("text"), "source", "line")


def _timeouts(frames: Frames) -> pl.DataFrame:
    """Return the timeouts as `t text source line`; `t` is when the wait began."""
    lines = frames.message(*WAITED)
    spans = [pl.col(c) for c in ("ran_ms", "waited_ms") if c in lines.columns]
    if lines.is_empty() or not spans:
        return _open_calls(frames).clear()
    ran = pl.coalesce(*spans).cast(pl.Int64)
    return lines.select(
        (pl.col("t") - pl.duration(milliseconds=ran)).cast(lines["t"].dtype).alias("t"),
        pl.lit("a call that timed out later began to wait").alias("text"),
        "source",
        "line",
    )


def _noticed(frames: Frames, stopped: int) -> int | None:
    """Return the time (ns) of the first failure line or exit after `stopped`."""
    lines = frames["events"].filter(
        pl.col("role").is_in(FAILING) & ~pl.col("message").str.contains(OUTSIDE)
    )
    ended = frames["exits"].filter(pl.col("code") != 0)
    stopped_by = external_stop.slurm_time(frames.message("slurm.cancelled"))["t"]
    told = pl.concat(
        [part.cast(lines["t"].dtype) for part in (lines["t"], ended["t"], stopped_by)]
    )
    later = told.dt.epoch("ns").drop_nulls()
    later = later.filter(later > stopped)
    return int(str(later.min())) if later.len() else None
