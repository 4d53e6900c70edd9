"""Completes what to do: which actions of a finding apply, where, and in which words.

An action applies on its condition (`model.actions.Only`): a stack can be taken while
the process may live, a setting for dumps helps where there are none. All names come
from logs, so they are quoted (see `model.shell`).
"""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, external_stop, pods
from ncclforensics.model import shell
from ncclforensics.model.actions import CITED, Action

if TYPE_CHECKING:
    from ncclforensics.model.findings import Cite, Finding, Ranked
    from ncclforensics.model.frames import Frames

MOST = 3  # actions: what is not among the first three is not done at night
# besides what agents tell, lines after which a job's processes are gone
ENDS = (*external_stop.STOPS, "torchelastic.forced", "slurm.kill_request")
LOGS = ("log", "error_json")
IB_DEVICES = "nccl.net.ib_using"
# messages of what talks to such cards: NCCL, UCX, libfabric
RDMA = r"^(?:nccl\.ib|rdma)\."
_BLANK = re.compile(r"\{(own|cited|host|pid|who|site)\}")


def completed(frames: Frames, ranked: Ranked, last: Cite | None) -> Ranked:
    """Return `ranked` with at most MOST actions a finding, all of them in words.

    `last` is the last line of the verdict's culprits, if it is known.
    """
    findings = tuple(
        (role, _with_words(frames, told, last if told is ranked.verdict else None))
        for role, told in ranked.findings
    )
    verdict = None if ranked.verdict is None else findings[0][1]
    return dataclasses.replace(ranked, verdict=verdict, findings=findings)


def _with_words(frames: Frames, finding: Finding, last: Cite | None) -> Finding:
    facts = _Facts(frames, finding, last)
    told = [words for a in finding.remedy if (words := _words(a, facts))]
    if not told and (words := _words(CITED, facts)):
        told = [words]
    chosen = tuple(dict.fromkeys(told))[:MOST]
    why = finding.explanation + pods.nodes(frames, finding.hosts)
    return dataclasses.replace(finding, explanation=why, remedy=chosen)


def _words(action: str | Action, facts: _Facts) -> str | None:
    """Return an action in words, None if it does not apply or nothing completes it."""
    if isinstance(action, str):
        return action
    if not facts.holds(action.only):
        return None
    words = _filled(action.do, facts) or _filled(action.instead, facts)
    if action.at == "anywhere" or words is None:
        return words
    command, mark, remark = words.partition("   # ")
    pod = facts.pod
    if pod is not None and action.at == "process":
        there = shell.in_pod(pod.name, pod.namespace, pod.container, command)
    elif facts.host is None:
        whose = "its host" if pod is None else f"the node of pod {pod.name}"
        return words if mark else f"{words}   # on {whose}"
    else:
        there = shell.at_host(facts.host, command)
    return there + mark + remark


def _filled(text: str, facts: _Facts) -> str | None:
    """Return `text` with its blanks filled in; None for "", or if one is unknown."""
    values = {name: getattr(facts, name) for name in _BLANK.findall(text)}
    if not text or None in values.values():
        return None
    return _BLANK.sub(lambda blank: values[blank[1]], text)


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What completes the actions of one finding; None is unknown."""

    frames: Frames
    finding: Finding
    last: Cite | None

    @cached_property
    def own(self) -> str | None:
        """The command that shows a culprit's own log where it ends."""
        if self.last is not None:
            return shell.read(self.last.source, self.last.line)
        place = own_end(self.frames, self.finding.ranks)
        return None if place is None else shell.read(*place)

    @cached_property
    def cited(self) -> str | None:
        """The command that shows the first cited line of a log."""
        logs = self.frames["sources"].filter(pl.col("kind").is_in(LOGS))["source"]
        for cite in self.finding.evidence:
            if cite.counts == "line" and cite.line and cite.source in logs:
                return shell.read(cite.source, cite.line)
        return None

    @cached_property
    def host(self) -> str | None:
        """The machine of the first culprit: its host, or the node of its pod."""
        name = self._name if self.pod is None else self.pod.node
        return name if shell.is_host(name) else None

    @cached_property
    def pod(self) -> pods.Pod | None:
        """The pod of the first culprit, if its host is one."""
        name = self._name
        known = name is not None and shell.is_host(name)
        return pods.find(self.frames, name) if known and name else None

    @cached_property
    def _name(self) -> str | None:
        named = self.finding.hosts
        if len(named) != 1:
            named = common.hosts_of(self.frames, self.finding.ranks[:1]) or named
        return named[0] if named else None

    @cached_property
    def pid(self) -> str | None:
        """The process of the first culprit."""
        here = pl.col("rank").is_in(self.finding.ranks[:1])
        pids = common.numbers(self.frames["ranks"].filter(here)["pid"])
        return str(pids[0]) if len(pids) == 1 else None

    @cached_property
    def who(self) -> str | None:
        """The culprits in words."""
        ranks, hosts = self.finding.ranks, self.finding.hosts
        if not ranks:
            return None
        where = f" on {hosts[0]}" if len(hosts) == 1 else ""
        return common.ranks(ranks) + where

    @cached_property
    def site(self) -> str | None:
        """The place in the code where the call was made."""
        call = self.finding.collective
        return None if call is None else call.call_site

    def holds(self, only: str) -> bool:
        """Whether the condition of an action holds."""
        if only == "alive":
            return may_live(self.frames, self.finding.ranks)
        if only == "no dumps":
            kinds = self.frames["sources"]["kind"]
            return not kinds.str.starts_with("flight_recorder").any()
        if only.endswith("infiniband"):
            return is_infiniband(self.frames) == (only == "infiniband")
        if only.endswith("slurm"):
            return self.frames.tells(("slurm.",)) == (only == "slurm")
        return True


def own_end(frames: Frames, ranks: tuple[int, ...]) -> tuple[str, int | None] | None:
    """Return file and line of the last recognised line of the first rank with a log.

    A file of that rank alone comes before one that several share. Where no line of it
    was recognised, the line is None.
    """
    files = frames["sources"].filter(pl.col("kind").is_in(LOGS))
    theirs = pl.col("rank").is_in(ranks)
    own = files.filter(theirs & (pl.col("bytes") > 0)).select("source", "rank")
    said = frames["events"].filter(
        theirs & pl.col("source").is_in(files["source"].implode())
    )
    logged = {*own["rank"], *said["rank"]}
    first = pl.col("rank").is_in([rank for rank in ranks if rank in logged][:1])
    own, said = own.filter(first), said.filter(first)
    is_own = pl.col("source").is_in(own["source"].implode())
    last = said.sort(is_own, "t", "source", "line").tail(1)
    for source, line in last.select("source", "line").iter_rows():
        return source, line
    return (own["source"].sort()[0], None) if own.height else None


def may_live(frames: Frames, ranks: tuple[int, ...]) -> bool:
    """Whether these ranks may still run: nothing tells of their end, or of the job's.

    An agent ends all of its processes when one has failed.
    """
    ended = frames["exits"]
    theirs = pl.col("rank").is_in(ranks) | pl.col("reported_by").is_not_null()
    if not ranks or ended.filter(theirs.fill_null(True)).height:
        return False
    events = frames["events"]
    over = (pl.col("role") == "agent") | pl.col("message").is_in(ENDS)
    return events.filter(over).is_empty()


def is_infiniband(frames: Frames) -> bool:
    """Whether the job used InfiniBand, which is not RoCE and not EFA."""
    devices = frames.message(IB_DEVICES)
    if devices.height:
        return bool(devices["text"].str.contains(r":\d+/IB\b").any())
    errors = frames["events"].filter(pl.col("message").str.contains(RDMA))
    other = errors["text"].str.contains(r"/RoCE|(?i)\befa\b")
    return errors.height > 0 and not other.any()
