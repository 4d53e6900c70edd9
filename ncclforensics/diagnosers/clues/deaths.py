"""Which processes ended for a reason of their own, and which because others did.

An exception that says that a peer is gone, a timeout, a signal from the agent, an abort
by the process's own watchdog, whatever comes after somebody stopped the job: these are
echoes. What is left are deaths of their own.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate import job
from ncclforensics.diagnosers.clues import common, exits, lost_peers, stops

if TYPE_CHECKING:
    from ncclforensics.frames import Frames

TRACEBACKS = ("python.traceback", "torchelastic.error_file")
HEADLESS = "uncaught.of_rank"  # the last line of a traceback that is not here
NAMELESS = "uncaught.exception"  # the same, of a process that does not say its rank
# exceptions that a process raises because of others, or that report another's end
ECHOES = (
    r"(?:Dist(?:Backend|Network|Store)?Error|ChildFailedError|SignalException"
    r"|Rendezvous\w*Error|ProcessRaisedException|ProcessExitedException"
    r"|nccl(?:Remote|System|Internal)Error"
    r"|KeyboardInterrupt|SystemExit|BrokenPipeError|ConnectionResetError|EOFError"
    r"|^Failures|ConnectionRefusedError|ActorDiedError|RayActorError|RayTaskError)$"
)
# an exception is about others if its text is a message of these roles, or says so
ABOUT_OTHERS = ("victim", "agent", "either")
# a process that one of these lines belongs to ended itself because of a peer
SELF_ABORT = (
    "c10d.watchdog.abort",
    "c10d.watchdog.timeout",
    "c10d.heartbeat.terminate",
    "c10d.heartbeat.stuck",
    "c10d.heartbeat.timeout",
)
# a watchdog or faulthandler that reports what its own process did
OWN_FAULT = r"^(?:Segmentation fault|Bus error|Illegal instruction|Floating point)"
CUDA = r"^(?:CUDA|HIP)(?: driver)? error: (?P<what>[^\n]+)"
# a training loop's own check of its loss or gradients
NOT_A_NUMBER = ("launchers.megatron.nan", "launchers.megatron.nan.checked")
# what ends a process although its own last words may be lost
FATAL = (
    *("python.dataloader.killed", "python.dataloader.exited"),
    *("python.device_assert", "python.cuda_error", "nccl_tests.cuda_failure"),
    "python.cuda_error.sticky",
)
# of CUDA's errors those that a process's own kernel brings about, and that stay with it
STICKY = (
    r"illegal memory access|illegal instruction|misaligned address"
    r"|unspecified launch failure|device-side assert|invalid program counter"
)
RAY = ("launchers.ray.actor_died", "launchers.ray.worker_died")
OF_VICTIMS = (1, -signal.SIGABRT)
# what a watchdog throws that lost a peer, up to torch 2.0 and since; and Gloo, in the
# receiver of a tensor that is too large, whoever is wrong about its size
WATCHDOGS = r"^(?:std::runtime_error|c10::Dist\w*Error|gloo::\w+)$"
APART_NS = 2_000_000_000

SCHEMA = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "code": pl.Int64(),
    "why": pl.String(),
    "site": pl.String(),
    "by": pl.String(),
    "t": pl.Datetime("ns", "UTC"),
    "text": pl.String(),
    "source": pl.String(),
    "line": pl.Int64(),
}
# where a traceback says that it was raised
PLACED = {
    "by_launcher": pl.Boolean(),
    "file": pl.String(),
    "file_line": pl.Int64(),
    "function": pl.String(),
}
RAISED = {**SCHEMA, "echo": pl.Boolean(), "by_launcher": pl.Boolean()}


def of_own(frames: Frames) -> pl.DataFrame:
    """Return the deaths that nothing else in the evidence explains, in SCHEMA.

    `why` is an exception with its message or a signal's name, `by` who told.
    """
    raised = pl.concat([_raised(frames), _reported(frames)])
    raised = raised.filter(~stops.after_stop(frames, raised))
    echoing = raised.filter("echo")
    # of an exception whose text is lost nobody can say that it is the rank's own
    unread = raised.filter(pl.col("echo").is_null())
    ended = _exits(frames, pl.concat([echoing, unread]))
    ended = ended.filter(~stops.after_stop(frames, ended) | _fault())
    own = raised.filter(~pl.col("echo")).select(SCHEMA.keys())
    own = with_only_exit(frames, own)
    # the exit of a rank whose exception is at hand says nothing more
    told = own["rank"].drop_nulls().unique()
    silent = ended.filter(~pl.col("rank").is_in(told.implode()).fill_null(False))
    faults = silent.filter(_fault())
    if own.height or faults.height:
        return pl.concat([own, faults])
    if (gone := pl.concat([_of_ray(frames), _of_lines(frames)])).height:
        return gone
    # a bare exit code tells of its own fault only where every other one is explained;
    # a victim whose words are lost ends with 1, or with its watchdog's SIGABRT
    if exits.are_of_one_host(frames, silent):
        return silent
    if silent["rank"].n_unique() != 1:
        return silent.clear()
    threw, lost = _threw(frames), _lost(frames)
    return silent.filter(
        ~pl.col("code").is_in(OF_VICTIMS)
        | pl.col("rank").is_in(threw.implode())
        | pl.col("host").is_in(lost.implode())
    )


def with_only_exit(frames: Frames, words: pl.DataFrame) -> pl.DataFrame:
    """Give the words of a process without a name to the one rank that is seen to fail.

    `words` has `rank`, `source`, `line` and `text`. Only where no more than one
    exception stands there without a rank, and one rank ended by itself.
    """
    nameless = _raised(frames).filter(
        pl.col("rank").is_null() & ~pl.col("by_launcher").fill_null(False)
    )
    # the exception that a traceback ends with, and a line that tells it once more
    places = nameless.select("source", "line").unique().height
    texts = words.filter(pl.col("rank").is_null())["text"].unique().len()
    rank = _only_ended(frames)
    if texts != 1 or places > 1 or rank is None:
        return words
    # who has words of its own needs no others'
    if rank in frames["events"].filter(pl.col("role") != "agent")["rank"]:
        return words
    return words.with_columns(pl.coalesce("rank", pl.lit(rank)).alias("rank"))


def _only_ended(frames: Frames) -> int | None:
    """Return the only rank that is told to have ended badly and by itself."""
    ended = exits.by_themselves(frames)
    known = common.numbers(ended["rank"])
    return known[0] if len(known) == 1 and not ended["rank"].null_count() else None


def first(deaths: pl.DataFrame) -> pl.DataFrame:
    """Keep those that came first, as far as times tell; without times, all of them.

    An exception is its own witness; an exit code only counts beside one if its time
    shows that it came before.
    """
    timed = deaths.drop_nulls("t")
    if timed.height and timed.height == deaths.height:
        since = (timed["t"] - timed["t"].min()).dt.total_nanoseconds()
        return timed.filter(since < APART_NS)
    raised = deaths.filter(pl.col("by") != "exit")
    return raised if raised.height else deaths


def _fault() -> pl.Expr:
    """Whether an exit code is a fault by itself: a signal that no agent sends first."""
    return pl.col("code").is_in([-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE])


def _raised(frames: Frames) -> pl.DataFrame:
    """Return the uncaught exceptions, in SCHEMA and `echo`."""
    lines = pl.concat(
        [frames.message(*TRACEBACKS), _headless(frames), _nameless(frames)],
        how="diagonal_relaxed",
    )
    if "exception" not in lines.columns:
        return pl.DataFrame(schema=RAISED)
    about_others = (
        frames["events"]
        .filter(pl.col("role").is_in(ABOUT_OTHERS))
        .select("source", pl.col("text").alias("said"))
        .unique()
        .with_columns(pl.lit(True).alias("of_others"))
    )
    # Python prints these when a destructor fails; the process goes on
    ignored = frames.message("python.ignored_exception").select(
        "source", pl.col("line") + 1
    )
    went_on = pl.concat([ignored, job.survived(frames)]).unique()
    lines = lines.join(went_on, on=["source", "line"], how="anti")
    lines = _torn(frames, lines)
    for column, kind in PLACED.items():
        if column not in lines.columns:
            lines = lines.with_columns(pl.lit(None, kind).alias(column))
    said = common.sentence(
        pl.col("exception"), ": ", pl.col("message_text").fill_null("")
    )
    file = pl.col("file").str.extract(r"([^/]+)$")
    return (
        lines.with_columns(said.alias("said"))
        .join(about_others, on=["source", "said"], how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("by_launcher").fill_null(False))
            .then(True)
            .when("torn")
            .then(None)
            .otherwise(
                pl.col("exception").str.contains(ECHOES)
                | pl.col("said").str.contains(lost_peers.TOLD)
                | pl.col("of_others").fill_null(False)
            )
            .alias("echo"),
            pl.lit(None, pl.Int64).alias("code"),
            pl.col("said").str.head(160).alias("why"),
            common.sentence(
                file, ":", pl.col("file_line"), " ", pl.col("function")
            ).alias("site"),
            pl.lit("traceback").alias("by"),
            pl.col("said").alias("text"),
        )
        .select(RAISED.keys())
    )


def _headless(frames: Frames) -> pl.DataFrame:
    """Return the exceptions of ranks over which no traceback of theirs begins."""
    key = ["source", "rank"]
    heads = frames.message("python.traceback").group_by(key)
    first = heads.agg(pl.col("line").min().alias("head"))
    lines = frames.message(HEADLESS).join(
        first, on=key, how="left", maintain_order="left"
    )
    return lines.filter((pl.col("line") < pl.col("head")).fill_null(True)).drop("head")


def _nameless(frames: Frames) -> pl.DataFrame:
    """Return the only line of an exception that is left, where one rank ended badly.

    Of several nobody can say which was not caught, nor whose it is.
    """
    lines = frames.message(NAMELESS)
    whole = frames.message(*TRACEBACKS, HEADLESS)
    if "by_launcher" in whole.columns:
        # a launcher's own is of no rank
        whole = whole.filter(~pl.col("by_launcher").fill_null(False))
    if lines["text"].n_unique() != 1 or whole.height:
        return lines.clear()
    return lines.head(1) if _only_ended(frames) is not None else lines.clear()


def _torn(frames: Frames, tracebacks: pl.DataFrame) -> pl.DataFrame:
    """Add `torn`: whether a cut file has lost the last words, which say whose it is."""
    if "span" not in tracebacks.columns:
        return tracebacks.with_columns(pl.lit(False).alias("torn"))
    cut = frames["sources"].filter("cut")
    ends = cut.select("source", pl.col("lines").alias("end")).unique("source")
    last = pl.col("line") + pl.col("span").fill_null(0)
    told = tracebacks.join(ends, on="source", how="left", maintain_order="left")
    return told.with_columns((last > pl.col("end")).fill_null(False).alias("torn"))


def _threw(frames: Frames) -> pl.Series:
    """Return the ranks that a C++ exception ended which no watchdog throws.

    One that stands there without a rank ended the only one that is told to have ended.
    """
    lines = frames.message("python.cpp_terminate")
    if "exception" not in lines.columns:
        return lines["rank"].clear()
    own = lines.filter(~pl.col("exception").str.contains(WATCHDOGS))
    named = own["rank"].drop_nulls().unique()
    only = _only_ended(frames) if lines.height == own.height > 0 else None
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

    In SCHEMA and `echo`. A CUDA error that ends the watchdog is this rank's; an NCCL
    error is about a peer, and an abort is the watchdog's own doing.
    """
    lines = frames.message("c10d.watchdog.terminated", "python.fatal", *NOT_A_NUMBER)
    if lines.is_empty():
        return pl.DataFrame(schema=RAISED)
    found = pl.col("text") if "error" not in lines.columns else pl.col("error")
    lines = lines.with_columns(pl.coalesce(found, "text").alias("error"))
    if "rerun_rank" in lines.columns:
        rank = pl.coalesce("rank", "rerun_rank")
        lines = lines.with_columns(rank.cast(pl.Int64).alias("rank"))
    own = lines.filter(
        pl.col("error").str.contains(f"{CUDA}|{OWN_FAULT}")
        | pl.col("message").is_in(NOT_A_NUMBER)
    )
    fatal = pl.col("message") == "python.fatal"
    return own.with_columns(
        pl.lit(None, pl.Int64).alias("code"),
        pl.col("error").str.head(160).alias("why"),
        pl.lit(None, pl.String).alias("site"),
        pl.when(fatal).then(pl.lit("fatal")).otherwise(pl.lit("watchdog")).alias("by"),
        pl.lit(False).alias("echo"),
        pl.lit(False).alias("by_launcher"),
    ).select(RAISED.keys())


def _of_ray(frames: Frames) -> pl.DataFrame:
    """Return the worker that Ray lost, in SCHEMA, where nobody's watchdog ended one.

    Ray sees that a process is gone and not why. It is named by its address where only
    one is.
    """
    lines = frames.message(*RAY)
    victims = frames["events"].filter(pl.col("role") == "victim")
    if lines.is_empty() or victims.height or frames.message(*SELF_ABORT).height:
        return pl.DataFrame(schema=SCHEMA)
    repeated = "repeated" in lines.columns and lines["repeated"].count() > 0
    known = lines.select("host", "pid").drop_nulls().unique()
    host = pl.col("host") if known.height == 1 and not repeated else pl.lit(None)
    return lines.with_columns(
        pl.lit(None, pl.Int64).alias("code"),
        pl.lit("its Ray worker is gone, and nothing tells why").alias("why"),
        pl.lit(None, pl.String).alias("site"),
        pl.lit("exit").alias("by"),
        host.cast(pl.String).alias("host"),
    ).select(SCHEMA.keys())


def _of_lines(frames: Frames) -> pl.DataFrame:
    """Return the ranks that lost a data loading process, or whose GPU failed a call.

    In SCHEMA, for where no traceback tells it as well; a process that was told to end
    is an echo.
    """
    lines = pl.concat([frames.message(*FATAL), _of_nccl(frames)], how="diagonal")
    told = ~pl.col("text").str.contains(r"signal: Terminated")
    return lines.filter(told & ~stops.after_stop(frames, lines)).select(
        "rank",
        "host",
        pl.lit(None, pl.Int64).alias("code"),
        pl.col("text").str.head(160).alias("why"),
        pl.lit(None, pl.String).alias("site"),
        pl.lit("traceback").alias("by"),
        *("t", "text", "source", "line"),
    )


def _of_nccl(frames: Frames) -> pl.DataFrame:
    """Return the CUDA errors that stay with their process, as NCCL meets them.

    Of several processes one may have brought down the others.
    """
    lines = frames.message("nccl.cuda.failure")
    mine = lines.filter(
        (pl.col("level") == "WARN") & pl.col("text").str.contains(STICKY)
    )
    alone = mine.select("host", "pid").unique().height == 1
    return mine if alone else mine.clear()


def _exits(frames: Frames, echoing: pl.DataFrame) -> pl.DataFrame:
    """Return the exits that no agent and no loss of a peer brought about, in SCHEMA."""
    victims = frames["events"].filter(pl.col("role") == "victim")["rank"]
    aborts = frames.message(*SELF_ABORT)["rank"]
    echoed = pl.concat([victims, aborts, echoing["rank"]]).drop_nulls().unique()
    code = pl.col("code")
    why = exits.words(code)
    return (
        exits.by_themselves(frames)
        .filter(_fault() | ~pl.col("rank").is_in(echoed.implode()).fill_null(False))
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
