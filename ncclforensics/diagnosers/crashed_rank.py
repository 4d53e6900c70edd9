"""A rank died for a reason of its own, and its peers lost it.

What it means
    A process ended for a reason of its own (exception, signal or exit) while its peers
    were in a collective with it. The peers report closed connections or timeouts, and
    the agent then kills them.

How we know
    An uncaught exception that is not about lost peers; SIGSEGV, SIGBUS, SIGABRT, SIGFPE
    or SIGKILL that nobody in this job sent; an exit code without any exception. The
    first such end is named: agents record its time, and a victim's error itself says
    that it lost a peer. The finding is only `possible` where the job is known to stand
    still and all waits lead to a rank that left neither a dump nor a log line. An
    exception raised in a collective may be a victim's: it counts if all other ranks say
    that they are victims. A rank that says nothing, while all others say that they lost
    a peer, ended as well. A death without a rank is of the one rank that all others
    wait for and that left no dump; where those of a whole host left none, its local
    rank tells which. One that all ranks raise alike is a failure of the program, and so
    is one fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL) of most ranks at one moment: no rank
    is named. Nor is one whose exception says what torch was built without: all ranks of
    that installation fail at that call.

What to do
    Read that rank's traceback. For SIGKILL, ask the kernel log of that host who killed
    it (`dmesg -T | grep -i -E 'killed process|oom'`). For SIGSEGV and SIGBUS, run with
    `python -X faulthandler` and keep a core dump (`ulimit -c unlimited`).

Looks like
    SIGABRT after `taking the entire process down` comes from a victim's own watchdog,
    and SIGTERM from the agent. The `Root Cause (first observed failure)` of torchrun is
    only the first child that its agent saw dead.
    CUDA out of memory is `gpu-oom`; a kill by the kernel is `host-oom`.

References
    torch.distributed.elastic error propagation; signal(7).
"""

from __future__ import annotations

import builtins
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive, exit_records
from ncclforensics.correlate.identity import host_blocks, world
from ncclforensics.diagnosers import domains
from ncclforensics.evidence import common, exceptions, primary_exits, ras_status
from ncclforensics.model import wanted
from ncclforensics.model.actions import CITED, OWN_LOG, Action
from ncclforensics.model.findings import Collective, Finding
from ncclforensics.theory import uncollected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    *("calls", "exits", "python.traceback", "torchelastic.error_file", "python.fatal"),
    *("c10d.watchdog.terminated", "slurm.task_ended", "launchers.", "ncclras."),
    *("python.dataloader", "python.device_assert", "python.cuda_error"),
    "python.cuda_library",
    *("nccl_tests.cuda_failure", "nccl.cuda.failure", *exceptions.HEADLESS),
    *("jax.heartbeat_lost", "hccl.heartbeat", "system.hsa.fault", "system.glibc.abort"),
)
MISSING, NEXT_TIME = wanted.LOGS
EXPLAINS = (
    *("missing-rank", "timeout-masking", "rendezvous-failed"),
    *("socket-error", "ib-error", "straggler"),
)
SPREADS = False
MOST_KINDS = 3
BY_WAITS = (
    " Nothing printed there names the rank: all others wait for {}, without a dump."
)
BY_PLACE = " Of these it is the one with that local rank."
# what no launcher sends, as its code or by what faulthandler prints
FAULTED = primary_exits.is_fault().fill_null(False) | (pl.col("by") == "fatal")
# by Python's own classes: what is not there, and what is wrong with an object
NOT_THERE = (OSError, ImportError)
WRONG = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError),
    *(NotImplementedError, TypeError, ValueError),
)
# launchers that tell the first end that they saw, and send no SIGKILL before it; who
# ends a whole job kills them as well
OUTLIVING = ("deepspeed", "mpirun")
# what torch was built without, in its own words
BUILT_WITHOUT = (
    r"Distributed package doesn't have \w+ built in|not compiled with CUDA enabled"
)
# of a fault that the kernel tells: torch names its threads pt_*
OF_TRAINING = pl.coalesce(
    pl.col("library").str.contains(r"^lib(?:nccl|rccl|torch|c10|cudnn|cublas)"),
    pl.lit(False),
) | pl.col("name").str.starts_with("pt_")
# what was raised, without words that may differ from rank to rank
KIND = pl.coalesce(pl.col("why").str.extract(r"^([\w.]+):"), "why")


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that died first, for a reason of their own."""
    deaths = primary_exits.of_own(frames)
    if ranks := _alike(frames, deaths):
        yield _of_the_program(frames, deaths, ranks)
        return
    first = _placed(frames, primary_exits.first(deaths))
    if first.height and first["why"].str.contains(BUILT_WITHOUT).all():
        yield _of_the_build(first)
        return
    if first.is_empty():
        gone = ras_status.unanswered(frames)
        if gone is not None and gone.slug == "crashed-rank":
            yield gone
        else:
            yield from uncollected.findings(frames, "crashed-rank")
        return
    if (named := _awaited(frames, first)) is not None:
        yield named
        return
    for alike in _by_reason(first):
        yield _fallen(frames, alike)


def _placed(frames: Frames, first: pl.DataFrame) -> pl.DataFrame:
    """Return the only death of an unknown rank as that of the only process gone."""
    gone = alive.gone(frames)["rank"]
    if gone.len() != 1 or not _is_nameless(first):
        return first
    return first.with_columns(rank=pl.lit(gone[0], pl.Int64))


def _awaited(frames: Frames, first: pl.DataFrame) -> Finding | None:
    """Return the only death of an unknown rank as that of the one that all wait for.

    None if there are several, or if that rank is known to be on another host.
    """
    if not _is_nameless(first):
        return None
    lost, waits = uncollected.awaited(frames)
    died = _with_local_rank(frames, first, lost)
    hosts = common.hosts_of(frames, died)
    if len(died) != 1 or (hosts and first["host"][0] not in (None, *hosts)):
        return None
    found = _fallen(frames, first.with_columns(rank=pl.lit(died[0], pl.Int64)))
    told_by = BY_WAITS.format(common.ranks(lost)) + (BY_PLACE if died != lost else "")
    return replace(
        found,
        confidence="likely" if found.confidence == "certain" else found.confidence,
        explanation=found.explanation.rstrip() + told_by,
        evidence=(*found.evidence, *waits),
    )


def _with_local_rank(
    frames: Frames, first: pl.DataFrame, lost: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the rank of a death by its local rank, if all ranks of a host are lost.

    An agent that reports one end of several had to end the others itself.
    """
    exits = frames["exits"].join(first, on=["source", "line"], how="semi")
    place = exits["local_rank"].drop_nulls()
    whole = len(lost) > 1 and host_blocks.is_one(lost)
    if not whole or place.len() != 1 or place[0] >= len(lost):
        return lost
    return (sorted(lost)[place[0]],)


def _is_nameless(first: pl.DataFrame) -> bool:
    return first.height == 1 and first["rank"][0] is None


def _alike(frames: Frames, deaths: pl.DataFrame) -> frozenset[int]:
    """Return all ranks of the job if they raised the same exception at the same place.

    Or most, if they got the same fault at one moment, so that none can be the echo of
    another, also where its launcher had just told it to end: that sends no such signal.
    """
    if deaths.select(KIND.alias("kind"), "site", "by").unique().height != 1:
        return frozenset()
    ranks = exit_records.ranks_of(deaths)
    if deaths["by"][0] not in ("traceback", "call"):
        if not deaths.select(FAULTED.all()).item():
            return frozenset()
        told = exit_records.ended(frames), exit_records.torn_down(frames)
        ends = pl.concat(told).with_columns(pl.lit("exit").alias("by"))
        alike = ends["code"].is_in(deaths["code"].drop_nulls().implode()).all()
        at_once = (primary_exits.first(e).height == e.height for e in (deaths, ends))
        if not (alike and all(at_once)) or exit_records.has_outlived(frames, ends):
            return frozenset()
        ranks |= exit_records.ranks_of(ends)
        are_most = len(ranks) > 1 and 2 * len(ranks) > len(world.ranks(frames))
        return frozenset(ranks if are_most else ())
    return frozenset(ranks if world.is_everyone(frames, ranks) else ())


def _of_the_program(
    frames: Frames, deaths: pl.DataFrame, ranks: frozenset[int]
) -> Finding:
    """Return the finding for a failure of the program: no rank is the culprit."""
    many = len(world.ranks(frames))
    everyone = len(ranks) == many
    who = f"all {many} ranks" if everyone else f"{len(ranks)} of {many} ranks"
    why, site = str(deaths["why"][0]), deaths["site"][0]
    raised = deaths["by"][0] in ("traceback", "call")
    did = "raised" if raised else "ended:"
    how = "raised the same exception" if raised else "ended by the same fault at once"
    return Finding(
        slug="crashed-rank",
        confidence="certain" if raised else "likely",
        headline=f"{who} {did} {why}"[:200],
        evidence=common.cites(deaths, 2),
        explanation=f"{who[0].upper()}{who[1:]} {how}: {why}"
        + (f", in {site}" if site else "")
        + ". The program, its libraries or its configuration fails on "
        + f"{'every rank' if everyone else 'most ranks'}: none is to blame.",
        remedy=(CITED,) if raised else _remedy(deaths),
        collective=Collective(call_site=site) if site else None,
        first_seen=common.first_seen(deaths),
        own=True,
        variant=_variant(deaths, alike=True),
    )


def _of_the_build(first: pl.DataFrame) -> Finding:
    """Return the finding for a torch that lacks what the program asks for."""
    why = str(first["why"][0])
    return Finding(
        slug="crashed-rank",
        confidence="likely",
        headline=f"this torch was built without what the program asks for: {why}"[:200],
        evidence=common.cites(first, 2),
        explanation=f"{why}. Every rank of this installation fails at that call: the "
        "one that printed it is not to blame.",
        remedy=(
            'python -c "import torch; print(torch.__version__, torch.version.cuda)"',
            CITED,
        ),
        first_seen=common.first_seen(first),
        own=True,
        variant=domains.SETTING,
    )


def _by_reason(first: pl.DataFrame) -> list[pl.DataFrame]:
    """Split ranks that died for different reasons: each reason becomes a finding.

    They are split only if there are at most `MOST_KINDS` kinds of exceptions, each
    raised by different ranks. An error whose text differs from rank to rank is one.
    """
    parts = first.with_columns(KIND.alias("kind")).partition_by(
        "kind", maintain_order=True, include_key=False
    )
    ranks = [common.numbers(part["rank"]) for part in parts]
    told = [rank for some in ranks for rank in some]
    apart = len(parts) <= MOST_KINDS and all(ranks) and len(told) == len(set(told))
    return parts if apart else [first]


def _fallen(frames: Frames, first: pl.DataFrame) -> Finding:
    """Return the finding for ranks that died for one reason."""
    ranks = common.numbers(first["rank"])
    hosts = (
        common.hosts(first["host"])
        or common.hosts_of(frames, ranks)
        or _ended_on(frames, ranks)
    )
    why = str(first["why"][0])
    who = common.speakers(frames, first)
    where = common.on(hosts)
    own = "their own" if len(ranks) > 1 else "its own"
    sites = first["site"].drop_nulls()
    site = str(sites[0]) if sites.len() else None
    return Finding(
        slug="crashed-rank",
        confidence=_confidence(frames, first),
        headline=f"{who} ended: {why}"[:200],
        evidence=common.cites(first),
        explanation=f"{who.capitalize()}{where} ended first, for a reason of {own}: "
        f"{why}" + (f", in {site}" if site else "") + ". " + _hint(first),
        remedy=_remedy(first),
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        collective=Collective(call_site=site) if site else None,
        first_seen=common.first_seen(first) or _noted(frames, ranks),
        own=bool(first["by"].is_in(["traceback", "fatal"]).all()),
        variant=_variant(first, alike=False),
    )


def _variant(deaths: pl.DataFrame, *, alike: bool) -> str:
    """Return what the exceptions show of where the failure lies, "" if nothing."""
    if not deaths["by"].is_in(["traceback", "call"]).all():
        return ""
    names = deaths.select(KIND.str.extract(r"([\w]+)$").alias("name"))["name"]
    kinds = [getattr(builtins, str(name), object) for name in names.unique()]
    kinds = [kind if isinstance(kind, type) else object for kind in kinds]
    if alike and all(issubclass(kind, NOT_THERE) for kind in kinds):
        return domains.SETTING
    if alike:
        return domains.PROGRAM
    return domains.OWN_CHECK if all(issubclass(k, WRONG) for k in kinds) else ""


def _confidence(frames: Frames, first: pl.DataFrame) -> Confidence:
    """Return how sure it is that these ranks died first.

    Heartbeats also stop where a process hangs or its node is lost. An unexplained
    SIGKILL, without any peer that lost a rank, may be teardown. What a kernel alone
    says, where no rank is known at all, may be of another program, unless it fell in a
    library, or in a thread, that only a training has.
    """
    if (first["by"] == "heartbeat").any():
        return "possible"
    if (first["by"] != "exit").all():
        guessed = first["by"].is_in(["call", "silence"]).any()
        return "likely" if guessed else "certain"
    faults = frames.message(alive.FAULT)
    if faults.height:  # else it has no columns of its own
        faults = faults.filter(~OF_TRAINING)
    others = first.join(faults, on=["source", "line"], how="anti")
    if others.is_empty() and frames["ranks"]["rank"].drop_nulls().is_empty():
        return "possible"
    killed = first["code"].eq_missing(-signal.SIGKILL).all()
    unclear = killed and not (_is_missed(frames) or _is_outlived(frames, first))
    return "possible" if unclear else "likely"


def _is_missed(frames: Frames) -> bool:
    return bool((frames["events"]["role"] == "victim").any())


def _is_outlived(frames: Frames, first: pl.DataFrame) -> bool:
    """Whether a launcher saw the process killed before it ended the others itself."""
    seen = frames["exits"].filter(pl.col("reported_by").is_in(OUTLIVING))
    return first.join(seen, on=["source", "line"], how="anti").is_empty()


def _ended_on(frames: Frames, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """Return the hosts where launchers saw these ranks end."""
    ended = exit_records.ended(frames).filter(pl.col("rank").is_in(list(ranks)))
    return common.hosts(ended["host"])


def _noted(frames: Frames, ranks: tuple[int, ...]) -> int | None:
    """Return when the exits of these ranks were recorded; tracebacks have no time."""
    told = frames["exits"].filter(pl.col("rank").is_in(list(ranks)))
    return common.first_seen(told)


def _hint(first: pl.DataFrame) -> str:
    if (first["code"] == -signal.SIGKILL).any():
        return "Who sent SIGKILL is not in this evidence; the kernel log would show it."
    if (first["code"] == -signal.SIGBUS).any():
        return "SIGBUS is often a full /dev/shm."
    return ""


def _remedy(first: pl.DataFrame) -> tuple[str | Action, ...]:
    if (first["code"] == -signal.SIGKILL).any():
        kills = "dmesg -T | grep -i -E 'killed process|oom'"
        return (Action(kills, at="host"), OWN_LOG)
    if (first["code"] == -signal.SIGBUS).any():
        return (Action("df -h /dev/shm", at="process"), "docker run --shm-size=16g …")
    if (first["by"] == "traceback").any():
        return (CITED,)
    return (OWN_LOG, "export PYTHONFAULTHANDLER=1; ulimit -c unlimited")
