"""Phrases shared by renderers: culprits, calls, the job, times.

Terms are those of NCCL and torch (SeqNum, process group), so that grep finds them in
the raw log. Numbers have thousands separators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.model.folding import (
    count,
    fold_hosts,
    name_folded,
    name_ranks,
    noun,
    unfold_ranks,
)
from ncclforensics.model.words import UNNAMED, lasted, name_group
from ncclforensics.report.coverage import recognised, was_read
from ncclforensics.report.text_layout import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.report.contract import (
        Clue,
        Collective,
        Culprits,
        Finding,
        Job,
        Onset,
        Other,
        Report,
        Step,
        Verdict,
    )
    from ncclforensics.report.details import Details, Excerpt


RANKS = 40  # characters of folded ranks within a line
SPREAD = "0-1016:8 is every 8th rank from 0 to 1016."
GIVE = (
    "Give the directory that holds NCCL_DEBUG logs, torchrun or Slurm output, or"
    " Flight Recorder dumps."
)


def who(culprits: Culprits, room: int = 10_000) -> str:
    """Name the culprits in at most `room` characters; "" if there are none."""
    ranks, hosts, devices = culprits.ranks, culprits.hosts, culprits.devices
    gpu = f"{noun(len(devices), 'GPU')} {','.join(devices)}" if devices else ""
    where = fold_hosts(hosts)
    many = count(len(hosts), "host")
    if not ranks and not hosts:
        return shorten(gpu, room)
    if not ranks:
        named = f"{noun(len(hosts), 'host')} {where}"
        tries = [
            f"{named}{f' ({gpu})' if gpu else ''}",
            named,
            many,
        ]
    else:
        full, few = name_ranks(ranks, most=room), name_ranks(ranks, most=24)
        at = f" on {where}" if hosts else ""
        about = f" on {many}" if hosts else ""
        tries = [f"{full}{at} ({gpu})"] if gpu else []
        tries += [full + at, full + about, few + about, count(len(ranks), "rank")]
    return next((t for t in tries if len(t) <= room), shorten(tries[-1], room))


def call(collective: Collective) -> str:
    """Name a call: "all_reduce SeqNum=7 in process group 35 (TP) at train.py:12"."""
    group, desc = collective.process_group, collective.process_group_desc
    known = "" if desc in UNNAMED else desc
    where = name_group(group, desc) if group is not None else known
    parts = [
        collective.op or "",
        "" if collective.seq is None else f"SeqNum={collective.seq}",
        f"in {where}" if where else "",
        f"at {collective.call_site}" if collective.call_site else "",
    ]
    return " ".join(part for part in parts if part)


def job(job: Job) -> str:
    """Describe the job as far as it is known; "" if nothing is."""
    seen, size, hosts = job.ranks_seen, job.world_size, len(job.hosts)
    if size is None:
        ranks = f"{count(seen, 'rank')} seen" if seen else ""
    elif not seen or seen == size:
        ranks = count(size, "rank")
    elif seen < size:
        ranks = f"{seen:,} of {count(size, 'rank')} seen"
    else:
        ranks = f"{count(seen, 'rank')} seen, world size {size:,}"
    names = fold_hosts(job.hosts)
    where = names if hosts == 1 else count(hosts, "host")
    if hosts > 1 and len(names) <= 40:
        where += f" ({names})"
    where = where if hosts else ""
    placed = [" on ".join(part for part in (ranks, where) if part)]
    # a machine that wrote a log need not be that of all ranks
    apart = bool(ranks and where) and job.ranks_placed == 0
    parts = [
        *([ranks, f"{where} known"] if apart else placed),
        f"NCCL {job.nccl_version}" if job.nccl_version else "",
        f"torch {job.torch_version}" if job.torch_version else "",
        job.launcher or "",
    ]
    return " · ".join(part for part in parts if part)


def last_line(report: Report) -> str:
    """Return `path:line  text` of the culprit's last own line, "" if it is unknown."""
    last = report.last_line
    if last is None or report.verdict is None:
        return ""
    return f"{last.place}  {last.text}".rstrip()


def around_last(report: Report, details: Details) -> Excerpt | None:
    """Return the excerpt with the culprit's last own line, None if there is none."""
    last = report.last_line
    if last is None or report.verdict is None:
        return None
    of = (e for e in details.excerpts if e.source == last.source)
    return next((excerpt for excerpt in of if last.line in excerpt.cited), None)


def last_words(report: Report, details: Details) -> list[str]:
    """Return the culprit's last own line, and what stands around it if that was read.

    Empty where it is not known.
    """
    around = around_last(report, details)
    told = last_line(report)
    if not told or around is None:
        return [told] if told else []
    return [around.source, *around.numbered]


def heard(clue: Clue) -> str:
    """Say which ranks were heard, of how many, and which of them timed out."""
    if not clue.heard:
        return ""
    ours = len(unfold_ranks(clue.heard))
    told = f"{ours:,} of {count(clue.ranks or ours, 'rank')}"
    told += f" ({name_folded(clue.heard, RANKS)})" if clue.silent else ""
    told += f"; silent: {name_folded(clue.silent, RANKS)}" if clue.silent else ""
    if clue.timed_out and clue.timed_out != clue.heard:
        told += f"; only {name_folded(clue.timed_out, RANKS)} timed out"
    return told


def stood(clue: Clue) -> str:
    """Return the call of each rank, folded: "ranks 0-2,4-7 all_reduce SeqNum=5"."""
    told = []
    for at in clue.stood:
        call = [at.op or "a call", "" if at.seq is None else f"SeqNum={at.seq}"]
        told.append(
            " ".join([name_folded(at.ranks_folded, RANKS), *filter(None, call)])
        )
    return "; ".join(told)


def step(step: Step) -> str:
    """Return a step of the chain: "1,022 x timeout: … (ranks 0-616,618-1023)"."""
    many = f"{step.count:,} x " if step.part == "seen" else ""
    name = f"{step.slug}: " if step.slug else ""
    folded = step.ranks_folded
    ranks = f" ({name_folded(folded, RANKS)})" if folded else ""
    # most headlines already name their ranks
    return f"{many}{name}{step.text}{ranks if step.part == 'seen' else ''}"


def onset(onset: Onset) -> str:
    """Say when the job stopped, when that was noticed, and the GPU hours lost."""
    told = f"stopped {onset.stopped[:23]}Z"
    if onset.hidden_seconds is None:
        return told
    later = f"{hidden(onset)} later" if onset.hidden_seconds else "at once"
    cost = lost(onset)
    return f"{told}, noticed {later}{f': {cost}' if cost else ''}"


def hidden(onset: Onset) -> str:
    """Return how long nobody noticed: "10 s", "12 min"; "" if unknown."""
    return "" if onset.hidden_seconds is None else lasted(onset.hidden_seconds)


def lost(onset: Onset) -> str:
    """Return "8 GPUs x 10 s = 0.02 GPU hours"; "" if unknown, or next to nothing."""
    if onset.ranks is None or onset.gpu_hours in (None, "0.00"):
        return ""
    return f"{onset.ranks:,} GPUs x {hidden(onset)} = {onset.gpu_hours} GPU hours"


def beside(told: Other) -> str:
    """Describe the outcome of another job or attempt: "attempt 0: crashed-rank: …"."""
    name = f"job {told.job}" if told.job is not None else f"attempt {told.attempt}"
    what = f"{told.slug}: {told.headline}" if told.slug else told.headline
    where = next((f" ({e.place})" for e in told.evidence if e.line), "")
    return f"{name}: {what}{where}"


def looked_at(report: Report) -> str:
    """Say how much was read: "12 files of 8 ranks, 2 not recognised"."""
    unread = sum(not was_read(source) for source in report.sources)
    text = count(len(report.sources), "file")
    if report.job.ranks_seen:
        text += f" of {count(report.job.ranks_seen, 'rank')}"
    return f"{text}, {unread:,} not recognised" if unread else text


def restart(finding: Verdict) -> str:
    """Return whether to start the job again, and where it failed.

    "" if both are unknown.
    """
    if finding.restart == finding.domain == "unknown":
        return ""
    return f"{finding.restart} ({finding.domain})"


def perhaps(finding: Verdict) -> str:
    """Return the prefix "possible: " for a finding that is only possible, else ""."""
    return "possible: " if finding.confidence == "possible" else ""


def sureness(finding: Verdict, report: Report) -> str:
    """Return how sure a finding is; of an open outcome only that it is open.

    There the confidence of a sign (that a timeout passed) would read as one of a cause.
    """
    return finding.confidence if report.outcome == "failure" else report.outcome


def clue(report: Report) -> list[tuple[str, str]]:
    """Return (label, text): who was heard, where each rank stood, what is needed.

    Where nothing failed, it is what would be gained fastest.
    """
    if report.fastest_gain is not None:
        return [("gain", f"fastest gain: {report.fastest_gain.text}")]
    if report.clue is None:
        return []
    told = {
        "heard": heard(report.clue),
        "at": stood(report.clue),
        "needs": "; ".join(report.clue.needed) if recognised(report) else "",
    }
    return [(label, text) for label, text in told.items() if text]


def also(report: Report) -> tuple[str, ...]:
    """Name the failures that are independent of the verdict, one line each."""
    if report.outcome != "failure":
        return ()
    roots = (f for f in others(report) if f.role == "root")
    return tuple(
        f"and {who(f.culprits, 200) or 'no rank accused'}: {f.slug}: {f.headline}"
        for f in roots
        if f.confidence != "possible"
    )


def others(report: Report) -> tuple[Finding, ...]:
    """Return the findings other than the verdict."""
    return report.findings if report.verdict is None else report.findings[1:]


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Group (class, reason) pairs by reason, in order; classes are comma-separated."""
    groups: dict[str, list[str]] = {}
    for slug, reason in pairs:
        groups.setdefault(reason, []).append(slug)
    return [(", ".join(slugs), reason) for reason, slugs in groups.items()]
