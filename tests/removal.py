"""Takes sources away from an incident, and judges what is said of what is left.

The sources are parsed once, together; to take some away is to leave their rows out.
What is left may say less, and say why: it may never accuse anybody else, and never call
the job healthy.
"""

from __future__ import annotations

import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ncclforensics import analysis
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.parsers import parse_all
from ncclforensics.sources import discover

FINE = ("stays", "weaker", "silent", "nothing left of it")
INCIDENTS = Path(__file__).parent / "fixtures" / "incidents"


@dataclass(frozen=True)
class Incident:
    """An incident whose sources are parsed: its truth, their names and their frames."""

    slug: str
    truth: dict
    names: tuple[str, ...]
    frames: Frames

    def without(self, gone):
        """Analyze what is left without some sources."""
        return analysis.explain(self.frames.without(gone))[1:]


def incident(folder, truth=None):
    """Parse every source of an incident; its truth is in its folder, or given."""
    with tempfile.TemporaryDirectory() as scratch:
        found = discover([str(folder / "evidence")], Path(scratch))
        notes = Frames({"notes": tables.noted(found.notes)})
        return Incident(
            folder.name,
            truth or tomllib.loads((folder / "truth.toml").read_text("utf-8")),
            tuple(source.name for source in found.sources),
            join([notes, parse_all(found.sources)]),
        )


def kind(name):
    """Return what sort of source a file is, by where it lies."""
    if name.startswith(("dmesg", "journal")):
        return "kernel log"
    if name.startswith("slurm"):
        return "scheduler"
    return {"fr": "dump", "nccl": "NCCL file"}.get(name.split("/")[0], "log")


def removals(case):
    """Return what to take away: each source, each sort of source, each host's."""
    told = [(name,) for name in case.names]
    told += [
        tuple(n for n in case.names if kind(n) == sort)
        for sort in sorted({kind(n) for n in case.names})
    ]
    told += [
        tuple(n for n in case.names if host in n)
        for host in (f"gpu{number:04d}" for number in range(1, 9))
    ]
    return [gone for gone in dict.fromkeys(told) if 0 < len(gone) < len(case.names)]


def allowed(truth):
    """Return the classes, ranks and hosts that a report of this incident may name."""
    classes = {truth.get("class"), *truth.get("also_acceptable", ())}
    ranks = {*truth.get("ranks", ())}
    if "second_class" in truth:
        classes.add(truth["second_class"])
        ranks.add(truth["second_rank"])
    return classes, ranks


def judged(case, whole, left, gone):
    """Say how a report of what is left stands to that of the whole.

    One of FINE, where "silent" is one that says why, or what is wrong with it.
    """
    classes, ranks = allowed(case.truth)
    # without the log of its cause a story may be told from its next step on
    steps = {f.slug for f in whole.findings if f.role != "witness"}
    if left.outcome == "failure":
        verdict = left.verdict
        named = set(verdict.culprits.ranks)
        if case.truth["outcome"] != "failure":
            return f"accuses: {verdict.headline}"
        if verdict.confidence == "possible":
            return "weaker"
        if not named <= ranks:
            return f"innocent ranks {sorted(named - ranks)}: {verdict.headline}"
        hosts = set(verdict.culprits.hosts)
        if not ranks and not hosts <= set(case.truth["hosts"]):
            return f"innocent hosts {sorted(hosts)}: {verdict.headline}"
        if verdict.slug in classes:
            same = verdict.slug == whole.verdict.slug
            return "stays" if same and named else "weaker"
        if verdict.slug in steps or (named and verdict.slug == "crashed-rank"):
            return "weaker"
        return f"another story: {verdict.slug}: {verdict.headline}"
    if left.outcome == case.truth["outcome"]:
        return "stays"
    if left.outcome == "no-failure":
        # dumps and kernel logs alone may be those of a job that runs
        kinds = {kind(n) for n in case.names if n not in gone}
        quiet = kinds <= {"dump", "kernel log", "NCCL file"}
        return "nothing left of it" if quiet else "called healthy"
    return "silent" if left.not_checked else "silent without a reason"
