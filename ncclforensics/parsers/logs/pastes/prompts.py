"""A shell's prompt in front of a command: it names the host of the output below it.

    user@gpu0001:~/job$ nvidia-smi
    Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error

That holds up to the next prompt or the end of the quotation, for lines that tell no
host themselves. A command that shows files, or what ran elsewhere, tells of no host.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.record_starts import PROMPT

_PROMPT = ascii_only(rf"^[ \t]*{PROMPT} *(.*)$")
# commands that print what was written or what runs on other hosts
ELSEWHERE = (
    r"^(?:sudo +)?(?:cat|tail|head|less|more|z?grep|awk|sed|ssh|pdsh|clush|parallel-ssh"
    r"|kubectl|docker|podman|ray|aws|gcloud|mpirun|mpiexec|horovodrun|deepspeed"
    r"|srun|salloc|sbatch|squeue|sacct|sinfo|scontrol|scancel)(?:\s|$)"
)
_FENCE = r"^\s*(?:```|~~~)"


def may_be() -> pl.Expr:
    """Whether a line is a prompt."""
    return pl.col("raw").str.contains(_PROMPT).any()


def found(lines: pl.DataFrame) -> bool | None:
    """Return True if a prompt tells of a host, else None."""
    told = lines.select(_host().alias("host"))["host"]
    return True if told.drop_nulls().len() else None


def undone(lines: pl.DataFrame, _how: bool) -> pl.DataFrame:
    """Write the host in front of the command and its output, as `framing` knows it."""
    fence = pl.col("raw").str.contains(_FENCE)
    block = (fence | pl.col("raw").str.contains(_PROMPT)).cum_sum()
    host = _host().first().over(block)
    speaks = ~fence & pl.col("raw").str.contains(r"\S")
    named = pl.when(speaks & host.is_not_null())
    told = named.then(pl.format("[host/{}] {}", host, "raw")).otherwise("raw")
    return lines.with_columns(told.alias("raw"))


def says(_how: bool) -> str:
    """Say nothing: a prompt is no damage."""
    return ""


def _host() -> pl.Expr:
    """Return the host of each prompt whose command shows that host, else null."""
    parts = pl.col("raw").str.extract_groups(_PROMPT).struct
    names = (parts.field(str(number)) for number in (1, 2, 3))
    runs = parts.field("4").fill_null("")
    there = (runs != "") & ~runs.str.contains(ELSEWHERE)
    return pl.when(there).then(pl.coalesce(*names))
