"""The program model: how surprising each rank's last calls are, in bits.

It is a variable-order context model over the calls of all ranks of a role together. The
longest context (64, 32, 16, 8, 4, 2 or 1 calls) that was seen at least `SEEN` times
elsewhere predicts the next call, and a call that its context does not predict costs
bits. Ranks of a role (see `roles`) run the same program, so a call that surprises on
most of them belongs to the program. A rank deviates by its bits above the median of its
role, or by not making a call that surprises on all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ncclforensics.model.plans import collected
from ncclforensics.theory import (
    labels,
    rank_roles,
    uncertain_loops,
    usual_calls,
    weights,
)
from ncclforensics.theory.context_table import LONGEST, MIX, SEEN, Table
from ncclforensics.theory.deviation import Deviation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from ncclforensics.model.frames import Frames

    Words = npt.NDArray[np.uint64]
    Bits = npt.NDArray[np.float64]

ORDERS = (LONGEST, 32, 16, 8, 4, 2, 1)
BEFORE = 4  # calls before a loop that are compared
ESCAPE = 0.05  # of one call, as count of a call that was never seen
TAIL = 60  # last calls of each rank that are checked for surprise, at least
AHEAD = 64  # calls to predict
SAME = 0.8  # of the calls that repeat must repeat with their sizes
RANKS = 64  # in the model; at 2,000 calls each, 130,000 rows


@dataclass(frozen=True)
class Program:
    """The calls of some ranks in order, and the model that they form.

    `calls` has one row per call, sorted by `rank record_id`. Its columns are those of
    `labels.traces`, such as `place` (position on the rank, from 0) and `over` (the call
    ended, or later ones did), plus `role` and `label`.
    """

    calls: pl.DataFrame

    def row(self, rank: int, call: Mapping[str, object]) -> int | None:
        """Return the row of a rank's part in a collective, by group and number."""
        same = (pl.col("rank") == rank) & ~pl.col("is_p2p")
        for name in ("group", "seq"):
            same &= pl.col(name).eq_missing(pl.lit(call[name]))
        found = self.calls.select(same.arg_true()).to_series()
        return int(found[0]) if found.len() else None

    @cached_property
    def roles(self) -> dict[int, frozenset[int]]:
        """Return for each rank all ranks of its role."""
        known = self.calls.select("rank", "role").unique()
        of = {n: frozenset(some["rank"]) for (n,), some in known.group_by("role")}
        return {rank: of[role] for rank, role in known.iter_rows()}

    @cached_property
    def _words(self) -> Words:
        return self.calls["label"].to_numpy()

    @cached_property
    def _role(self) -> Words:
        mixed: Words = self.calls["role"].cast(pl.UInt64).to_numpy() * MIX[LONGEST + 1]
        return mixed

    @cached_property
    def _place(self) -> npt.NDArray[np.int64]:
        return self.calls["place"].to_numpy()

    @cached_property
    def _contexts(self) -> dict[int, Words]:
        """Return by order, for each row, a hash of the role and the calls before it."""
        found: dict[int, Words] = {}
        told = self._role
        for back in range(1, ORDERS[0] + 1):
            before = np.zeros_like(self._words)
            before[back:] = self._words[:-back] if back < len(before) else 0
            told = told + (before ^ (before >> np.uint64(29))) * MIX[back]
            if back in ORDERS:
                found[back] = told
        return found

    @cached_property
    def _tables(self) -> dict[int, Table]:
        return self._counted(self._over)

    def _counted(self, kept: npt.NDArray[np.bool_]) -> dict[int, Table]:
        return {
            order: Table.of(
                self._contexts[order], self._words, kept & (self._place >= order)
            )
            for order in ORDERS
        }

    @cached_property
    def _over(self) -> npt.NDArray[np.bool_]:
        return self.calls["over"].to_numpy()

    @cached_property
    def _enqueued(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the calls of roles that repeat, or whose hosts ran ahead.

        Calls that a host only enqueued are part of its program as well, although some
        of them may belong to the very step that went wrong.
        """
        ahead = pl.len().over("role") >= TAIL * pl.col("rank").n_unique().over("role")
        # only a program that repeats can be learnt
        again = pl.col("label").filter("over").is_duplicated().any()
        kept = ahead | again.over("rank").any().over("role")
        return self.calls.select(kept).to_series().to_numpy()

    @cached_property
    def bits(self) -> Bits:
        """Return the surprise of each row in bits; NaN without history.

        Finished calls predict first; where they are too few, enqueued calls do.
        """
        told = self._surprise(self._tables, self._over)
        if not np.isnan(told).any():
            return told
        more = self._surprise(self._counted(self._enqueued), self._enqueued)
        return np.where(np.isnan(told), more, told)

    def _surprise(self, tables: dict[int, Table], kept: npt.NDArray[np.bool_]) -> Bits:
        found = np.full(len(self._words), np.nan)
        known = np.full(len(self._words), np.nan)
        again, free = np.roll(self._words, 1), self._after_loops
        for order in ORDERS:
            left = np.isnan(found) & (self._place >= order)
            contexts, words = self._contexts[order][left], self._words[left]
            total, same = tables[order].counts(contexts, words)
            own = kept[left].astype(np.int64)  # a call must not predict itself
            total, same = total - own, same - own
            # how often such a loop is passed is not part of the program
            passes = free[left] & (words == again[left])
            same[passes] = total[passes]
            ends = free[left] & ~passes
            total[ends] -= tables[order].counts(contexts[ends], again[left][ends])[1]
            share = (same + ESCAPE) / (total + 2 * ESCAPE)
            bits = np.where(total >= SEEN, -np.log2(np.maximum(share, 1e-9)), np.nan)
            found[left] = np.maximum(bits, 0.0)
            known[left] = np.where(np.isnan(bits), np.nan, order)
        return found * self._trusted(known)

    def _trusted(self, known: Bits) -> Bits:
        """Return from 0 to 1 how far each prediction is to be trusted.

        `known` is the length of the context that it rests on. One that is much shorter
        than is usual in a role has lost what was particular about the place. A length
        stands for all up to the next, twice as long: half more on average.
        """
        told = pl.DataFrame({"role": self.calls["role"], "known": pl.Series(known)})
        usual = told.select(pl.col("known").fill_nan(None).median().over("role"))
        trusted: Bits = np.minimum(1.5 * known / usual.to_series().to_numpy(), 1.0)
        return trusted

    @cached_property
    def _after_loops(self) -> npt.NDArray[np.bool_]:
        return uncertain_loops.behind(self.calls, self._contexts[BEFORE])

    @cached_property
    def deviations(self) -> dict[int, Deviation]:
        """Return by rank where it left the program of its role, if it has history."""
        last = collected(
            self.calls.lazy()
            .with_columns(
                pl.Series("bits", self.bits),
                pl.int_range(pl.len()).alias("row"),
                (pl.len().over("rank") - pl.col("place")).alias("from_end"),
            )
            .filter(pl.col("bits").is_not_nan())
            .with_columns(usual_calls.of_any().alias("bits"))
            .with_columns(pl.col("bits").median().over(usual_calls.MADE).alias("each"))
            .filter(
                (pl.col("from_end") <= TAIL)
                | (pl.col("place") > usual_calls.last_met())
            )
            .with_columns((pl.col("bits") - usual_calls.each_time()).clip(0))
        )
        told = usual_calls.with_usual(last)
        # the first call that deviates shows how; later ones may surprise as much
        deviates = pl.col("above").max().over("rank") >= weights.NOISE
        odd = pl.when(deviates).then("above").otherwise("bits")
        most = collected(
            told.lazy()
            .filter(odd >= odd.max().over("rank") / 2)
            .with_columns(pl.col("above").max().over("rank"))
            .sort("row")
            .unique("rank", keep="first", maintain_order=True)
            .select("rank", "role", "above", "row", "bits")
        )
        usual = told.filter(pl.min_horizontal("usual", "bits") >= weights.NOISE)
        made = set(usual.select("rank", "label").iter_rows())
        left = (
            usual.sort("usual", "row", descending=[True, False])
            .unique("role", keep="first", maintain_order=True)
            .select("role", "label", "row", "usual")
        )
        theirs = {role: rest for role, *rest in left.iter_rows()}
        ends = dict(last.group_by("rank").agg(pl.col("row").max()).iter_rows())
        found: dict[int, Deviation] = {}
        for rank, role, above, row, bits in most.iter_rows():
            label, peers, most_bits = theirs.get(role, (None, 0, 0.0))
            # a rank that made the call that surprises on its peers left nothing out
            lacks = above < most_bits and (rank, label) not in made
            found[rank] = (
                Deviation(rank, most_bits, ends[rank], peers)
                if lacks and self._has_passed(rank, peers)
                else Deviation(rank, above, row, fork=self._fork(row, above), own=bits)
            )
        return found

    def _has_passed(self, rank: int, row: int) -> bool:
        """Whether a rank made more calls than a peer had made before its call `row`.

        One that made no more may still come to that call. Groups of one description
        are compared by their numbers.
        """
        peer, place = (self.calls[c][row] for c in ("rank", "place"))
        call = self.calls[row].select("group", "seq", "label", "is_p2p")
        made = self.calls.filter(rank=rank).join(call, on=call.columns, how="semi")
        if made.height and not call["is_p2p"][0]:
            return False  # it made that very call
        told = self.calls.filter(~pl.col("is_p2p")).group_by("pg_desc")
        before = (pl.col("rank") == peer) & (pl.col("place") < place)
        both = told.agg(
            mine=pl.col("seq").filter(pl.col("rank") == rank).max(),
            theirs=pl.col("seq").filter(before).max(),
        ).drop_nulls("mine")
        more = both["mine"] > both["theirs"].fill_null(0)
        return both.is_empty() or bool(more.any())

    def _fork(self, row: int, bits: float) -> int | None:
        """Return the call that most peers made, once more, where a rank made `row`."""
        place = int(self._place[row])
        order = next((n for n in ORDERS if n <= place), None)
        if bits < weights.NOISE or order is None:
            return None
        contexts = self._contexts[order]
        like = np.flatnonzero((contexts == contexts[row]) & (self._place >= order))
        there = pl.DataFrame(
            {"row": like, "label": self._words[like], "rank": self.calls["rank"][like]}
        )
        own = there.filter(pl.col("rank") == self.calls["rank"][row])
        peers = there.filter(pl.col("rank") != self.calls["rank"][row])
        if peers.is_empty():
            return None
        last = peers.group_by("rank").agg(pl.col("row", "label").last(), pl.len())
        label = last["label"].mode().sort().first()
        chosen = last.filter(pl.col("label") == label).sort("row")
        if 2 * chosen.height <= last.height:
            return None
        made = peers.filter(pl.col("label") == label).height / chosen.height
        more = made > own.filter(pl.col("label") == label).height
        return int(chosen["row"][0]) if more else None

    def foreseen(self, row: int, fork: int | None = None) -> list[int]:
        """Return the labels that the history before a row predicts, in order.

        From a `fork` on, they are the calls that the peer made there, and what history
        predicts after those.
        """
        start = row if fork is None else fork
        first = start - int(self._place[start])
        way = self._words[max(first, start - ORDERS[0]) : start].tolist()
        found = [] if fork is None else self.actual(fork)
        way = [*way, *found][-ORDERS[0] :]
        while len(found) < AHEAD:
            follower = self._next(self._role[row], way, own=not found)
            if follower is None:
                break
            found.append(follower)
            way = [*way[-(ORDERS[0] - 1) :], follower]
        return found

    def _next(self, role: np.uint64, way: Sequence[int], *, own: bool) -> int | None:
        """Return the usual call behind some others; None if they were never seen.

        `own`: a rank's own call behind them is among those that were seen. Further on,
        the longest context tells most, however seldom it was seen.
        """
        before = np.array(way[::-1], np.uint64)
        mixed = (before ^ (before >> np.uint64(29))) * MIX[1 : len(way) + 1]
        hashes = role + np.cumsum(mixed, dtype=np.uint64)
        orders = [order for order in ORDERS if order <= len(way)]
        for times in (SEEN, 0) if own else (0,):
            for order in orders:
                context = hashes[order - 1]
                if (best := self._tables[order].best(context, times)) is not None:
                    return best
        return None

    def actual(self, row: int, most: int = AHEAD) -> list[int]:
        """Return the labels of the calls that the row's rank made, from that row on."""
        rank = self.calls["rank"]
        end = min(row + most, len(rank))
        same = (rank[row:end] == rank[row]).to_numpy()
        return [int(word) for word in self._words[row:end][same]]


def program(frames: Frames, ranks: Iterable[int]) -> Program:
    """Return the program model of the first `RANKS` of some ranks.

    Sizes are part of a call's label, unless they differ from step to step.
    """
    chosen = list(dict.fromkeys(ranks))[:RANKS]
    calls = labels.traces(frames, chosen)
    return _of(calls, "sized" if _repeats(calls) else "bare")


def _of(calls: pl.DataFrame, label: str) -> Program:
    """Return the model that labels a call by one of its labels and its rank's role."""
    told = calls.join(rank_roles.roles(calls, label), on="rank", maintain_order="left")
    return Program(
        told.with_columns(pl.struct("role", label).hash(seed=2).alias("label"))
    )


def _repeats(calls: pl.DataFrame) -> bool:
    """Whether calls repeat with the same sizes, as far as they repeat at all."""
    again = calls.select(
        (pl.len().over("rank", label) > 1).mean().alias(label)
        for label in ("sized", "bare")
    )
    return bool(again.select(pl.col("sized") >= SAME * pl.col("bare")).item())
