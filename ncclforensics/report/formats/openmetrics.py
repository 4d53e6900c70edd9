"""Renders the report as OpenMetrics, for a textfile collector or similar.

Every family is a gauge, so that node exporters with the older Prometheus text parser
can read the same file. Of the content of logs, only ranks and host names become labels.
There is no timestamp: the collector uses the mtime of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.coverage import was_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import Report

MOST = 256  # culprits; each one is a series
OUTCOMES = ("failure", "no-failure", "inconclusive")
Sample = tuple[dict[str, str], int]
Family = tuple[str, str, "Sequence[Sample]"]


def render_openmetrics(report: Report) -> tuple[bytes, tuple[str, ...]]:
    """Return the metrics, and a line if culprits were left out."""
    verdict, job = report.verdict, report.job
    families: list[Family] = [
        (
            "outcome",
            "1 for the outcome of the analysis, 0 for the others.",
            [({"outcome": o}, int(o == report.outcome)) for o in OUTCOMES],
        )
    ]
    cut: tuple[str, ...] = ()
    if verdict is not None:
        label = {
            "class": verdict.slug,
            "family": verdict.family,
            "confidence": verdict.confidence,
        }
        who = verdict.culprits
        ranks = [({"rank": str(rank)}, 1) for rank in who.ranks[:MOST]]
        hosts = [({"host": host}, 1) for host in who.hosts[:MOST]]
        families += [
            ("verdict_info", "The class of failure that is named.", [(label, 1)]),
            ("culprit_rank_info", "A rank that the verdict names.", ranks),
            ("culprit_host_info", "A host that the verdict names.", hosts),
            ("culprit_ranks", "Ranks that the verdict names.", [({}, len(who.ranks))]),
        ]
        hidden = max(len(who.ranks), len(who.hosts)) - MOST
        cut = (f"{hidden:,} culprits have no series of their own",) * (hidden > 0)
    for name, told, number in (
        ("world_size", "Ranks that the job had.", job.world_size),
        ("ranks_seen", "Ranks of which there is evidence.", job.ranks_seen),
        ("findings", "Findings, the verdict included.", len(report.findings)),
        ("source_files", "Files of the evidence.", len(report.sources)),
        (
            "source_files_unread",
            "Files of which nothing was recognised.",
            sum(not was_read(source) for source in report.sources),
        ),
        ("notes", "Notes on damage and assumptions.", len(report.notes)),
    ):
        if number is not None:
            families.append((name, told, [({}, number)]))
    return rendered(families), cut


def rendered(families: Sequence[Family]) -> bytes:
    """Return metric families as a whole exposition."""
    lines = [line for family in families for line in _family(*family)]
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def _family(name: str, told: str, samples: Sequence[Sample]) -> list[str]:
    """Return the lines of one metric family, none without samples."""
    if not samples:
        return []
    full = f"ncclforensics_{name}"
    lines = [f"# TYPE {full} gauge", f"# HELP {full} {told}"]
    for labels, value in samples:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}{{{told}}} {value}" if labels else f"{full} {value}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
