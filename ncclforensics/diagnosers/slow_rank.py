"""One rank is slower than its peers all the time, and every step waits for it.

What it means
    Nothing fails. In call after call one rank comes last, and all others wait for it:
    the whole job goes at its pace. Causes are a GPU that lowers its clocks, a process
    beside it that takes its CPU, a disk or data loader that is slower than elsewhere,
    or a larger share of the work.

How we know
    Over the history that Flight Recorder dumps hold, the rank works longer between its
    calls than the ranks that do the same work, by a share of all time that counts (from
    10 % of a step on), and being last it costs more than any rank would by chance, by a
    permutation test. Counted is its own time alone: whoever is late because it waited
    for another rank is not meant, and of calls that overlap with work only the one
    counts that ends their row. With `TORCH_NCCL_ENABLE_TIMING=1` the GPU's times tell
    it, else the times of the calls, in calls that ranks wait in: these show a slow CPU,
    but on NCCL no slow GPU. NCCL's own COLL lines are such calls, if they have times.
    Clocks of hosts are compared through the calls in which they meet, and a clock that
    is off blames nobody; one that seems to be behind is right if its watchdogs see the
    calls end earlier by as much: then its ranks are late. If all ranks of a host are
    slow, its host is named. Without dumps, the lines of NCCL's Inspector tell the same.

    Or the ranks log it, in lines, records, tables or counters of any words: lines that
    are alike but for their numbers are read by what the numbers do. The one that grows
    and that ranks share is the step, another from 0 on is the rank, the rest are times,
    or a line with a time marks how far a rank is (`step 7: forward done`). Words tell
    what a part is, as frameworks print them; else that it is shorter where the rank's
    work is longer tells that it is a wait. Loading and computing are a rank's own; a
    backward is, where its reductions are told apart. A rank that takes longer to load,
    or works longer and waits less than its peers, is likely slow. What it takes to
    compute alone is `possible`, as a forward may hold calls in which it waits for
    others. If only the forward is told, up to three times as much is lost, as the
    backward takes twice as long.

    Or a program that measures it says so: NVRx (`STRAGGLER DETECTION WARNING`, or its
    scores as NeMo prints them, if one GPU, or all of a host, have the worst by far in
    most reports), or Megatron's `--log-straggler`, of which only the rank that is
    always the slowest is told, as possible. Of the reports of Lightning's profiler, one
    a rank, the one that loads or computes longer by far, and is shorter in its
    backward.

What to do
    Compare the named host with the others: `nvidia-smi -q -d PERFORMANCE,CLOCK` for
    clocks, `top` for other processes, the speed of its disks. `py-spy record` shows
    where the rank spends its time. A host that stays slow is best drained.

Looks like
    Stages of a pipeline wait for each other by design: one stage that is always last is
    a bubble or an uneven split, and no fault of a rank. Uneven batches make every rank
    the last at times. Where half of the ranks are late, or one later than the next,
    they wait for each other in calls that no dump has. Logs tell no roles: nobody is
    named where some ranks of several hosts load for the others, where peers do not load
    at all, or where the first or last rank computes longer, which may be a stage, but
    for logs in which all waits are named collectives. A rank that came after its peers'
    timeout is a `straggler`. If all ranks are slow alike, it is `slow-network`, or
    nothing.

References
    TORCH_FR_BUFFER_SIZE, TORCH_NCCL_ENABLE_TIMING; pytorch#71303.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.own_time import NAMED
from ncclforensics.evidence import common, profiler_reports, told_stragglers
from ncclforensics.model.findings import Cite, Finding, NotChecked, RuledOut
from ncclforensics.model.folding import count
from ncclforensics.model.words import lasted, percent
from ncclforensics.theory import last_stage, slow_jobs, slow_ranks, uneven_load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.model.findings import Collective, Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.slow_ranks import Slow
    from ncclforensics.theory.weigh import Confidence

FAMILY = "desync"
NEEDS = ("sources",)
MISSING = "no history of calls of several ranks"
UNTIMED = "no times of the GPU, without which a slow GPU does not show"
NEXT_TIME = (
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_ENABLE_TIMING=1, and dump while it runs"
)
GPU = "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE"
LOAD = "top -b -n 1 | head -20; iostat -x 1 3"
RECORD = "py-spy record -d 30 -o slow.svg -p PID   # of the rank, and of a peer"
EXPLAINS = ()
SPREADS = False

SURE = ("possible", "likely", "certain")
OFTEN = (
    0.5  # share of the calls that it comes last to, from which on nobody else can be
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that others wait for all the time, in a job that runs."""
    sure = slow_jobs.sure(frames)
    if sure is None:
        return
    known = slow_ranks.excess(frames) is not None
    told = slow_ranks.slow(frames) if known else None
    by_word = profiler_reports.by_word(frames)
    if told is not None and told.is_named:
        finding = _finding(frames, told)
        yield replace(finding, confidence=min(finding.confidence, sure, key=SURE.index))
    elif by_word is not None:
        yield _by_word(frames, by_word)
    elif not known:
        yield NotChecked("slow-rank", MISSING, NEXT_TIME)
    elif told is None and (stage := last_stage.last_stage(frames)) is not None:
        yield RuledOut(
            "slow-rank",
            f"{common.ranks(stage.ranks)} come last to {percent(stage.share)} of the "
            "calls of several pipeline stages, and all of a stage alike: a pipeline "
            "bubble or an uneven split, no fault of a rank",
        )
    elif told is None and not slow_ranks.shows_gpus(frames):
        yield NotChecked("slow-rank", UNTIMED, NEXT_TIME)
    elif told is None and (loaded := _loaded(frames)) is not None:
        yield loaded


def _loaded(frames: Frames) -> RuledOut | None:
    """Tell that some ranks are given more to do than the others; None if none are."""
    more = uneven_load.received(frames).filter(pl.col("more") >= NAMED)
    if more.is_empty():
        return None
    most = float(str(more["more"].max()))
    return RuledOut(
        "slow-rank",
        f"{common.ranks(tuple(more['rank']))} receive up to {percent(most)} more in "
        "all_to_all than the median rank, and no rank works longer than its share: "
        "an uneven load of experts, no fault of a rank",
    )


def _by_word(frames: Frames, told: told_stragglers.Told) -> Finding:
    """Name the ranks that a program which measures it reports as slow."""
    hosts = common.hosts_of(frames, told.ranks)
    who = f"{common.ranks(told.ranks)}{common.on(hosts)}"
    verb = "is" if len(told.ranks) == 1 else "are"
    return Finding(
        slug="slow-rank",
        confidence="likely" if told.sure else "possible",
        headline=f"{who} {verb} slow: {told.how}",
        evidence=common.cites(told.lines),
        explanation="How much of it the others lose is not in these lines; dumps with "
        "TORCH_NCCL_ENABLE_TIMING=1 would tell.",
        remedy=_looks(hosts),
        ranks=told.ranks,
        hosts=hosts,
        devices=common.devices_of(frames, told.ranks),
    )


def _looks(hosts: Sequence[str]) -> tuple[str, str]:
    """Return the commands that show what slows the GPU, and the host."""
    at = f"   # on {common.some(hosts)}" if hosts else ""
    return f"{GPU}{at}", f"{LOAD}{at}"


def _confidence(told: Slow) -> Confidence:
    """Return how sure it is that a rank is slow, and does not wait.

    What a log calls forward may wait for others, where layers are split. Of two halves
    either may be the unusual one: the other may have less to do.
    """
    if told.logged:
        return "likely" if told.is_data or told.waits_less else "possible"
    often = told.last > OFTEN * told.meetings and 2 * len(told.ranks) < told.known
    return "certain" if often and (told.timed or told.is_beside) else "likely"


def _where(told: Slow, call: Collective | None) -> str:
    """Return "to all_reduce at train.py:7 main. By the times of the calls"."""
    if call is None:
        return f"by its {told.worst['op']}. By the times in the logs of the ranks"
    where = f" at {call.call_site}" if call.call_site else ""
    how = "GPU times of the calls" if told.timed else "times of the calls"
    return f"to {call.op or 'a call'}{where}. By the {how}"


def _finding(frames: Frames, told: Slow) -> Finding:
    hosts = common.hosts_of(frames, told.ranks) or told.hosts
    who = common.ranks(told.ranks)
    every = len(told.ranks) > len(hosts) and told.ranks == common.ranks_on(
        frames, hosts
    )
    is_host = f", all of {common.named(hosts)}," if every else common.on(hosts)
    # of hundreds of calls one number would tell nothing
    call = (
        None
        if told.logged
        else replace(common.collective(frames, told.worst), seq=None)
    )
    late = lasted(told.late)
    cost = slow_jobs.cost(frames, told)
    alone = len(told.ranks) == 1
    verb, works = ("is", "works") if alone else ("are", "work")
    looks = _looks(hosts)
    return Finding(
        slug="slow-rank",
        confidence=_confidence(told),
        headline=f"{who}{is_host} {verb} slow: others wait {told.lost} of the "
        f"time{cost}",
        evidence=(
            Cite(
                str(told.worst["source"]),
                int(str(told.worst["line"])),
                f"{common.ranks((int(str(told.worst['rank'])),))} came "
                f"{lasted(float(str(told.worst['late'])))} after the others",
            ),
        ),
        explanation=f"In {told.last:,} of "
        f"{count(told.meetings, 'step' if told.logged else 'call')} "
        f"{who}{is_host} came last, by {late} (median), most {_where(told, call)}, "
        f"{who} {works} {percent(told.share)} of the time longer than "
        f"{'its' if alone else 'their'} peers.",
        remedy=(*(reversed(looks) if told.is_data else looks), RECORD),
        ranks=told.ranks,
        hosts=hosts,
        devices=common.devices_of(frames, told.ranks),
        collective=call,
    )
