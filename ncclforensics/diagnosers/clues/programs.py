"""The programs of single ranks: in which order they make calls, and where in the code.

A rank's entries in the order of their records are its program. A training loop repeats
it, so that a call left out, or made at another place, shows against what the same rank
did before; and stacks tell which of two places of the code comes first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.held import OTHER_SIDE
from ncclforensics.correlate.standings import grouped, signature
from ncclforensics.diagnosers.clues import common
from ncclforensics.frames import remembered
from ncclforensics.tables import done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.frames import Frames

CONTEXT = 500  # calls before one that are compared with those before another
MORE = 16  # messages of a kind that may have been made after one that was left out
SELDOM = 2  # times rarer than a step is what comes after the loop
FEW = 2  # ranks whose Python did not give its stacks
SAMPLE = 4  # ranks whose history is looked at
Call = dict[str, Any]
Way = list[tuple[str, str, int | None]]


def way(frames: Frames, stack: int | None) -> Way:
    """Return the user's frames of a stack, outermost first: function, file, line."""
    if stack is None:
        return []
    own = (
        frames["stacks"]
        .filter(
            (pl.col("stack") == stack) & ~pl.col("file").str.contains(common.LIBRARY)
        )
        .unique("depth", keep="first")
        .sort("depth", descending=True)
    )
    return list(own.select("function", "file", "file_line").iter_rows())


def beside(frames: Frames, mine: Way, stack: int | None, rank: int) -> Way:
    """Return the way of a rank's call, or of its last one in the thread of `mine`.

    A backward pass runs in a thread of its own, whose stacks tell nothing of where the
    program is: they begin in another file. No way, if the rank was never seen in that
    of `mine`.
    """
    begins = [file for _, file, _ in mine[:1]]
    made = program(frames, rank)["stack"].drop_nulls().reverse()
    last = [s for s in made.unique(maintain_order=True) if s != stack]
    ways = (way(frames, other) for other in (stack, *last))
    return next((w for w in ways if [file for _, file, _ in w[:1]] == begins), [])


def parting(frames: Frames, mine: int | None, theirs: int | None) -> str:
    """Say where two stacks part: "train.py:72 train against train.py:60 train"."""
    pairs = zip(way(frames, mine), way(frames, theirs), strict=False)
    for own, peer in pairs:
        if own != peer:
            return f"{_place(own)} against {_place(peer)}"
    return ""


def _place(frame: tuple[str, str, int | None]) -> str:
    return f"{str(frame[1]).rpartition('/')[2]}:{frame[2]} {frame[0]}"


def order(frames: Frames, mine: int | None, theirs: int | None) -> int:
    """Compare two stacks by the program's order: -1 if `mine` comes first, 0 unknown.

    They have to part inside of one function, at two of its lines.
    """
    for own, peer in zip(way(frames, mine), way(frames, theirs), strict=False):
        if own != peer:
            if own[:2] != peer[:2] or own[2] is None or peer[2] is None:
                return 0
            return -1 if own[2] < peer[2] else 1
    return 0


def skipped(frames: Frames, call: Call, ranks: Iterable[int]) -> bool:
    """Whether one of some ranks left out its half of a message and went on.

    `call` is the message that its other side waits in. The order of calls does not
    tell in a dump of open calls only, which lacks the messages that are over.
    """
    waits = held(frames, call)
    if waits.is_empty():
        return False
    over = done() & ~pl.col("is_p2p").fill_null(False)
    return any(
        _is_short(frames, call, waits, mine)
        or (mine.select(over.any()).item() and _left_out(mine, waits))
        for mine in (program(frames, rank) for rank in ranks)
    )


def held(frames: Frames, call: Call) -> pl.DataFrame:
    """Return the entry of the message that the first waiting rank is held in."""
    theirs = program(frames, call["waiting"][0])
    return theirs.filter(
        (pl.col("source") == call["source"]) & (pl.col("line") == call["line"])
    )


def _left_out(mine: pl.DataFrame, waits: pl.DataFrame) -> bool:
    """Whether a rank's program, as far as it repeats itself, jumped over such a half.

    At some place it went on with what used to follow the half, to this day, although
    the longest stretch of its history that led there the same way led to the half.
    """
    told = ["group", "src", "dst", "op"]
    half = pl.lit(OTHER_SIDE.get(waits["op"][0])).alias("op")
    wanted = waits.with_columns(half).select(told).unique()
    rows = mine.with_row_index("at").join(wanted, on=told, how="semi", nulls_equal=True)
    halves = rows["at"].to_list()
    made = mine["what"].to_list()
    places: dict[int, list[int]] = defaultdict(list)
    for place, call in enumerate(made):
        places[call].append(place)
    for now in range(halves[-MORE:][0] + 1 if halves else len(made), len(made)):
        usual = [i for i in places[made[now]] if i < now]
        jumps = [
            i - 1
            for i in usual
            if i - 1 in halves and made[i:now][: len(made) - now] == made[now:]
        ]
        if jumps and _likeness(made, now, jumps) > _likeness(made, now, usual):
            return True
    return False


def _likeness(made: list[int], now: int, places: list[int]) -> int:
    """Return how many calls before `now` are those before one of `places`, at most."""
    most = 0
    for place in places:
        same = 0
        while same < min(place, CONTEXT):
            if made[place - same - 1] != made[now - same - 1]:
                break
            same += 1
        most = max(most, same)
    return most


def _is_short(
    frames: Frames, call: Call, waits: pl.DataFrame, mine: pl.DataFrame
) -> bool:
    """Whether a rank posted fewer halves than its peer between two calls of both.

    From one collective of a group that both are in to a later one, both sides post as
    many; what a host has enqueued counts, however far its GPU is.
    """
    half = OTHER_SIDE.get(str(call["op"]))
    theirs = program(frames, call["waiting"][0])
    key = ["group", "seq", "op", "in_sizes"]
    # torch 2.3 does not tell which batches are of messages
    batch = pl.col("op").str.ends_with("coalesced")
    collective = ~pl.col("is_p2p").fill_null(False) & ~batch
    both = (
        mine.filter(collective)
        .select(*key, pl.col("record_id").alias("mine"))
        .join(
            theirs.filter(collective).select(*key, pl.col("record_id").alias("theirs")),
            on=key,
            how="inner",
            nulls_equal=True,
        )
        .sort("mine")
    )
    ends = [pl.col(c).eq_missing(waits[c][0]) for c in ("group", "src", "dst")]
    for _, told in both.group_by("group", maintain_order=True):
        if told.height > 1:
            first, last = told.row(0, named=True), told.row(-1, named=True)
            own = pl.col("record_id").is_between(first["mine"], last["mine"])
            other = pl.col("record_id").is_between(first["theirs"], last["theirs"])
            posted = mine.filter(own, pl.col("op") == half, *ends).height
            wanted = theirs.filter(other, pl.col("op") == call["op"], *ends)
            if posted < wanted.height:
                return True
    return False


def is_out_of_place(frames: Frames, call: Call, rank: int) -> bool:
    """Whether a rank made a call where it used to make one of another group.

    What it made last was followed by something else before, and never by this.
    """
    mine = program(frames, rank)
    now = mine.filter(
        (pl.col("seq") == call["seq"])
        & (pl.col("group") == call["group"])
        & ~pl.col("is_p2p").fill_null(False)
    )
    if now.is_empty() or now["before"][0] is None:
        return False
    usual = mine.filter(
        (pl.col("before") == now["before"][0])
        & (pl.col("record_id") < now["record_id"][0])
    )
    same_group = pl.col("group") == call["group"]
    return not usual.is_empty() and usual.filter(same_group).is_empty()


def left_loop(frames: Frames, call: Call, rank: int) -> bool:
    """Whether a rank went out of its loop where its way so far went round before.

    It has made this call before, so it is no stray one, but more seldom than it has
    been here. Where it never came to it from here, it went from there into the loop as
    it does from here; else no more of the way there was like this time's than where it
    went round.
    """
    mine = program(frames, rank)
    is_it = (pl.col("seq") == call["seq"]) & (pl.col("group") == call["group"])
    rows = mine.with_row_index("at").filter(is_it & ~pl.col("is_p2p").fill_null(False))
    if rows.height != 1 or rows["at"][0] == 0:
        return False
    now, made = rows["at"][0], mine["what"].to_list()
    times = Counter(made[:now])
    # what was made for the first time tells nothing of the way
    here = next((i for i in range(now, 0, -1) if times[made[i - 1]] > 1), now)
    usual = [i for i in range(1, here) if made[i - 1] == made[here - 1]]
    out = [i for i in usual if made[i] == made[now]]
    round_ = [i for i in usual if made[i] != made[now]]
    first = {made[i] for i in round_}
    if not round_ or SELDOM * times[made[now]] > max(times[call] for call in first):
        return False
    if not out:
        # it lay between the end of the loop and its beginning
        before = [i for i in range(usual[0], now) if made[i] == made[now]]
        return bool(before) and not first.isdisjoint(made[before[0] : now])
    if len(out) > len(round_):
        return False
    # a way that is the same to where the ring begins may have been so for longer
    begins = any(_likeness(made, here, [place]) == place for place in round_)
    return begins or _likeness(made, here, round_) >= _likeness(made, here, out)


def program(frames: Frames, rank: int) -> pl.DataFrame:
    """Return a rank's entries in order; `what` each is, `before` and `after` it."""
    named = ["group", "src", "dst", "stack", signature().alias("sizes")]
    return (
        frames.scan("collectives")
        .filter(pl.col("rank") == rank)
        .collect()
        .pipe(grouped, frames["group_names"])
        .sort("record_id")
        .with_columns(pl.struct(named).hash(seed=0).alias("what"))
        .with_columns(
            pl.col("what").shift(1).alias("before"),
            pl.col("what").shift(-1).alias("after"),
        )
    )


def entries(frames: Frames, call: Call, ranks: Iterable[int]) -> pl.DataFrame:
    """Return the entries of some ranks in the group of a call, with `what` they are.

    That is the stack, or without stacks the operation and its sizes.
    """
    return (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(list(ranks))
            & pl.col("pg").eq_missing(call["pg"])
            & pl.col("pg_desc").eq_missing(call["pg_desc"])
            & ~pl.col("is_p2p").fill_null(False)
        )
        .collect()
        .pipe(grouped, frames["group_names"])
        .filter(pl.col("group") == call["group"])
        .with_columns(what(frames))
    )


def made_before(frames: Frames, call: Call, ranks: tuple[int, ...]) -> bool:
    """Whether some ranks made such a call before their last: they are late for it."""
    now = entries(frames, call, call["waiting"][:1]).filter(
        pl.col("seq") == call["seq"]
    )
    if now.is_empty() or now["stack"][0] is None:
        return False
    same = entries(frames, call, ranks[:SAMPLE]).filter(
        (pl.col("stack") == now["stack"][0])
        & (pl.col("seq") < pl.col("seq").max().over("rank"))
    )
    return not same.is_empty()


def what(frames: Frames) -> pl.Expr:
    """Say what a call is: its stack, or the operation and its sizes.

    Stacks compare nothing where some ranks' dumps have them and others', in JSON, not;
    and too little where one is that of many operations or groups, as in a dump of few
    frames or in the backward pass.
    """
    sizes = signature()
    stacks = _stacks(frames)
    if stacks == "mixed":
        return sizes.alias("what")
    if stacks == "thin":
        return pl.struct("stack", sizes.alias("sizes")).hash(seed=0).alias("what")
    return pl.coalesce("stack", sizes).alias("what")


def comparable(frames: Frames, here: pl.DataFrame) -> pl.DataFrame:
    """Leave out entries without a stack where only the stack would tell them apart.

    `here` are entries of one call, with `what` they are. Another operation, or other
    sizes, are another call with or without a stack: a backward pass has none.
    """
    bare = pl.col("stack").is_null()
    alike = signature().is_in(
        here.filter(~bare).select(signature()).to_series().implode()
    )
    return here.filter(
        ~(bare & alike) | bare.all() | pl.lit(_stacks(frames) == "mixed")
    )


@remembered
def _stacks(frames: Frames) -> str:
    """Say whether stacks are "mixed" (some dumps lack them), "thin" or "full"."""
    stackless = pl.col("stack").is_null().all()
    made = frames.scan("collectives").select("rank", "stack", "op", "pg_desc")
    bare = made.group_by("rank").agg(stackless).collect()
    few = bare["stack"].sum() <= FEW
    kinds = pl.struct("op", "pg_desc").n_unique()
    served = made.drop_nulls("stack").group_by("stack").agg(kinds.alias("kinds"))
    thin = bool((served.collect()["kinds"] > 1).any())
    mixed = not (few or bare["stack"].all())
    return "mixed" if mixed else "thin" if thin else "full"
