"""Which rank a program says it is, on which host and as which process.

Programs print it in words of their own, `rank=13 local_rank=5 world_size=32
host=node012` or `rank 5/8: up, host=node012, pid 4711`: each value is read by its own
key, wherever in the line it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SAID = ("python.rank_of", "python.rank_on", "python.process_of")
CAPTURED = {
    **dict.fromkeys(("of", "on", "there", "text"), pl.String()),
    **dict.fromkeys(("told", "numbered", "turn"), pl.Int64()),
}
_IS = r"[\"']?(?:\s{0,2}[:=]\s{0,2}|\s)[\"']?"
_NAME = (
    r"([A-Za-z][A-Za-z0-9]*[-.][A-Za-z0-9.-]*|[A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*)"
)
_BEHIND = r"(?:[\"',;:)\]]|\s|$)"
# a label of what Prometheus reads
LABELLED_RANK = r"[{,](?:(?:global_|world_)?rank|process_index)=\"(\d{1,7})\""
HOST = (
    rf"(?i)\b(?:host(?:name)?|node(?:name)?|machine)[\"']?[:=] ?[\"']?{_NAME}{_BEHIND}"
)
_HOSTS = (
    HOST,
    # right behind the number: `rank 3/32 local 3 on gpu0003`
    r"(?i)\brank[ :=#]{1,3}\d+(?:(?: ?/ ?| of )\d+)?(?: local(?:[_ ]rank)? ?\d{1,3})?"
    r"(?:\]|[:,;]| *->| (?:is )?(?:running|runs|starts|started|lives))?"
    r"(?:,? (?:(?:on|at|from)(?: host| node)?|host|node)| *->) ?[\"']?"
    rf"{_NAME}{_BEHIND}",
    # behind what it does: `rank 3 of 16 on gpu0003`, `rank 5/8 up on gpu0003`
    r"(?i)\brank[ :=#]{1,3}\d+(?: ?/ ?| of )\d+[^\n]{0,40}?\b(?:on|from) "
    rf"{_NAME}{_BEHIND}",
)
_SIZE = (
    rf"(?i)\bworld[_ ]?size{_IS}(\d{{1,6}})\b",
    r"(?i)\brank[ :=#]{1,3}\d+(?: ?/ ?| of )([1-9]\d{0,5})\b",
)
_LOCAL = rf"(?i)\blocal[_ ]?rank{_IS}(\d{{1,3}})\b"
_PID = rf"(?i)\brank\b.*\bpid{_IS}(\d{{2,8}})\b"


@remembered
def stated(frames: Frames) -> pl.DataFrame:
    """Return the lines that state a rank, `told`; what they do not state is null.

    With `world_size local_rank host pid`, and the columns of events. None of a number
    that is of a group or of another rank.
    """
    lines = with_nulls(frames.message(*SAID), CAPTURED)
    text = pl.col("text")

    def number(*forms: str) -> pl.Expr:
        found = pl.coalesce(text.str.extract(form) for form in forms)
        return found.cast(pl.Int64, strict=False)

    return (
        lines.filter(pl.col("of").is_null())
        .with_columns(
            pl.coalesce("told", "numbered").alias("told"),
            pl.coalesce(
                "on", "there", *(text.str.extract(h) for h in _HOSTS), "host"
            ).alias("host"),
            pl.coalesce("turn", number(_LOCAL), "local_rank").alias("local_rank"),
            pl.coalesce(number(_PID), "pid").alias("pid"),
            world_size=number(*_SIZE),
        )
        .drop_nulls("told")
        # processes of several containers may have the same number
        .with_columns(
            pl.when(pl.col("told").n_unique().over("host", "pid") == 1).then("pid")
        )
    )
