"""Which ranks fail as one: those of a host, of a group, or of one place in groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.exits import agent_processes
from ncclforensics.correlate.identity import host_blocks, world

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncclforensics.model.frames import Frames

MOST_GROUPS = 4096
SISTERS = 3  # groups of a kind; a place in two is any pair of ranks
HOSTS = 3  # in a job of fewer, ranks are not guessed to be one


@dataclass(frozen=True)
class Units:
    """The hosts, stages and groups of a job: `calls` by number, `seen` ranks."""

    frames: Frames
    calls: Mapping[int, dict[str, Any]]
    seen: frozenset[int]

    def of(self, ranks: Iterable[int], *, guess: bool = True) -> tuple[int, int]:
        """Return the number of independent failures, and of further ranks in them.

        All ranks of one host, or of one group smaller than the job, count as one
        failure. So do most of them, where each that is spared counts as one more: that
        is told with fewer exceptions than rank by rank. Of all ranks of the job, the
        exceptions are the odd ones. If that is to be guessed, so does what may be one
        host, where none is known, and the ranks with one place in their groups.
        """
        left = set(ranks)
        everyone = len(world.ranks(self.frames))
        known = self.frames["ranks"].drop_nulls(["host", "rank"])["rank"]
        few = guess and HOSTS * len(left) <= everyone and left.isdisjoint(known)
        if few and host_blocks.is_one(left):
            return 1, len(left) - 1
        failures = kin = 0
        # to tell which place in which groups takes as much as one more culprit
        seats = ((seat, 1) for seat in (self._seats if guess else ()))
        for some, more in (*((whole, 0) for whole in self._wholes), *seats):
            hit, spared = left & some, len(some - left)
            if len(hit) > spared + more + 1 and (not spared or len(some) < everyone):
                left -= hit
                failures += 1 + spared + more
                kin += len(hit) - 1
        return failures + len(left), kin

    @cached_property
    def _seats(self) -> set[frozenset[int]]:
        """Return the ranks with one place in all groups of a kind: the first of each.

        A condition on a rank's number in its group holds for all of these.
        """
        listed = self.frames["groups"].filter(pl.col("members").list.len() > 1)
        kinds = (
            listed.unique(["pg_desc", "members"])
            .head(MOST_GROUPS)
            .group_by("pg_desc", pl.col("members").list.len().alias("size"))
            .agg("members")
            .filter(pl.col("members").list.len() >= SISTERS)
        )
        rows = (seat for some in kinds["members"] for seat in zip(*some, strict=True))
        return {frozenset(seat) for seat in rows if len({*seat}) == len(seat)}

    @cached_property
    def _wholes(self) -> list[frozenset[int]]:
        """Return the ranks of hosts, stages and groups, the largest first."""
        placed = self.frames["ranks"].drop_nulls(["host", "rank"])
        lost = {*self.frames["ranks"]["rank"].drop_nulls(), *self.seen} - {
            *placed["rank"]
        }
        by_host = host_blocks.by_host(placed)
        # a rank without a known host may belong to the host of its neighbours
        hosts = [r for r in by_host if lost.isdisjoint(range(min(r) - 1, max(r) + 2))]
        unplaced = world.ranks(self.frames) - {*placed["rank"]}
        # the two ends of a message are no group
        groups = [
            frozenset(c["members"])
            for c in self.calls.values()
            if c["members"] and not c["is_p2p"]
        ]
        listed = self.frames["groups"]["members"].unique(maintain_order=True)
        groups += [frozenset(m) for m in listed.head(MOST_GROUPS) if m is not None]
        everyone = max((len(g) for g in groups), default=0)
        # a rank that its agent does not list is of the node as well
        crews = (crew.ranks for crew in agent_processes.crews(self.frames))
        hosts += [r for r in crews if r and max(r) - min(r) < len(r)]
        hosts += host_blocks.filled_up(by_host, unplaced)
        # where the others are blocks of that size, the known hosts are whole
        rest = host_blocks.left_over(by_host, unplaced)
        hosts += [*rest, *by_host] if rest else []
        hosts += host_blocks.fitted(self.frames)
        some = {*hosts, *(g for g in groups if len(g) < everyone)}
        return sorted(some, key=lambda g: (-len(g), sorted(g)[:1]))
