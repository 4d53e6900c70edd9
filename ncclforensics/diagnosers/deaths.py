"""Which processes ended for a reason of their own, and which because others did.

An exception that says that a peer is gone, a timeout, a signal from the agent, an abort
by the process's own watchdog: these are echoes. What is left are deaths of their own.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import common

if TYPE_CHECKING:
    from ncclforensics.tables import Frames

TRACEBACKS = ("python.traceback", "torchelastic.error_file")
# exceptions that a process raises because of others, or that report another's end
ECHOES = (
    r"(?:Dist(?:Backend|Network|Store)?Error|ChildFailedError|SignalException"
    r"|Rendezvous\w*Error|ProcessRaisedException|ProcessExitedException"
    r"|KeyboardInterrupt|SystemExit|BrokenPipeError|ConnectionResetError|EOFError"
    r"|ConnectionRefusedError|ActorDiedError|RayActorError|RayTaskError)$"
)
# an exception whose text is a message of these roles is about somebody else
ABOUT_OTHERS = ("victim", "agent", "either")
# a process that one of these lines belongs to ended itself because of a peer
SELF_ABORT = (
    "c10d.watchdog.abort",
    "c10d.watchdog.timeout",
    "c10d.heartbeat.terminate",
)
SENT_BY_AGENT = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
LONGEST_TRACEBACK = 60  # lines
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


def of_own(frames: Frames) -> pl.DataFrame:
    """Return the deaths that nothing else in the evidence explains, in SCHEMA.

    `why` is an exception with its message or a signal's name, `by` who told.
    """
    raised = _raised(frames)
    echoing = raised.filter("echo")
    # of an exception whose text is lost nobody can say that it is the rank's own
    unread = raised.filter(pl.col("echo").is_null())
    exits = _exits(frames, pl.concat([echoing, unread]))
    own = raised.filter(~pl.col("echo")).select(SCHEMA.keys())
    # the exit of a rank whose exception is at hand says nothing more
    told = own["rank"].drop_nulls().unique()
    silent = exits.filter(~pl.col("rank").is_in(told.implode()).fill_null(False))
    faults = silent.filter(_fault())
    if own.height or faults.height:
        return pl.concat([own, faults])
    # a bare exit code tells of its own fault only where every other one is explained,
    # and 1 is that of every uncaught exception, whosever fault it is
    silent = silent.filter(pl.col("code") != 1)
    return silent if silent["rank"].n_unique() == 1 else silent.clear()


def first(deaths: pl.DataFrame) -> pl.DataFrame:
    """Keep those that came first, as far as times tell; without times, all of them.

    An exception is its own witness; an exit code only counts beside one if its time
    shows that it came before.
    """
    timed = deaths.drop_nulls("t")
    if timed.height and timed.height == deaths.height:
        since = (timed["t"] - timed["t"].min()).dt.total_nanoseconds()
        return timed.filter(since < APART_NS)
    raised = deaths.filter(pl.col("by") == "traceback")
    return raised if raised.height else deaths


def _fault() -> pl.Expr:
    """Whether an exit code is a fault by itself: a signal that no agent sends first."""
    return pl.col("code").is_in([-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE])


def _raised(frames: Frames) -> pl.DataFrame:
    """Return the uncaught exceptions, in SCHEMA and `echo`."""
    lines = frames.message(*TRACEBACKS)
    if "exception" not in lines.columns:
        return pl.DataFrame(schema={**SCHEMA, "echo": pl.Boolean()})
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
    lines = lines.join(ignored.unique(), on=["source", "line"], how="anti")
    said = common.sentence(
        pl.col("exception"), ": ", pl.col("message_text").fill_null("")
    )
    file = pl.col("file").str.extract(r"([^/]+)$")
    return (
        lines.with_columns(said.alias("said"))
        .join(about_others, on=["source", "said"], how="left", maintain_order="left")
        .join(_ends(frames), on="source", how="left", maintain_order="left")
        .with_columns(
            # the text at the end of a log that is cut is not whole
            pl.when(pl.col("line") > pl.col("whole_until"))
            .then(None)
            .otherwise(
                pl.col("exception").str.contains(ECHOES)
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
        .select(*SCHEMA, "echo")
    )


def _ends(frames: Frames) -> pl.DataFrame:
    """Return `source whole_until`: of logs that are cut, where their end begins."""
    cut = frames["sources"].filter(pl.col("cut") & pl.col("lines").is_not_null())
    return cut.select(
        "source", (pl.col("lines") - LONGEST_TRACEBACK).alias("whole_until")
    ).unique("source")


def _exits(frames: Frames, echoing: pl.DataFrame) -> pl.DataFrame:
    """Return the exits that no agent and no loss of a peer brought about, in SCHEMA."""
    victims = frames["events"].filter(pl.col("role") == "victim")["rank"]
    echoed = pl.concat([victims, echoing["rank"]]).drop_nulls().unique()
    names = {-s.value: s.name for s in signal.Signals}
    code = pl.col("code")
    why = (
        pl.when(code.is_in(list(names)))
        .then(code.replace_strict(names, default=None, return_dtype=pl.String))
        .otherwise(common.sentence("exit code ", code))
    )
    return (
        frames["exits"]
        .filter(
            (code != 0)
            & ~code.is_in(SENT_BY_AGENT)
            & (_fault() | ~pl.col("rank").is_in(echoed.implode()).fill_null(False))
        )
        .with_columns(
            why.alias("why"),
            pl.lit(None, pl.String).alias("site"),
            pl.lit("exit").alias("by"),
            common.sentence(why, " (reported by ", pl.col("reported_by"), ")").alias(
                "text"
            ),
        )
        .select(SCHEMA.keys())
    )
