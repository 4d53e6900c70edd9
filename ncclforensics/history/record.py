"""What is kept of one analysis: a flat row of facts, no text of logs but the headline.

`id` is the occurrence: class, culprits and the moment of the stop. So the same failure,
analyzed again with more of its logs, is the same incident. `evidence` is the files that
were read: what a later release says of the same files takes the place of the earlier
answer. `same` is the kind of failure (see `fingerprint`).
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from ncclforensics import __version__
from ncclforensics.history.fingerprint import call_site, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncclforensics.report.contract import Report

TAGS = ("job", "user", "image")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One kept analysis. Times are UTC nanoseconds; None is unknown.

    `t` is when the job stopped, else the last line. `began` and `ended` are the first
    and the last time in the evidence of ranks, `nodes` the hosts of the job.
    `hosts` and `devices` are accused. The person told `job`, `user` and `image`.
    """

    id: str
    evidence: str
    same: str
    kept: int
    t: int | None
    outcome: str
    slug: str | None = msgspec.field(name="class", default=None)
    domain: str | None = None
    confidence: str | None = None
    restart: str | None = None
    headline: str = ""
    call_site: str | None = None
    ranks: str = ""
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    world_size: int | None = None
    began: int | None = None
    ended: int | None = None
    gpu_hours: float | None = None
    job: str | None = None
    user: str | None = None
    image: str | None = None
    ticket: str | None = None
    path: str | None = None
    version: str = __version__

    @property
    def row(self) -> str:
        """Sixteen hex digits of what is told, whenever it was kept."""
        told = msgspec.json.encode(msgspec.structs.replace(self, kept=0))
        return _digits([told])


def record(
    report: Report,
    kept: int,
    tags: Mapping[str, str],
    *,
    path: str | None = None,
    ticket: str | None = None,
) -> Record:
    """Return what is kept of a report, as it is before anything in it is redacted."""
    verdict, onset = report.verdict, report.onset
    spans = [s for s in report.sources if s.rank is not None or s.ranks]
    began = min((t for s in spans if (t := ns(s.first)) is not None), default=None)
    ended = max((t for s in spans if (t := ns(s.last)) is not None), default=None)
    stopped = None if onset is None else onset.stopped
    if stopped is None and verdict is not None:
        stopped = verdict.first_seen
    files = sorted(f"{s.sha256} {s.bytes}" for s in report.sources if s.sha256)
    whole = [msgspec.json.encode(report)]
    evidence = _digits([f.encode() for f in files] or whole)
    told = Record(
        id=evidence,
        evidence=evidence,
        same="",
        kept=kept,
        t=ns(stopped) or ended or began,
        outcome=report.outcome,
        nodes=report.job.hosts,
        world_size=report.job.world_size,
        began=began,
        ended=ended,
        job=tags.get("job"),
        user=tags.get("user"),
        image=tags.get("image"),
        ticket=ticket,
        path=path,
    )
    if verdict is None:
        return told
    who = verdict.culprits
    where = (*who.hosts, "", *who.devices, "", who.ranks_folded, stopped or evidence)
    return msgspec.structs.replace(
        told,
        id=_digits(part.encode() for part in (verdict.slug, *where)),
        same=fingerprint(verdict, report.job.hosts),
        slug=verdict.slug,
        domain=verdict.domain,
        confidence=verdict.confidence,
        restart=verdict.restart,
        headline=verdict.headline,
        call_site=call_site(verdict),
        ranks=who.ranks_folded,
        hosts=who.hosts,
        # of a host that was lost there may be no log, and it was in the job
        nodes=tuple(sorted({*report.job.hosts, *who.hosts})),
        devices=who.devices,
        gpu_hours=float(onset.gpu_hours) if onset and onset.gpu_hours else None,
    )


def ns(text: str | None) -> int | None:
    """Return the UTC nanoseconds of a time of the report."""
    if text is None:
        return None
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 10**9 + int(f"{rest:0<9}"[:9])


def _digits(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part + b"\0")
    return digest.hexdigest()[:16]
