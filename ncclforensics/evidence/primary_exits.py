"""Which processes failed by themselves, and which because others did.

An exception that says that a peer is gone, a timeout, a signal from the agent, an abort
by the process's own watchdog, and anything after the job was stopped are echoes. What
is left are primary failures.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import agent_processes, exit_records, uncollected
from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces import call_summary
from ncclforensics.evidence import (
    absent_launcher,
    common,
    exceptions,
    external_stop,
    lost_peers,
    quiet_leavers,
    reported_ends,
)
from ncclforensics.evidence.exceptions import RAISED, SCHEMA
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# a watchdog of torch ends its process by abort()
BY_ABORT = r"^(?:Aborted|Terminated)"
CUDA = r"^(?:CUDA|HIP)(?: driver)? error: (?P<what>[^\n]+)"
# a training loop's own check of its loss or gradients
NOT_A_NUMBER = ("launchers.megatron.nan", "launchers.megatron.nan.checked")
FAULTS = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL)
OF_VICTIMS = (1, -signal.SIGABRT)
# what a watchdog that lost a peer throws, up to torch 2.0 and since; and Gloo, in the
# receiver of a tensor that is too large, whichever side is wrong about its size
WATCHDOGS = r"^(?:std::runtime_error|c10::Dist\w*Error|gloo::\w+)$"
APART_NS = 2_000_000_000


@remembered
def of_own(frames: Frames) -> pl.DataFrame:
    """Return the failures that nothing else in the evidence explains, in SCHEMA.

    `why` is an exception with its message or a signal's name, `by` the kind of report.
    """
    words = pl.concat([exceptions.uncaught(frames), _reported(frames)])
    if words.height:
        words = words.filter(~external_stop.after_stop(frames, words))
        words = _of_only_one(frames, words)
    # what a launcher raises when it ends is no echo of its rank's own
    echoing = words.filter(pl.col("echo") & ~pl.col("by_launcher").fill_null(False))
    # an exception whose text is lost cannot be called the rank's own
    unread = words.filter(pl.col("echo").is_null())
    ended = _exits(frames, pl.concat([echoing, unread]))
    if ended.height:
        ended = ended.filter(~external_stop.after_stop(frames, ended) | is_fault())
        unstarted = absent_launcher.hosts_without(frames)["_host"].implode()
        ended = ended.filter(~pl.col("host").is_in(unstarted).fill_null(False))
    own = words.filter(~pl.col("echo")).select(SCHEMA.keys())
    own = with_only_exit(frames, own)
    # the exit of a rank whose exception is known adds nothing
    told = own["rank"].drop_nulls().unique()
    silent = ended.filter(~pl.col("rank").is_in(told.implode()).fill_null(False))
    faults = silent.filter(is_fault())
    if own.height or faults.height:
        return pl.concat([own, faults])
    if (gone := reported_ends.gone(frames)).height:
        return with_only_exit(frames, gone)
    # a bare exit code is a primary failure only if every other one is explained; a
    # victim whose text is lost exits with 1, or with its watchdog's SIGABRT
    if exit_records.are_of_one_host(frames, silent):
        return silent
    if silent.height and (undumped := _undumped(frames, silent)).height:
        return undumped
    if silent.is_empty() and not frames["exits"].height:
        return quiet_leavers.words(frames)
    if silent["rank"].n_unique() != 1:
        return silent.clear()
    threw, lost = _threw(frames), _lost(frames)
    quiet = _quiet(frames, words)
    return silent.filter(
        ~pl.col("code").is_in(OF_VICTIMS)
        | pl.col("rank").is_in(threw.implode())
        | pl.col("host").is_in(lost.implode())
        | pl.col("rank").is_in(quiet)
    )


def _of_only_one(frames: Frames, words: pl.DataFrame) -> pl.DataFrame:
    """Take an exception in a collective as the rank's own if all others are victims.

    They are if each rank of the job says that it waited for a peer or lost one. A rank
    that says nothing may be the one that failed.
    """
    alone = pl.col("echo").is_null() & pl.col("in_call")
    ranks = words.filter(alone)["rank"].unique()
    if ranks.len() != 1 or ranks.null_count():
        return words
    told = frames["events"].filter(pl.col("role") == "victim")
    victims = exit_records.ranks_of(told) | exit_records.ranks_of(words.filter("echo"))
    others = world.ranks(frames) - {*ranks}
    if not others or not others <= victims:
        return words
    return words.with_columns(
        pl.when(alone).then(False).otherwise("echo").alias("echo"),
        pl.when(alone).then(pl.lit("call")).otherwise("by").alias("by"),
    )


def _quiet(frames: Frames, words: pl.DataFrame) -> list[int]:
    """Return the ranks that printed nothing while others report that they lost a peer.

    Silence proves nothing in a hang that others timed out of, if a text may be any
    rank's, or if lines are lost.
    """
    if (left := quiet_leavers.rank(frames)) is not None:
        return [left]
    if not exit_records.is_whole(frames):
        return []
    thrown = frames.message("python.cpp_terminate")
    nobodys = words.filter(~pl.col("by_launcher").fill_null(False))
    if thrown["rank"].null_count() or nobodys["rank"].null_count():
        return []
    return uncollected.beside_others(frames, frames.message(*lost_peers.GONE))


def _undumped(frames: Frames, ended: pl.DataFrame) -> pl.DataFrame:
    """Return the exits of ranks that alone left no dump, if no other exited alike.

    A watchdog writes a dump before it ends its process; whom an agent ended before that
    left none. A victim's dump may be lost, but a victim exits as the other victims do.
    A rank that Gloo or its own watchdog aborted is a victim all the same.
    """
    thrown = frames.message("python.cpp_terminate")
    if "exception" in thrown.columns:
        thrown = thrown.filter(pl.col("exception").str.contains(WATCHDOGS))
    if thrown.height:
        theirs = pl.col("code") == -signal.SIGABRT
        if not thrown["rank"].null_count():
            theirs &= pl.col("rank").is_in(thrown["rank"].implode())
        ended = ended.filter(~theirs.fill_null(False))
    dumps = call_summary.dumps(frames)["rank"].drop_nulls()
    members = frames["groups"]["members"].explode()
    known = {*common.numbers(members), *common.numbers(ended["rank"])}
    missing = known - set(common.numbers(dumps)) - agent_processes.lived(frames)
    gone = ended.filter(pl.col("rank").is_in(list(missing)))
    codes = ended.filter(~pl.col("rank").is_in(list(missing)))["code"]
    alike = gone["code"].is_in(codes.implode()).any()
    whole = missing == set(common.numbers(gone["rank"]))
    few = len(missing) < dumps.n_unique()
    return gone if whole and few and not alike else gone.clear()


def with_only_exit(frames: Frames, words: pl.DataFrame) -> pl.DataFrame:
    """Give the rankless text of a process to the only rank that is seen to fail.

    `words` has `rank`, `source`, `line` and `text`. Only if at most one exception has
    no rank, and one rank failed by itself.
    """
    if words.is_empty():
        return words
    nameless = exceptions.uncaught(frames).filter(
        pl.col("rank").is_null() & ~pl.col("by_launcher").fill_null(False)
    )
    # the exception at the end of a traceback, and a line that repeats it
    places = nameless.select("source", "line").unique().height
    texts = words.filter(pl.col("rank").is_null())["text"].unique().len()
    rank = exit_records.only_one(frames)
    if texts != 1 or places > 1 or rank is None:
        return words
    # a rank with lines of its own needs no rankless ones, but for what the interpreter
    # prints: no program's own tag stands in front of that
    lines = frames["events"].filter(pl.col("role") != "agent")
    if rank in lines["rank"] and "fatal" not in words["by"]:
        return words
    return words.with_columns(pl.coalesce("rank", pl.lit(rank)).alias("rank"))


def first(deaths: pl.DataFrame) -> pl.DataFrame:
    """Keep the deaths that came first, as far as times show.

    If a time is missing, exceptions are kept; without any, all deaths. An exit code
    counts beside an exception only if its time shows that it came before.
    """
    timed = deaths.drop_nulls("t")
    if timed.height and timed.height == deaths.height:
        since = (timed["t"] - timed["t"].min()).dt.total_nanoseconds()
        return timed.filter(since < APART_NS)
    told = deaths.filter(~pl.col("by").is_in(["exit", "heartbeat"]))
    return told if told.height else deaths


def is_fault() -> pl.Expr:
    """Whether an exit code is a fault by itself: a signal that no agent sends first."""
    return pl.col("code").is_in(FAULTS)


def _threw(frames: Frames) -> pl.Series:
    """Return the ranks that ended by a C++ exception which no watchdog throws.

    One without a rank is that of the only rank that failed by itself.
    """
    lines = frames.message("python.cpp_terminate")
    if "exception" not in lines.columns:
        return lines["rank"].clear()
    own = lines.filter(~pl.col("exception").str.contains(WATCHDOGS))
    named = own["rank"].drop_nulls().unique()
    only = exit_records.only_one(frames) if lines.height == own.height > 0 else None
    return named if only is None or named.len() else pl.Series("rank", [only])


def _lost(frames: Frames) -> pl.Series:
    """Return the hosts whose processes others lost, and that lost none themselves."""
    lines = lost_peers.with_hosts(frames, frames.message("nccl.socket.peer_closed"))
    pairs = lost_peers.pairs(lines).drop_nulls()
    return pairs.filter(~pl.col("peer_host").is_in(pairs["host"].implode()))[
        "peer_host"
    ].unique()


def _reported(frames: Frames) -> pl.DataFrame:
    """Return the faults that a rank's watchdog or faulthandler reports of its own.

    In RAISED. A CUDA error that ends the watchdog is this rank's; an NCCL error is
    about a peer, and an abort is the watchdog's own doing.
    """
    lines = frames.message("c10d.watchdog.terminated", "python.fatal", *NOT_A_NUMBER)
    if lines.is_empty():
        return without_rows(RAISED)
    found = pl.col("text") if "error" not in lines.columns else pl.col("error")
    lines = lines.with_columns(pl.coalesce(found, "text").alias("error"))
    if "rerun_rank" in lines.columns:
        rank = pl.coalesce("rank", "rerun_rank")
        lines = lines.with_columns(rank.cast(pl.Int64).alias("rank"))
    fatal = pl.col("message") == "python.fatal"
    own = lines.filter(
        pl.col("error").str.contains(CUDA)
        | (fatal & ~pl.col("error").str.contains(BY_ABORT))
        | pl.col("message").is_in(NOT_A_NUMBER)
    )
    return own.with_columns(
        pl.coalesce("rank", _ended_so(frames)).alias("rank"),
        pl.lit(None, pl.Int64).alias("code"),
        pl.col("error").str.head(160).alias("why"),
        pl.lit(None, pl.String).alias("site"),
        pl.when(fatal).then(pl.lit("fatal")).otherwise(pl.lit("watchdog")).alias("by"),
        pl.lit(False).alias("echo"),
        pl.lit(False).alias("by_launcher"),
        pl.lit(False).alias("in_call"),
    ).select(RAISED.keys())


def _ended_so(frames: Frames) -> pl.Expr:
    """Return the rank that ended by the signal which `error` names, if only one did."""
    ended = exit_records.by_themselves(frames).drop_nulls(["rank", "code"])
    one = ended.unique(["rank", "code"]).unique("code", keep="none")
    code = pl.col("error").str.extract(f"({'|'.join(exit_records.SIGNALS)})")
    return code.replace_strict(exit_records.CODES, default=None).replace_strict(
        one["code"], one["rank"], default=None, return_dtype=pl.Int64
    )


def _exits(frames: Frames, echoing: pl.DataFrame) -> pl.DataFrame:
    """Return the exits that no agent and no loss of a peer caused, in SCHEMA."""
    ends = exit_records.by_themselves(frames)
    if ends.is_empty():
        return without_rows(SCHEMA)
    victims = frames["events"].filter(pl.col("role") == "victim")["rank"]
    aborts = frames.message(*reported_ends.SELF_ABORT)["rank"]
    echoed = pl.concat([victims, aborts, echoing["rank"]]).drop_nulls().unique()
    code = pl.col("code")
    why = common.exit_words(code)
    return (
        ends.filter(
            is_fault() | ~pl.col("rank").is_in(echoed.implode()).fill_null(False)
        )
        .with_columns(
            why.alias("why"),
            pl.lit(None, pl.String).alias("site"),
            pl.lit("exit").alias("by"),
            pl.coalesce(
                "text",
                common.sentence(
                    why,
                    " (reported by ",
                    pl.col("reported_by").fill_null("an agent"),
                    ")",
                ),
            ).alias("text"),
        )
        .select(SCHEMA.keys())
    )
