"""Log lines that read as a failure and that no grammar knows.

They accuse nobody. Where the job did not go on after one, nobody can say that the job
is well.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.runs import job, later_steps
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.notes import UNKNOWN, Note

BY_WORDS, OF_PERSON = "uncaught.failure", "uncaught.hang"
BY_LEVEL = ("uncaught.level", "uncaught.record")
# advice, and what is said not to happen
SUPPOSED = (
    r"(?i)\b(?:if|when|whenever|unless|until|whether|never|no longer|not|avoids?"
    r"|prevents?)\b[^.;!?]{0,80}\b(?:hangs|freezes|stuck)\b"
)
# a level in front that is not that of an error; Ray's programs in C++ print
# `W 735 779] actor_manager.cc:110: `
WARNED = (
    r"^(?:(?:[^a-z]{0,40}|[^:]{0,40})\b(?:WARN(?:ING)?|INFO|DEBUG)\b|[IW] \d+ \d+\] )"
)
# a line that says that nothing of a kind failed
NONE = (
    r"(?i)(?:^|[^\w.])(?:no|zero|0|without(?: any)?|not a single) (?:\w+ )?"
    r"(?:failed|failures?|errors?|aborted|timed out|timeouts?)\b"
    r"|\b(?:num|number|count|total)\b[^.;:=]{0,80}[:=] ?0\s*$"
    r"|\b(?:failed \w+s|failures|errors|timeouts)\b[^.;:=,]{0,20}[:=] ?0\b"
)
# a line that says that its program goes on all the same
GOES_ON = (
    r"(?i)\b(?:continuing|(?:will )?(?:retry|try again)|retrying|ignoring|ignored"
    r"|skipping|falling back)\b"
)
ASKED = r"\?\s*$"  # a question that somebody put above a log
SERVES = "launchers.serving"
BAD_LEVELS = ("E", "F", "ERROR", "FATAL", "CRITICAL", "C")
QUOTED = 160  # characters of a line


@remembered
def lines(frames: Frames) -> pl.DataFrame:
    """Return the unknown failing lines of `events` that the job did not survive.

    A line with a header counts by its level, one without by its words. The job survived
    a line if its file shows a later step or line of the program, if its steps go on by
    the clock, or if all processes ended well; what a person says of a log stands above
    it as well. Where known lines tell of a failure, these add nothing.
    """
    told = frames.message(BY_WORDS, OF_PERSON, *BY_LEVEL)
    if told.is_empty():
        return told
    of_person = pl.col("message") == OF_PERSON
    nobodys = pl.all_horizontal(pl.col("level", "rank", "t").is_null())
    claimed = nobodys & ~pl.col("text").str.contains(SUPPOSED)
    bad = pl.col("level").is_in(BAD_LEVELS).fill_null(False)
    by_words = (pl.col("message") == BY_WORDS) & pl.col("level").is_null()
    by_words &= ~pl.any_horizontal(
        pl.col("text").str.contains(form) for form in (WARNED, NONE, GOES_ON, ASKED)
    )
    told = told.filter(pl.when(of_person).then(claimed).otherwise(bad | by_words))
    known = job.ended_in_order(frames) or job.signs_of_failure(frames)
    if told.is_empty() or known:
        return told.clear()
    own = frames.message(*job.STEPS, *job.TAGGED, job.METRICS, SERVES).filter(~bad)
    last = own.group_by("source").agg(pl.col("line").max().alias("own_line"))
    went_on = later_steps.survived(frames, told.filter(~of_person))
    return (
        told.join(went_on, on=["source", "line"], how="anti", maintain_order="left")
        .join(last, on="source", how="left", maintain_order="left")
        .filter(of_person | (pl.col("line") > pl.col("own_line")).fill_null(True))
        .sort("t", "source", "line", nulls_last=True, maintain_order=True)
    )


def _quoted(row: dict[str, object]) -> str:
    return f"'{str(row['text']).strip()[:QUOTED]}'"


def noted(frames: Frames) -> Frames:
    """Return frames with a note that quotes the first and the last of such lines."""
    told = lines(frames)
    if told.is_empty():
        return frames
    first = told.row(0, named=True)
    text = f"{_quoted(first)} reads like a failure that this tool does not know"
    if told.height > 1:
        last = _quoted(told.row(-1, named=True))
        text += f", as {told.height - 1:,} more do, at last {last}"
    text += "; `ncclforensics grammars check FILE` shows them: please send them in"
    return frames.noting(Note(UNKNOWN, text, first["source"], first["line"]))
