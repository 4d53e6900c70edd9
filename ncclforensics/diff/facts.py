"""The facts that one side tells, in a frame: `topic name value rank source line`.

A fact that is of no rank has a null `rank`. `name` is what is compared with the fact of
the same name on the other side: group descriptions and messages, for instance, because
numbers and addresses of groups are others in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job

if TYPE_CHECKING:
    from ncclforensics.diff.model import Topic
    from ncclforensics.model.frames import Frames

SCHEMA = {
    **dict.fromkeys(("topic", "name", "value"), pl.String()),
    "rank": pl.Int64(),
    "source": pl.String(),
    "line": pl.Int64(),
}
# topic, name, message, and the capture that is the value
CAPTURED = (
    ("versions", "NCCL", "nccl.version", "version"),
    ("versions", "CUDA of NCCL", "nccl.version", "cuda"),
    ("versions", "CUDA driver", "nccl.version.driver", "driver"),
    ("network", "data", "nccl.net.selected", "network"),
    ("network", "sockets", "nccl.net.socket_using", "interface"),
    ("network", "InfiniBand", "nccl.net.ib_using", "devices"),
    ("network", "bootstrap", "nccl.bootstrap.using", "interface"),
)
BLAME = {"culprit": 0, "either": 1, "victim": 2, "agent": 3}  # role of a line: order
GROUP = pl.coalesce("pg_desc", "pg")
SEQ = pl.format("SeqNum={}", "completed")
WAITS = pl.format(", waits in {} SeqNum={}", pl.col("op").fill_null("call"), "waits_in")


def facts(frames: Frames) -> pl.DataFrame:
    """Return the facts of correlated frames, in a fixed order."""
    found = [_captured(frames, *row) for row in CAPTURED]
    found += [_environment(frames), _steps(frames), _standings(frames), _exits(frames)]
    found += [_groups(frames), *_calls(frames)]
    by_name = pl.concat(found).sort("topic", "name", "source", "line")
    return pl.concat([by_name, _lines(frames)])


def topics(frames: Frames, found: pl.DataFrame) -> set[Topic]:
    """Return the topics that the evidence tells of, even if it has no fact of them.

    NCCL prints a variable only where it is set, and only if NCCL_DEBUG is INFO.
    """
    events = frames["events"]
    info = pl.col("message").str.starts_with("nccl.") & (pl.col("level") == "INFO")
    told: set[Topic] = {"lines", *found["topic"].unique()}
    if events.select(info.any()).item():
        told |= {"environment", "versions", "network"}
    return told


def _fact(
    frame: pl.DataFrame, topic: str, name: pl.Expr, value: pl.Expr
) -> pl.DataFrame:
    """Return the rows of `frame` that have a value, as facts."""
    cites = [pl.col(c) if c in frame.columns else pl.lit(None) for c in SCHEMA]
    by_name = dict(zip(SCHEMA, cites, strict=True))
    by_name |= {"topic": pl.lit(topic), "name": name, "value": value}
    cast = [e.cast(SCHEMA[c]).alias(c) for c, e in by_name.items()]
    return frame.select(cast).drop_nulls(["name", "value"])


def _captured(
    frames: Frames, topic: str, name: str, message: str, column: str
) -> pl.DataFrame:
    lines = frames.message(message)
    value = pl.col(column) if column in lines.columns else pl.lit(None)
    value = value.cast(pl.String).str.strip_chars()
    return _fact(lines, topic, pl.lit(name), value)


def _environment(frames: Frames) -> pl.DataFrame:
    lines = frames.message("nccl.env", "nccl.env.set")
    if "variable" not in lines.columns:
        return pl.DataFrame(schema=SCHEMA)
    return _fact(lines, "environment", pl.col("variable"), pl.col("value"))


def _steps(frames: Frames) -> pl.DataFrame:
    """Return the last step that each rank counted."""
    steps = job.steps(frames)
    if "step" not in steps.columns:
        return pl.DataFrame(schema=SCHEMA)
    last = steps.sort("step", maintain_order=True).unique(
        "rank", keep="last", maintain_order=True
    )
    value = pl.format("step {}", "step")
    return _fact(last, "progress", pl.lit("last step"), value)


def _standings(frames: Frames) -> pl.DataFrame:
    """Return how far each rank came in its groups."""
    value = pl.coalesce(pl.concat_str(SEQ, WAITS), SEQ)
    return _fact(frames["standings"], "progress", GROUP, value)


def _exits(frames: Frames) -> pl.DataFrame:
    return _fact(frames["exits"], "exits", pl.lit("exit code"), pl.col("code"))


def _groups(frames: Frames) -> pl.DataFrame:
    """Return how many groups of which size there are of each description."""
    known = frames["groups"]
    size = pl.coalesce("size", pl.col("members").list.len(), pl.col("rank").n_unique())
    each = known.group_by("pg", "pg_desc").agg(size.max().alias("of"))
    each = each.group_by(GROUP.alias("name"), "of").len().sort("name", "of")
    value = pl.format("{} of {} ranks", "len", "of")
    return _fact(each, "groups", pl.col("name"), value)


def _calls(frames: Frames) -> list[pl.DataFrame]:
    """Return the operations of each group with their types, and its timeout."""
    made = [frames["templates"]]
    if "collectives" in frames.tables:
        made.append(frames.tables["collectives"])
    columns = ["rank", "pg", "pg_desc", "op", "in_dtypes", "timeout_ms", "source"]
    calls = pl.concat(part.select(*columns, "line") for part in made)
    name = pl.format("{} on {}", "op", GROUP)
    ms = pl.col("timeout_ms")
    seconds = (
        pl.when(ms % 1000 == 0)
        .then(pl.format("{} s", ms // 1000))
        .otherwise(pl.format("{} ms", ms))
    )
    types = pl.col("in_dtypes").list.unique().list.sort().list.join(",")
    return [
        _fact(calls, "calls", name, types.fill_null("made")),
        _fact(calls, "calls", pl.format("timeout on {}", GROUP), seconds),
    ]


def _lines(frames: Frames) -> pl.DataFrame:
    """Return the lines that a healthy job does not print: the value is the text.

    Those that causes print come first. An agent's table of failed children is many
    messages, which count as one.
    """
    failing = frames["events"].filter(pl.col("role").is_in(list(BLAME)))
    blame = pl.col("role").replace_strict(BLAME)
    failing = failing.sort(blame, "t", "source", "line", nulls_last=True)
    table = pl.col("message").str.extract(r"^([^.]+\.[^.]+)")
    name = pl.when(pl.col("role") == "agent").then(table).otherwise("message")
    return _fact(failing, "lines", name, pl.col("text"))
