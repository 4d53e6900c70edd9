"""Which ranks reported anything when a call timed out, and which did not.

Every waiting rank prints sooner or later; the rank that is waited for is silent. So
silence is evidence if a rank's own output was collected, if it had as long as the
others to print, and if nothing but its launcher ended it. A few early timeouts prove
nothing: those of the others were still to come when their launcher ended them.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

import polars as pl

from ncclforensics.correlate.exits import (
    agent_processes,
    clean_exits,
    exit_records,
    uncollected,
)
from ncclforensics.correlate.exits.exit_records import ranks_of
from ncclforensics.correlate.identity import world
from ncclforensics.correlate.runs import clock, job
from ncclforensics.correlate.traces import call_sites, code_places
from ncclforensics.correlate.waits import last_words, monitored_barriers, nccl_ids
from ncclforensics.model.frames import Frames, needing, remembered
from ncclforensics.model.last_words import COUNT
from ncclforensics.model.tables import CITE, FAILING, TIME

# a rank prints one of these about a call of its own that did not finish in time
TIMEOUTS = (
    *("c10d.watchdog.timeout", "c10d.watchdog.timeout.cut", "c10d.gloo.timeout"),
    *("c10d.watchdog.terminated.timeout", "c10d.blocking_wait.timeout"),
    *(monitored_barriers.FAILED, monitored_barriers.REACHED, nccl_ids.MISSING),
)
REQUESTED = "c10d.dump.requested"  # a timeout too, if of "this local rank"
HUNG = "kernel.hung_task"
MANY = 2  # waiting ranks that are needed per silent rank
CLOSED = "c10d.not_destroyed"
ABORTS = "c10d.heartbeat.terminate"
# printed about other ranks only, or while the rank is being terminated
OF_OTHERS = ("c10d.dump.observed", ABORTS, *job.SAYS_NOTHING)
# an end that was asked for, and what an agent raises about its children
ENDED = r"(?:^|\.)(?:KeyboardInterrupt|SignalException|SystemExit|ChildFailedError)$"
# these report every process of theirs that did not exit normally
LISTING = ("torchelastic", "srun")
LINE = ("rank", "message", "t", *CITE)


@dataclass(frozen=True, slots=True)
class Roll:
    """The known ranks of a job in which calls timed out.

    `timed_out` ranks report it of a call of their own; `waited` are these, and those
    that lost a peer then. `silent` ranks have output, neither waited nor failed, and
    are few enough to be those that the others waited for; no other rank failed either.
    Of `unseen` ranks nothing was collected, or too little. Ranks `apart` failed by
    themselves or left; those in `ended` exited normally, or said that their loop was
    over; `working` ones logged work late in the wait of others. Those `elsewhere` lost
    a peer in another call than that of the others. `named`: others say whom they
    wait for. `lines` are what waiting ranks printed, and when they began to wait.
    """

    timed_out: frozenset[int]
    waited: frozenset[int]
    silent: frozenset[int]
    unseen: frozenset[int]
    apart: frozenset[int]
    ended: frozenset[int]
    working: frozenset[int]
    elsewhere: frozenset[int]
    named: bool
    lines: pl.DataFrame

    @property
    def gone(self) -> frozenset[int]:
        """The ranks that did not come to the call of the others: silent, or ended."""
        return self.silent | self.ended

    @property
    def known(self) -> frozenset[int]:
        """All ranks of the job that anything shows."""
        return self.waited | self.silent | self.unseen | self.apart


@remembered
def call(frames: Frames) -> Roll:
    """Return the `Roll` of the job; of several attempts it is that of the last."""
    frames = clock.comparable(frames)
    lines = _current(frames, frames["events"]).drop_nulls("rank")
    if lines.height:
        lines = lines.filter(~pl.col("message").str.contains(job.MACHINE))
        lines = lines.filter(~call_sites.in_handlers(frames, lines))
    own = _timeouts(frames)
    timed_out = ranks_of(own)
    role, message = pl.col("role"), pl.col("message")
    culprits = ranks_of(lines.filter(role == "culprit")) - timed_out
    is_theirs = message.str.contains(r"^(?:c10d|nccl)\.") & (message != REQUESTED)
    victims = lines.filter((role == "victim") & is_theirs)
    # who says something else and lost its peers came to the call too late
    working = last_words.at_work(frames, own)
    # who logged work in the wait of the others lost its peers when it came at last
    elsewhere = _elsewhere(frames, timed_out) - working
    odd = (last_words.odd(frames) | working) - timed_out - elsewhere
    barriers = _current(frames, frames.message(monitored_barriers.FAILED))
    # they lost their peers when these had given up
    named = monitored_barriers.missing(barriers) | nccl_ids.unpublished(own)
    named -= timed_out
    came = monitored_barriers.came(barriers)
    waited = timed_out | ranks_of(came)
    waited |= ranks_of(victims) - culprits - odd - named
    known = world.ranks(frames)
    shouted = culprits | _shouted(frames, lines)
    aborted = _aborted(frames, own)
    waited |= ranks_of(aborted) - shouted - odd
    failed = (shouted | _broke(frames)) - waited - odd
    heard = _heard(frames, lines, own)
    if not failed - _askers(own) and heard - waited - failed:
        # what rank 0 failed of, where its own output is not here
        waited |= failed - shouted
        failed &= shouted
    quiet = heard - waited - failed
    left = _left(frames, quiet)
    told = last_words.over(frames, waited) | {*clean_exits.unlisted(frames)[0]}
    ended = _ended(frames, quiet) | (told - waited - failed)
    left |= ended
    quiet -= left
    few = len(waited) >= max(2, MANY * len(quiet)) and bool(timed_out)
    # a part of the output, as in a paste, does not show who printed nothing
    few &= 2 * len(heard | waited) >= len(known)
    # a rank that its launcher ended after another's failure had no time to print
    silent = named or (quiet if few and not failed | left else frozenset())
    drawn = _drawn(frames, own, silent)
    working |= {rank for rank, late in drawn.items() if late}
    if not working.isdisjoint(silent):
        # whose bar was complete long before came, and had not waited long enough
        silent -= drawn.keys() - working
    apart = (failed | left) - silent
    parts = own.select(LINE), victims.select(LINE), aborted, came.select(LINE)
    lines = pl.concat(parts)
    lines = lines.filter(pl.col("rank").is_in(list(waited)))
    known |= waited | silent | apart | quiet
    return Roll(
        timed_out,
        waited,
        silent,
        known - waited - silent - apart,
        apart,
        ended - silent,
        working - ended,
        elsewhere & waited,
        bool(named),
        lines.sort("rank", "source", "line"),
    )


def _drawn(
    frames: Frames, own: pl.DataFrame, silent: frozenset[int]
) -> dict[int, bool]:
    """Say of silent ranks whether their progress bar was drawn late in the wait.

    A bar on a console is of the one rank of its agent that does not wait, and of the
    only silent rank, wherever it is drawn.
    """
    late = last_words.drawn_late(frames, own)
    if len(silent) == 1:
        return {rank: True for rank in silent if any(late.values())}
    crews = (c for c in agent_processes.crews(frames) if c.source in late)
    mine = ((silent & crew.ranks, late[crew.source]) for crew in crews)
    return {min(ranks): drawn for ranks, drawn in mine if len(ranks) == 1}


def is_changed_by(frames: Frames, said: pl.DataFrame) -> bool:
    """Whether last lines (rows of `events`) tell more of ranks, or may do so later."""
    if said.is_empty():
        return False
    stamped = pl.any_horizontal(pl.col("yearless", "dayless").is_not_null())
    undated = pl.col("t").is_null() & stamped
    unsure = pl.col("rank").is_null() | undated | (pl.col("message") == COUNT)
    if said.filter(unsure).height:
        return True
    # they tell the year of lines that have none
    if said["t"].null_count() < said.height and frames["events"].filter(undated).height:
        return True
    events = pl.concat([frames["events"], said], how="diagonal_relaxed")
    more = frames.adding(events=events)
    more, frames = clock.comparable(more), clock.comparable(frames)
    is_new = not ranks_of(said) <= ranks_of(frames["events"])
    if not is_new and not last_words.single_out(more, _timeouts(frames)):
        return False
    before, after = call(frames), call(more)
    same = all(
        getattr(before, name) == getattr(after, name)
        for name in ("waited", "silent", "ended", "working")
    )
    over = last_words.over(more, frozenset(), epoch=True)
    return not same or bool(over | last_words.odd(more))


def _current(frames: Frames, frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows of the last attempt, and those of unknown attempt."""
    last = None if frame.is_empty() else frames["events"]["attempt"].max()
    attempt = pl.col("attempt")
    return frame if last is None else frame.filter(attempt.fill_null(last) == last)


def _timeouts(frames: Frames) -> pl.DataFrame:
    """Return the lines in which ranks report a timeout of a call of their own.

    `t` is when they began to wait, `until` when they gave up, `ran` the time between.
    """
    lines = _current(frames, frames.message(*TIMEOUTS, REQUESTED)).drop_nulls("rank")
    lines = lines.filter(nccl_ids.waits(lines))
    waited = [pl.col(c) for c in ("ran_ms", "timeout_ms") if c in lines.columns]
    ran = pl.duration(milliseconds=pl.coalesce(*waited, pl.lit(0)))
    # a line without a time: its process ended when it had given up, or later
    ended = frames["exits"].filter(pl.col("code") != 0)["t"].min()
    lasted = ran > pl.duration(milliseconds=0)
    until = pl.coalesce("t", pl.when(lasted).then(pl.lit(ended, TIME)))
    lines = lines.with_columns(
        (pl.col("t") - ran).cast(TIME).alias("t"),
        until.alias("until"),
        ran.alias("ran"),
    )
    if "from" not in lines.columns:
        return lines.filter(pl.col("message") != REQUESTED)
    own = (pl.col("from") == "this local rank").fill_null(False)
    return lines.filter((pl.col("message") != REQUESTED) | own)


def _elsewhere(frames: Frames, timed_out: frozenset[int]) -> frozenset[int]:
    """Return the ranks whose tracebacks end in another call than those that timed out.

    That is one at another place in the code; or of another kind, where watchdogs tell
    the operation alone. A barrier of NCCL is an ALLREDUCE of one element.
    """
    at = call_sites.sites(frames).filter(pl.col("waits") & ~pl.col("was_looked_at"))
    if at.is_empty():
        return frozenset()
    is_theirs = pl.col("rank").is_in(list(timed_out))
    places = at.filter(is_theirs)["stack"]
    others = at.filter(~is_theirs)
    if places.len():
        return ranks_of(others.filter(~pl.col("stack").is_in(places.implode())))
    gave_up = frames["positions"].filter(is_theirs).drop_nulls(["timed_out", "op"])
    kinds = gave_up.select(code_places.kind(pl.col("op")))["op"].drop_nulls()
    if (gave_up["numel_in"].fill_null(1) == 1).any():
        kinds = pl.concat([kinds, pl.Series(["barrier"])])
    unlike = ~code_places.kind(pl.col("op")).is_in(kinds.implode())
    return ranks_of(others.filter(unlike)) if gave_up.height else frozenset()


def _askers(own: pl.DataFrame) -> frozenset[int]:
    """Return rank 0 if others say that they reached a monitored barrier.

    It asks all others there, and fails for those that do not come.
    """
    return frozenset({0} if monitored_barriers.REACHED in own["message"] else ())


@needing("events", otherwise=frozenset())
def _shouted(frames: Frames, lines: pl.DataFrame) -> frozenset[int]:
    """Return the ranks that report an error which need not be another rank's."""
    if lines.is_empty():
        return frozenset()
    ended = _current(frames, frames.message("python.traceback"))
    if "exception" in ended.columns:
        ended = ended.filter(pl.col("exception").str.contains(ENDED).fill_null(False))
    else:
        ended = ended.clear()
    either = lines.filter(
        (pl.col("role") == "either") & ~pl.col("message").is_in(OF_OTHERS)
    )
    cite = ["source", "line"]
    quoted = frames.quoted("python.traceback").join(ended, on=cite, how="semi")
    ends = quoted.select("source", pl.col("said_line").alias("line"))
    ended = pl.concat([ended.select(cite), ends])
    return ranks_of(either.join(ended, on=cite, how="anti"))


@needing(*exit_records.ENDS, otherwise=frozenset())
def _broke(frames: Frames) -> frozenset[int]:
    """Return the ranks that exited badly, and were not ended by their launcher.

    Nor by their own heartbeat monitor, which aborts them for another rank's timeout. A
    process that the kernel saw blocked for minutes was killed for that.
    """
    torn = exit_records.torn_down(frames).filter(
        ~pl.col("code").is_in(exit_records.SENT_BY_SRUN)
    )
    bad = pl.concat(
        [exit_records.by_themselves(frames), torn.filter(pl.col("code") != 0)]
    )
    monitored = _current(frames, frames.message(ABORTS)).drop_nulls("rank")
    aborted = pl.col("rank").is_in(monitored["rank"].implode()) & (
        pl.col("code") == -signal.SIGABRT
    )
    blocked = ranks_of(_current(frames, frames.message(HUNG)))
    return ranks_of(bad.filter(~aborted.fill_null(False))) - blocked


def _aborted(frames: Frames, own: pl.DataFrame) -> pl.DataFrame:
    """Return LINE of the ranks that aborted as all those did that timed out.

    Their watchdogs ended them too, and their last lines are lost, unless they tell that
    a monitor did. If an agent was faster with one, how ranks ended tells nothing.
    """
    if own.is_empty():
        return own.select(LINE)
    ends = exit_records.ended(frames).drop_nulls("rank").filter(pl.col("code") != 0)
    timed_out = pl.col("rank").is_in(own["rank"].implode())
    theirs = ends.filter(timed_out)["code"] == -signal.SIGABRT
    if theirs.is_empty() or not theirs.all():
        return own.clear().select(LINE)
    late = pl.col("t") >= pl.lit(own["until"].min())
    lost = ends.filter(~timed_out & late & (pl.col("code") == -signal.SIGABRT))
    told = ranks_of(_current(frames, frames.message(ABORTS)))
    lost = lost.filter(~pl.col("rank").is_in(list(told)))
    unknown = pl.lit(None, TIME).alias("t")
    return lost.select("rank", unknown, *CITE, message=pl.lit("exits")).select(LINE)


def _heard(frames: Frames, lines: pl.DataFrame, own: pl.DataFrame) -> frozenset[int]:
    """Return the ranks whose output would be in this evidence, if there was any."""
    logs = frames["sources"].filter(pl.col("kind").is_in(["log", "empty"]))
    emptied = logs.filter(_is_emptied(frames))
    files = ranks_of(_current(frames, logs))
    beside = frozenset(uncollected.beside_others(frames, own))
    # a program that prints its rank where other ranks time out writes to that file
    said = world.said(frames)
    said = said.filter(pl.col("source").is_in(own["source"].implode()))
    beside |= {*said["told"]}
    unheard = frozenset(uncollected.unheard(frames))
    unheard |= ranks_of(emptied)
    # a process that did not end when it was told to had not given up before
    held = agent_processes.unmoved(frames)
    return ((ranks_of(lines) | files | beside) - unheard) | held


def _is_emptied(frames: Frames) -> pl.Expr:
    """Whether a log is empty while all others of its kind show their ranks' start.

    Then its text was lost: a rank that did not fail would have printed as much. What
    stands in or below the first trouble of a file is no start.
    """
    if not frames["sources"]["kind"].eq("empty").any():
        return pl.lit(False)
    events = frames["events"]
    bad = events.filter(pl.col("role").is_in(FAILING)).select(*CITE)
    heads = frames.message("python.traceback").select(*CITE)
    first = pl.concat([bad, heads]).group_by("source").agg(pl.col("line").min())
    neutral = events.filter(pl.col("role") == "neutral").select(*CITE)
    above = neutral.join(first, on="source", how="left").filter(
        (pl.col("line") < pl.col("line_right")).fill_null(value=True)
    )
    tells = pl.col("source").is_in(above["source"].unique().implode())
    full = pl.col("kind") == "log"
    return (pl.col("kind") == "empty") & tells.filter(full).all().over("stream")


def _ended(frames: Frames, quiet: frozenset[int]) -> frozenset[int]:
    """Return the ranks of `quiet` that are known to have exited normally.

    By their exit code. Torch also prints that a process group was not destroyed: Python
    does that at a normal exit, or after an exception, which is reported.
    """
    peaceful = ranks_of(exit_records.ended(frames).filter(pl.col("code") == 0))
    closed = ranks_of(_current(frames, frames.message(CLOSED)))
    return (peaceful | closed) & quiet


def _left(frames: Frames, quiet: frozenset[int]) -> frozenset[int]:
    """Return the ranks of `quiet` that the process lists of their nodes leave out.

    They exited normally, or were still running when a log was taken.
    """
    told = exit_records.ended(frames)
    torn = exit_records.torn_down(frames)
    # srun reports last the tasks that it ended: if that is missing, a task that is not
    # listed may have been among them
    by_srun = exit_records.of_slurm(frames) if torn.height else torn
    if frames.message(exit_records.TEARDOWN).height and torn.is_empty():
        told = told.filter(pl.col("reported_by") != "srun")
    listed = pl.concat([told, torn, by_srun])
    listed = listed.drop_nulls("rank").filter(pl.col("reported_by").is_in(LISTING))
    if listed.is_empty():
        return frozenset()
    hosts = frames["ranks"].select("rank", pl.col("host").alias("home"))
    theirs = pl.DataFrame(
        {"rank": sorted(quiet - ranks_of(listed))}, {"rank": pl.Int64}
    )
    nodes = listed["host"].unique().to_list()
    here = pl.col("home").is_in(nodes).fill_null(True) | pl.lit(None in nodes)
    absent = ranks_of(theirs.join(hosts, on="rank", how="left").filter(here))
    # if the ranks of all agents are known, their lists say nothing of other ranks
    known = agent_processes.crews(frames)
    if known and all(crew.ranks for crew in known):
        absent &= agent_processes.ranks(frames)
    return absent - agent_processes.lived(frames)
