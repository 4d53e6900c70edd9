"""Uncaught exceptions, and whether each says that another rank caused it.

A process raises one of its own, or because a peer is gone, or as a launcher that saw a
child exit. If the text is lost, its cause is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.evidence import common, lost_peers
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import with_nulls, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

TRACEBACKS = ("python.traceback", "torchelastic.error_file")
# last line of a traceback that is missing, as it is or as a person retold it
HEADLESS = ("uncaught.of_rank",)
NAMELESS = "uncaught.exception"  # the same, from a process that does not print its rank
# exceptions that a process raises because of others, or that report another's end
ECHOES = (
    r"(?:Dist(?:Backend|Network|Store)?Error|ChildFailedError|SignalException"
    r"|Rendezvous\w*Error|ProcessRaisedException|ProcessExitedException"
    r"|nccl(?:Remote|System|Internal)Error"
    r"|KeyboardInterrupt|SystemExit|BrokenPipeError|ConnectionResetError|EOFError"
    r"|^Failures|ConnectionRefusedError|ActorDiedError|RayActorError|RayTaskError"
    # statuses of gRPC, as TensorFlow raises them, and waits for another process
    r"|(?:Unavailable|Cancelled|DeadlineExceeded|Aborted)Error"
    r"|GetTimeoutError|RayChannel(?:Timeout)?Error|ActorUnavailableError"
    r"|EngineDeadError"
    r"|^ray\.train\.[\w.]*(?:TrainingFailedError|WorkerGroupError))$"
)
# a rank that fails inside a collective may only have lost a peer, whatever the text.
# What Python checks of arguments, and earlier GPU errors, are the rank's own
IN_CALL = r"/horovod/(?:torch|tensorflow|common)/|/mpi4py/|/device_communicators/"
ARGUMENTS = r"(?:Type|Value|Assertion|Key|Index|Attribute|NotImplemented)Error$"
OF_GPU = r"(?:CUDA|HIP)(?: driver)? error|out of memory"
# a communication library's own words, whichever it is
OF_LIBRARY = (
    r"\b(?:[Hh]ccl|HCCL|XCCL|oneCCL|ccl::|MPI_|MPIDI_|NIXL_ERR_"
    r"|gloo/(?:transport|rendezvous)/|ProcessGroup(?:MPI|UCC)\.cpp:)"
)
FRAME = "python.frame.collective"
ABOVE = 12  # lines between the frame of the call and what was raised
CODE = r"^\s{4}"  # how a traceback indents the code below a frame
GATHERED = r"CheckpointException ranks:dict_keys\(\[([\d, ]*)\]\)"
PIECE = 40  # leading characters by which a text is recognized
# a C++ throw location whose end, or whose words behind it, are missing
OPEN = r"^\w+: \[/[^\]]*\]?\s*$"
WORDLESS = "RuntimeError"  # of which only `RuntimeError:` is left, its words are not
# an exception is about others if its text is a message of these roles, or says so
ABOUT_OTHERS = ("victim", "agent", "either")

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
# columns that say where a traceback was raised
PLACED = {
    "by_launcher": pl.Boolean(),
    "signalled": pl.Boolean(),
    "file": pl.String(),
    "file_line": pl.Int64(),
    "function": pl.String(),
    "op": pl.String(),
    "raised_in": pl.String(),
}
VICTIMS = {c: SCHEMA[c] for c in ("source", "line")} | {"victim": pl.Boolean()}
RAISED = {
    **SCHEMA,
    "echo": pl.Boolean(),
    "by_launcher": pl.Boolean(),
    "in_call": pl.Boolean(),
}


@remembered
def uncaught(frames: Frames) -> pl.DataFrame:
    """Return the uncaught exceptions, in RAISED.

    `echo` is true if others caused the exception, and null if that is unknown.
    """
    lines = pl.concat(
        [
            frames.message(*TRACEBACKS),
            _under_frame(frames, _headless(frames)),
            _under_frame(frames, _nameless(frames)),
        ],
        how="diagonal_relaxed",
    )
    if "exception" not in lines.columns:
        return without_rows(RAISED)
    tasks = exit_records.ranks_of_tasks(frames).rename({"rank": "rank_of_task"})
    lines = lines.join(tasks, on="task", how="left", maintain_order="left")
    lines = lines.with_columns(pl.coalesce("rank", "rank_of_task").alias("rank"))
    lines = with_nulls(lines, PLACED)
    said = common.sentence(
        pl.col("exception"), ": ", pl.col("message_text").fill_null("")
    )
    file = pl.col("file").str.extract(r"([^/]+)$")
    lines = lines.with_columns(said.alias("said"))
    lines = lines.with_columns(_whose().alias("rank"), _in_call().alias("in_call"))
    lines = _torn(frames, lines)
    victims = _of_victims(frames)
    lines = lines.join(
        victims, on=["source", "line"], how="left", maintain_order="left"
    )
    return (
        lines.with_row_index("row")
        .with_columns(
            pl.col("row").is_in(_of_others(frames, lines).implode()).alias("of_others")
        )
        .with_columns(
            pl.when(pl.any_horizontal("by_launcher", "signalled").fill_null(False))
            .then(True)
            .when("of_others")
            .then(True)
            .when("torn")
            .then(None)
            .when(_about_peers())
            .then(True)
            .when(pl.col("in_call") | pl.col("exception").is_null())
            .then(None)
            .otherwise(pl.col("victim").fill_null(False))
            .alias("echo"),
            pl.lit(None, pl.Int64).alias("code"),
            pl.col("said").str.head(160).str.strip_suffix(": ").alias("why"),
            common.sentence(
                file, ":", pl.col("file_line"), " ", pl.col("function")
            ).alias("site"),
            pl.lit("traceback").alias("by"),
            pl.col("said").str.strip_suffix(": ").alias("text"),
        )
        .select(RAISED.keys())
    )


def _of_victims(frames: Frames) -> pl.DataFrame:
    """Return `source line victim` of the tracebacks that tell of a lost peer.

    Their last line tells it, or a line of code above it, where the last one is cut.
    """

    # all records of an export may stand on one line, so that the words count as well
    def words(text: str) -> pl.Expr:
        return pl.col(text).str.strip_chars().str.head(PIECE).alias("words")

    told = frames["events"].filter(pl.col("role") == "victim")
    if told.is_empty():
        return without_rows(VICTIMS)
    is_code = pl.col("text").str.contains(CODE).alias("is_code")
    told = told.select("source", words("text"), is_code, at="line")
    ends = frames.quoted(TRACEBACKS[0])
    ends = ends.select("source", "line", words("said"), at="said_line")
    both = ends.join(told, on=["source", "at", "words"]).select("source", "line")
    spans = with_nulls(frames.message(TRACEBACKS[0]), {"span": pl.Int64()})
    inside = spans.select("source", "line", end=pl.col("line") + pl.col("span"))
    inside = inside.join(told.filter("is_code"), on="source").filter(
        (pl.col("at") > pl.col("line")) & (pl.col("at") < pl.col("end"))
    )
    found = pl.concat([both, inside.select("source", "line")])
    return found.select("source", "line", pl.lit(True).alias("victim")).unique()


def _whose() -> pl.Expr:
    """The rank that an exception is of; null if it says that several raised theirs.

    torch's distributed checkpoint gathers what each rank raised, and raises it on all.
    """
    listed = pl.col("said").str.extract(GATHERED)
    one = listed.str.extract(r"^(\d+)$").cast(pl.Int64)
    return pl.when(listed.is_null()).then("rank").otherwise(one)


def _about_peers() -> pl.Expr:
    """Whether an exception itself says that others caused it."""
    return pl.col("exception").str.contains(ECHOES) | pl.col("said").str.contains(
        lost_peers.TOLD
    )


def _in_call() -> pl.Expr:
    """Whether an exception came out of a collective, which hides whose fault it is."""
    inside = (
        pl.col("op").is_not_null()
        | pl.col("raised_in").str.contains(IN_CALL).fill_null(False)
        | pl.col("said").str.contains(OF_LIBRARY)
    )
    own = pl.col("exception").str.contains(ARGUMENTS)
    gpu = pl.col("said").str.contains(OF_GPU)
    return (inside & ~own & ~gpu).fill_null(False)


def _under_frame(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Add `op`: the collective in whose frame the exception was raised, or null.

    The frames are all that is left of a traceback whose head is lost.
    """
    calls = frames.message(FRAME)
    if calls.is_empty() or lines.is_empty():
        return lines
    calls = calls.select("source", "rank", "op", at="line")
    above = pl.col("line") - pl.col("at")
    found = (
        lines.select("source", "line", "rank")
        .join(calls, on=["source", "rank"], nulls_equal=True)
        .filter(above.is_between(1, ABOVE))
        .unique(["source", "line"])
    )
    return lines.join(
        found.select("source", "line", "op"),
        on=["source", "line"],
        how="left",
        maintain_order="left",
    )


def _headless(frames: Frames) -> pl.DataFrame:
    """Return the exceptions of ranks with no traceback of their own above them."""
    key = ["source", "rank"]
    alone = frames.message(*HEADLESS)
    if alone.is_empty():
        return alone
    heads = frames.message("python.traceback").group_by(key)
    first = heads.agg(pl.col("line").min().alias("head"))
    lines = alone.join(first, on=key, how="left", maintain_order="left")
    return lines.filter((pl.col("line") < pl.col("head")).fill_null(True)).drop("head")


def _nameless(frames: Frames) -> pl.DataFrame:
    """Return the only exception line without a rank, where one was not caught.

    That is shown by the one rank that failed by itself, or by the head of a traceback
    of which other processes' lines tore off the end. If there are several exceptions,
    it is unknown which was not caught, and whose it is.
    """
    lines = frames.message(NAMELESS)
    whole = frames.message(*TRACEBACKS, *HEADLESS)
    torn = whole.clear()
    if "by_launcher" in whole.columns:
        # a launcher's own traceback is of no rank
        whole = whole.filter(~pl.col("by_launcher").fill_null(False))
        torn = whole.filter(pl.col("exception").is_null() & pl.col("rank").is_null())
    if lines["text"].n_unique() != 1 or whole.height > torn.height:
        return lines.clear()
    ended = exit_records.only_one(frames) is not None
    if torn.height and not ended:
        return lines.filter(pl.col("source").is_in(torn["source"].implode())).head(1)
    return lines.head(1) if ended else lines.clear()


def _of_others(frames: Frames, raised: pl.DataFrame) -> pl.Series:
    """Return the rows of `raised` whose text (`said`) a line about others has.

    If a terminal wrapped a traceback, `said` is the first piece of that line.
    """
    told = frames["events"].filter(
        pl.col("role").is_in(ABOUT_OTHERS) & (pl.col("message") != TRACEBACKS[0])
    )
    if told.is_empty():
        return pl.Series("row", [], pl.get_index_type())
    lines = told.select("source", "text", pl.col("text").str.head(PIECE).alias("head"))
    head = pl.col("said").str.head(PIECE).alias("head")
    begun = pl.col("text").str.starts_with(pl.col("said"))
    words = raised.select("source", "said", head).with_row_index("row")
    return words.join(lines.unique(), on=["source", "head"]).filter(begun)["row"]


def _torn(frames: Frames, tracebacks: pl.DataFrame) -> pl.DataFrame:
    """Add `torn`: whether the end of the text, which shows the cause, is missing.

    A truncated file has lost it, or a line ends inside what C++ puts in brackets or
    behind the colon.
    """
    # Python prints the colon only in front of words
    wordless = (pl.col("message_text") == "") & (pl.col("exception") == WORDLESS)
    inside = pl.col("said").str.contains(OPEN) | wordless.fill_null(False)
    if "span" not in tracebacks.columns:
        return tracebacks.with_columns(inside.alias("torn"))
    cut = frames["sources"].filter("cut")
    files = cut.select("source", pl.col("lines").alias("end")).unique("source")
    last = pl.col("line") + pl.col("span").fill_null(0)
    told = tracebacks.join(files, on="source", how="left", maintain_order="left")
    beyond = (last > pl.col("end")).fill_null(False)
    return told.with_columns((beyond | inside).alias("torn"))
