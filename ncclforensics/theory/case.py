"""One standstill: its calls and ranks, the ends of its waits, and facts about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.correlate.identity import host_blocks, world
from ncclforensics.correlate.timing import dump_mtime, late_ranks
from ncclforensics.correlate.traces import call_summary
from ncclforensics.correlate.waits import (
    last_words,
    rank_evidence,
    roll_call,
    wait_graph,
)
from ncclforensics.evidence import gloo_blind_spots, teardown
from ncclforensics.model.tables import begun, done
from ncclforensics.theory import alltoall_totals, call_signatures, p2p_balance
from ncclforensics.theory.ends import End, ends_of
from ncclforensics.theory.units import Units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.deviation import Deviation
    from ncclforensics.theory.program import Program

Call = dict[str, Any]
SAMPLE = 32  # ranks besides those of an end whose history is loaded


@dataclass(frozen=True)
class Case:
    """One standstill: the `frames` of `correlate`, and facts derived from them."""

    frames: Frames

    @cached_property
    def calls(self) -> Mapping[int, Call]:
        """Return the rows of the frame `calls` and `resumed` calls, by call number."""
        rows = [*self.frames["calls"].to_dicts(), *self.resumed]
        return {row["call"]: row for row in rows}

    @cached_property
    def resumed(self) -> tuple[Call, ...]:
        """Return the calls that a rank joined too late and that then went on."""
        return tuple(late_ranks.resumed(self.frames)[0].to_dicts())

    @cached_property
    def graph(self) -> wait_graph.Graph:
        """Return the wait-for graph."""
        return wait_graph.graph(self.frames["calls"])

    @cached_property
    def seen(self) -> frozenset[int]:
        """Return the ranks with a dump, or with a known position in a group."""
        return frozenset(self.frames["standings"]["rank"]) | frozenset(
            rank for c in self.calls.values() for s in SEEN_IN for rank in c[s] or ()
        )

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """Return the ends, those that block most ranks first."""
        return ends_of(self)

    @cached_property
    def program(self) -> Program:
        """Return the program model of the ranks in question and a sample of others."""
        known = sorted(self.seen)
        step = max(1, len(known) // SAMPLE)
        # importing numpy starts threads, after which workers must not be forked
        from ncclforensics.theory.program import program

        return program(self.frames, [*self._in_question(), *known[::step], *known])

    def _in_question(self) -> list[int]:
        """Return the ranks of the ends; those from calls with few waiters first."""
        ranks: dict[int, int] = {}
        for end in self.ends:
            for number in end.calls:
                few = len(self.calls[number]["waiting"])
                for rank in self.calls[number]["waiting"]:
                    ranks[rank] = min(few, ranks.get(rank, few))
            ranks |= {rank: 0 for rank in end.ranks if rank not in ranks}
        return sorted(ranks, key=lambda rank: (ranks[rank], rank))

    @cached_property
    def late(self) -> Mapping[int, pl.DataFrame]:
        """Return by call number the entries of ranks that came after its timeout."""
        parts = late_ranks.latecomers(self.frames), late_ranks.resumed(self.frames)[1]
        found = pl.concat(parts)
        return {int(n): some for (n,), some in found.group_by("call")}

    @cached_property
    def reached(self) -> Mapping[str, int]:
        """Return by group the number of the last call that any member enqueued."""
        told = self.frames["standings"].drop_nulls(["group", "enqueued"])
        return dict(told.group_by("group").agg(pl.col("enqueued").max()).iter_rows())

    @cached_property
    def signatures(self) -> Mapping[int, tuple[call_signatures.Side, ...]]:
        """Return by call number the sides of the calls on which members differ."""
        return call_signatures.of_calls(self.frames)

    @cached_property
    def unbegun(self) -> frozenset[int]:
        """Return the calls that no GPU has begun, though all recorded others' starts.

        Without timing, the recorder never tells that a call began (torch 2.2 to 2.13).
        """
        if not self.frames.has("collectives"):
            return frozenset()
        call = ["pg", "pg_desc", "seq"]
        plain = ~pl.col("is_p2p").fill_null(value=False)
        held = self.frames["calls"].filter(plain).drop_nulls("seq")
        waits = held.select("call", *call, rank="waiting").explode("rank")
        made = self.frames.scan("collectives").filter(
            pl.col("rank").is_in(waits["rank"].unique().implode())
        )
        timed = made.group_by("rank").agg((done() & begun()).any().alias("timed"))
        open_ = made.filter(~begun()).select("rank", *call, unbegun=True).unique()
        told = (
            waits.lazy()
            .join(timed, on="rank", how="left")
            .join(open_, on=["rank", *call], how="left", nulls_equal=True)
            .group_by("call")
            .agg((pl.col("timed") & pl.col("unbegun")).fill_null(value=False).all())
            .collect()
        )
        return frozenset(told.filter("timed")["call"])

    @cached_property
    def unbalanced(self) -> Mapping[int, alltoall_totals.Unbalanced]:
        """Return by call number the all_to_alls that do not send what they expect."""
        return {u.call["call"]: u for u in alltoall_totals.unbalanced(self.frames)}

    @cached_property
    def mute(self) -> frozenset[int]:
        """Return the ranks that may wait in messages their recorder leaves out."""
        return frozenset(rank_evidence.mute(call_summary.outline(self.frames)))

    @cached_property
    def together(self) -> frozenset[int]:
        """Return the ranks that may wait for each other in a message of Gloo."""
        return frozenset(gloo_blind_spots.together(self.frames))

    @cached_property
    def waited(self) -> frozenset[int]:
        """Return the ranks that timed out, or may have in an unrecorded message.

        Whom a monitored barrier names had not come when the others gave up.
        """
        told = roll_call.call(self.frames)
        late = told.silent if told.named else frozenset()
        return frozenset(gloo_blind_spots.waited(self.frames)) - late

    @cached_property
    def working(self) -> frozenset[int]:
        """Return the ranks that logged work of their own while others waited."""
        return roll_call.call(self.frames).working

    def late_at_work(self, number: int) -> tuple[int, ...]:
        """Return the ranks in a call that logged other work late in its wait."""
        waiting = {*self.calls[number]["waiting"]}
        late = waiting & self.working
        return tuple(sorted(late)) if late < waiting else ()

    @cached_property
    def ended(self) -> frozenset[int]:
        """Return the ranks that exited normally."""
        return roll_call.call(self.frames).ended

    @cached_property
    def over(self) -> frozenset[int]:
        """Return the ranks that logged that their loop is over, if most did not."""
        said = last_words.over(self.frames, frozenset(), epoch=True)
        heard = self.seen | frozenset(self.frames["events"]["rank"].drop_nulls())
        return said if 2 * len(said) < len(heard) else frozenset()

    @cached_property
    def odd(self) -> frozenset[int]:
        """Return the few ranks whose last line is unlike that of all others."""
        return last_words.odd(self.frames)

    @cached_property
    def gone(self) -> frozenset[int]:
        """Return the ranks that fell silent or that nothing shows, if no other is.

        All others of the job left a dump, and some rank did: a live process writes its
        dump when the others do, whatever its program does.
        """
        dumped = {*call_summary.dumps(self.frames)["rank"].drop_nulls()}
        told = roll_call.call(self.frames)
        quiet = (told.silent | told.unseen) - dumped
        others = world.ranks(self.frames) - quiet
        known = told.silent and dumped and others <= dumped
        return quiet if known else frozenset()

    @cached_property
    def fallen(self) -> frozenset[int]:
        """Return the ranks ended by a signal that no launcher or watchdog sends."""
        fell = exit_records.by_themselves(self.frames)
        return exit_records.ranks_of(fell.filter(pl.col("code").is_in(teardown.FAULTS)))

    @cached_property
    def heard(self) -> frozenset[int]:
        """Return the ranks that left a log line or a file."""
        lines = (self.frames[name]["rank"] for name in ("events", "sources"))
        return frozenset(pl.concat(lines).drop_nulls())

    def deviation(self, rank: int) -> Deviation | None:
        """Return where a rank left the program of its role; None without history.

        A truncated dump has lost its last calls, and with them the rank's position.
        """
        return None if rank in self.torn else self._deviations.get(rank)

    @cached_property
    def _deviations(self) -> Mapping[int, Deviation]:
        # for logs alone, numpy need not be imported
        if not self.frames.has("collectives") or self.shows_open_calls_only:
            return {}
        return self.program.deviations

    @cached_property
    def shows_open_calls_only(self) -> bool:
        """Whether dumps leave out the calls that are over: what is left is no history.

        The messages of batches are never marked, so that all of a ring are left.
        """
        calls = self.program.calls.filter(~pl.col("is_p2p"))
        return calls.height > 0 and not calls["ended"].any()

    @cached_property
    def early(self) -> frozenset[int]:
        """Return the ranks whose dump was written long before the last one.

        Dumps that a watchdog asks for are written within minutes of each other.
        """
        files = call_summary.dumps(self.frames)
        apart = pl.col("modified").max() - pl.col("modified")
        old = files.filter(apart > pl.duration(milliseconds=dump_mtime.WRITES_MS))
        return frozenset(old["rank"].drop_nulls())

    @cached_property
    def torn(self) -> frozenset[int]:
        """Return the ranks whose dump is truncated."""
        cut = call_summary.dumps(self.frames).filter("cut")
        return frozenset(cut["rank"].drop_nulls())

    def are_most_of_a_role(self, ranks: tuple[int, ...]) -> bool:
        """Whether ranks are more than half of one role, and not all of it.

        Ranks that nothing shows may be of the role as well.
        """
        role = self.program.roles.get(ranks[0], frozenset()) if ranks else frozenset()
        lost = len(world.ranks(self.frames) - self.seen)
        return {*ranks} < role and 2 * len(ranks) > len(role) + lost > FEWEST

    def owes(self, end: End) -> bool:
        """Whether a rank at an end is proved to have posted no half of a message."""
        if ("owes", end) not in self.kept:
            short = p2p_balance.shortages(self, end, end.ranks)
            self.kept["owes", end] = True in short
        return bool(self.kept["owes", end])

    @cached_property
    def kept(self) -> dict[tuple[str, End], Any]:
        """Return the cache of results per end, keyed by (kind of result, end)."""
        return {}

    @cached_property
    def laggards(self) -> frozenset[int]:
        """Return ranks that are behind most ranks in groups of the same description.

        Groups with one description make the same calls, so their counters can be
        compared where there is no history. Empty if too many ranks are behind.
        """
        made = self.frames["standings"].drop_nulls(["enqueued", "pg_desc"])
        kind = made.filter(pl.col("group").n_unique().over("pg_desc") > FEW_GROUPS)
        usual = pl.col("enqueued").median().over("pg_desc")
        late = kind.filter(pl.col("enqueued") < usual)
        ranks = frozenset(late["rank"])
        return ranks if len(ranks) <= max(1, FEW_OF * len(self.seen)) else frozenset()

    @cached_property
    def units(self) -> Units:
        """Return what tells which ranks fail as one."""
        return Units(self.frames, self.calls, self.seen)

    def gone_host(self, ranks: Iterable[int]) -> tuple[int, ...]:
        """Return the ranks of absent ranks' hosts if nothing shows that these lived.

        Of their other ranks nothing was seen at all, in the calls that wait for
        `ranks`. Else ().
        """
        told = {*ranks}
        for number in {n for r in told for n in self.graph.wanted_in.get(r, ())}:
            told |= {*(self.calls[number]["unseen"] or ())}
        if len(told) < 2 or not told <= self.gone:
            return ()
        placed = self.frames["ranks"].drop_nulls(["host", "rank"])
        hosts = [some for some in host_blocks.by_host(placed) if some <= told]
        is_one = self.units.of(told, guess=False)[0] == 1
        are_whole = told == frozenset().union(*hosts)
        return tuple(sorted(told)) if is_one or are_whole else ()


FEWEST = 2  # ranks of a role; of so few, none are most
FEW_OF = 1 / 8  # of the ranks; if more lag, they lag because they wait
FEW_GROUPS = 2  # among two groups of a kind, neither is the odd one
SEEN_IN = ("waiting", "behind", "done", "absent")
