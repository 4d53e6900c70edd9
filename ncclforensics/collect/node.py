"""Entry point on a node: `python -m ncclforensics.collect.node -o DIR`.

Writes DIR/HOST, or with --tar a tar stream to stdout. Needs no more than Python, so the
package can be sent as a zip and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncclforensics.collect import commands, files, looks, mounts, peers, processes
from ncclforensics.collect.children import ask_all
from ncclforensics.collect.redaction import KINDS, Redactor
from ncclforensics.collect.share import Share, iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.collect.processes import Process

LIMIT_S = 60.0
WIDE = 80  # columns of a terminal


def parser() -> argparse.ArgumentParser:
    """Return the parser of this command line, which `ncclforensics collect` shares."""
    told = argparse.ArgumentParser(prog="ncclforensics collect", allow_abbrev=False)
    told.add_argument("-o", "--output", metavar="DIR", type=Path)
    told.add_argument("--tar", action="store_true")
    told.add_argument("--pid", type=int, action="append", default=[])
    told.add_argument("--match", metavar="REGEX")
    told.add_argument("--again", metavar="S", type=float)
    told.add_argument("--limit", metavar="S", type=float, default=LIMIT_S)
    told.add_argument("--nonblocking", action="store_true")
    told.add_argument("--redact", metavar="KINDS", default="")
    told.add_argument("--redact-key", metavar="KEY", default="")
    told.add_argument("-q", "--quiet", action="store_true")
    return told


ENDS = (signal.SIGTERM, signal.SIGHUP)  # signals by which a launcher ends it


def main(argv: Sequence[str] | None = None) -> int:
    """Collect as the command line says; return 0, or 2 for a mistake in it."""
    asked = parser().parse_args(argv)
    mistake = _mistake(asked)
    if mistake:
        _say(f"error: {mistake}")
        return 2
    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda *_: sys.exit(143))
    umask = os.umask(0o077)  # nobody else is to read what is written
    try:
        return _written(asked)
    finally:
        os.umask(umask)


def _written(asked: argparse.Namespace) -> int:
    if not asked.tar:
        asked.output.mkdir(parents=True, exist_ok=True)
        return _collect(asked, asked.output)
    # a signal between the folder and its removal would leave it behind
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    scratch = Path(tempfile.mkdtemp(prefix="ncclforensics-"))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        code = _collect(asked, scratch)
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as stream:
            for path in sorted(scratch.iterdir()):
                stream.add(path, arcname=path.name)
        return code
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _mistake(asked: argparse.Namespace) -> str:
    if asked.tar is (asked.output is not None):
        return "give either -o DIR or --tar"
    if unknown := set(filter(None, asked.redact.split(","))) - {*KINDS, "all"}:
        return f"--redact: {', '.join(sorted(unknown))}: use {','.join(KINDS)}"
    try:
        re.compile(asked.match or "")
    except re.error as error:
        return f"--match: {error}"
    if asked.output and asked.output.exists() and not asked.output.is_dir():
        return f"{asked.output} is no directory"
    return ""


def _collect(asked: argparse.Namespace, output: Path) -> int:
    start, begun = time.time(), time.monotonic()
    host = os.uname().nodename
    kinds = {*filter(None, asked.redact.split(","))}
    kinds = {*KINDS} if "all" in kinds else kinds
    key = asked.redact_key.encode() or secrets.token_bytes(16)
    redactor = Redactor(frozenset(kinds), key)
    folder = output / redactor.folder(host)
    if folder.exists():
        _say(f"error: {folder} is there already: give another DIR")
        return 2
    folder.mkdir(mode=0o700)
    share = Share(folder, redactor)
    until = begun + asked.limit
    found = processes.find({*asked.pid}, asked.match, until)
    share.secrets = found.secrets
    _learn(redactor, host, found.processes)
    share.miss({f"processes, {n}": why for n, why in enumerate(found.why_not, 1)})
    taken = _looks(asked, share, found.processes, until)
    end = time.time()
    share.document(
        "manifest.json", _manifest(asked, share, (start, end), taken, found), "asked"
    )
    if not asked.quiet:
        _summary(share, found.processes, end - start)
    return 0


def _looks(
    asked: argparse.Namespace, share: Share, found: list[Process], until: float
) -> list[dict[str, str]]:
    """Take one look or two, and ask the rest in between; return when each was."""
    once, why_not = commands.questions([*commands.ONCE, *commands.ethtool()], "")
    share.miss(why_not)
    logs, why_not = files.log_questions(found, until)
    share.miss(why_not)
    for process in found:
        if process.is_main:
            lines = (f"{k}={v}\n" for k, v in process.environment.items())
            name = f"processes/{process.label}.env"
            share.write(name, "".join(lines).encode("utf-8", "replace"))
    first = time.time()
    pause = asked.again
    folder = "" if pause is None else "look-1/"
    searched = not asked.pid and asked.match is None
    how: dict[str, Any] = {"nonblocking": asked.nonblocking, "searched": searched}
    also = [*once, *logs] if pause is None else once
    how["is_first"] = pause is not None
    states = looks.take(share, found, until, folder, also=also, **how)
    compared = time.monotonic()
    _mounts(share, until)
    pings, why_not = peers.questions(peers.addresses(found, states))
    share.miss(why_not)
    for answer in ask_all(pings, until):
        share.keep(answer)
    taken = [{"folder": folder, "start": iso(first), "end": iso(time.time())}]
    if pause is not None:
        time.sleep(max(0.0, compared + pause - time.monotonic()))
        second = time.time()
        until = time.monotonic() + asked.limit
        how["is_first"] = False
        looks.take(share, found, until, "look-2/", also=logs, **how)
        told = {"folder": "look-2/", "start": iso(second), "end": iso(time.time())}
        taken.append(told)
    return taken


def _mounts(share: Share, until: float) -> None:
    lines = []
    for answer in ask_all(mounts.questions(), until, at_once=mounts.MOST):
        told = (answer.question, answer.seconds, answer.why_not, answer.data)
        lines.append(mounts.line(*told))
        share.keep(answer)
    if lines:
        share.write("commands/mounts.txt", ("\n".join(lines) + "\n").encode())


def _learn(redactor: Redactor, host: str, found: list[Process]) -> None:
    """Tell the redactor the names of this node and of its users."""
    redactor.hosts |= {host, host.partition(".")[0]}
    redactor.users |= {os.path.basename(os.path.expanduser("~"))}
    for process in found:
        own = process.environment
        names = ("MASTER_ADDR", "SLURMD_NODENAME", "HOSTNAME", "SLURM_JOB_NODELIST")
        redactor.hosts |= {
            own[n] for n in names if re.search("[a-zA-Z]", own.get(n, ""))
        }
        redactor.users |= {own.get("SLURM_JOB_USER", "")}
        redactor.users |= {os.path.basename(process.home)}


def _manifest(
    asked: argparse.Namespace,
    share: Share,
    span: tuple[float, float],
    taken: list[dict[str, str]],
    found: processes.Found,
) -> dict[str, Any]:
    start, end = span
    package = sys.modules.get("ncclforensics")
    system = os.uname()
    return {
        "collected_by": f"ncclforensics {getattr(package, '__version__', 'unknown')}",
        "host": system.nodename,
        "machine": _machine(),
        "start": iso(start),
        "end": iso(end),
        "zone": time.strftime("%z"),
        "monotonic_s": round(time.monotonic(), 3),
        "kernel": f"{system.sysname} {system.release} {system.machine}",
        "python": sys.version.split()[0],
        "is_root": os.geteuid() == 0,
        "redacted": sorted(share.redactor.kinds),
        "again_s": asked.again,
        "looks": taken,
        "ranks": sorted({p.rank for p in found.processes if p.rank >= 0}),
        "processes": len(found.processes),
        "asked": share.asked,
    }


def _machine() -> str:
    """Return what tells these processes from those of any other node or container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _summary(share: Share, found: list[Process], seconds: float) -> None:
    ranks = sorted({p.rank for p in found if p.rank >= 0})
    who = f"ranks {','.join(map(str, ranks))}" if ranks else "no rank of a job"
    if found and not ranks:
        who = f"no rank, processes {','.join(str(p.pid) for p in found)}"
    size = f"{share.files} files, {share.size / 1e6:.1f} MB, {seconds:.1f} s"
    _say(f"{who}; {size}: {share.folder}")
    missed: dict[str, list[str]] = {}
    for row in share.asked:
        if row.get("why_not"):
            missed.setdefault(row["why_not"], []).append(row["asked"])
    for why, names in missed.items():
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        line = f"  not there: {why}: {', '.join(names[:2])}{more}"
        # the whole of it is in the manifest
        sys.stderr.write(f"{line if len(line) <= WIDE else line[: WIDE - 1] + '…'}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"ncclforensics collect: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
