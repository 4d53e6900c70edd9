"""Times the word of `watch` on real jobs that are harmed, and on healthy ones.

The jobs are those of `live/cases.py`, on one node each, side by side. The fault comes
behind STEP, after a minute of steps; a healthy job pauses again and again, after as
many. Three watches follow each: one that learns, one with `--collect`, and one with
`--patience`. A healthy job is ended after MINUTES: no watch may have said a word. Of
the others it prints how long after the fault each word came, and whom it names.

    python benchmarks/live_watch.py FOLDER [--only NAME,NAME] [--minutes 25]

Needs what `live_faults.py` does.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from live import harm
from live.cases import CASES, Case
from live.job import Job
from live_faults import judged

WATCHES = {"learned": (), "patient": ("--patience", "2m"), "collects": ("--collect",)}
# on one node, and not by what is one of a machine, as a control group is
FAULTS = (
    *("stopped", "lock", "storage", "loader-stuck", "killed", "collective", "raised"),
    *("file-lock", "skipped-call", "unmatched-p2p"),
)
HEALTHY = tuple(case.name for case in CASES if not case.classes)
RARE = 10  # times as many steps before what takes the whole machine
CHECKS_S = 0.5


@dataclass
class Watched:
    """A job, the watches on it, and when each of them ended."""

    job: Job
    root: Path
    watches: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    fault: float = 0.0

    def start(self) -> None:
        """Start the job, and what watches it on its node."""
        self.job.start()
        (node,) = self.job.nodes
        for name, options in WATCHES.items():
            hang = (str(self.root / f"{name}.hang"),) if "--collect" in options else ()
            report = self.root / f"{name}.json"
            words = [sys.executable, "-m", "ncclforensics", "watch", "--no-cache"]
            words += [*options, *hang, "--exec", f'cp "$NCCLFORENSICS_REPORT" {report}']
            path = {"PATH": f"{self.job.path}:{os.environ['PATH']}"}
            with (self.root / f"{name}.out").open("wb") as out:
                self.watches[name] = node.start(
                    *(*words, self.job.folder / "logs"),
                    env={**os.environ, **path},
                    stdout=out,
                    stderr=out,
                )

    def look(self, now: float) -> None:
        """Harm the job at its step, and note which watches have ended."""
        case = self.job.case
        if not self.fault and case.classes and self.has_come():
            if case.harm:
                getattr(harm, case.harm)(self.job)
            self.fault = now
        for name, watch in self.watches.items():
            if name not in self.ended and watch.poll() is not None:
                self.ended[name] = now
                print(f"{case.name}: {name}: {self.word(name)}", flush=True)

    def has_come(self) -> bool:
        """Whether a rank has logged the step behind which the fault comes."""
        logs = [p for p in (self.job.folder / "logs").rglob("*.*") if p.is_file()]
        return any(f"step {self.job.step} loss" in log.read_text() for log in logs)

    def word(self, name: str) -> str:
        """Return what one watch said, and how long after the fault."""
        report, after = self.root / f"{name}.json", self.ended[name] - self.fault
        when = f"{after:.0f} s after it" if self.fault else "no fault yet"
        code = self.watches[name].returncode
        if not report.exists():
            return f"{when}, exit {code}, no report"
        told = json.loads(report.read_bytes())
        *right, words = judged(self.job.case, told)
        return f"{when}, exit {code}, class, rank, nobody innocent {right}: {words}"


def end(watches: list[Watched]) -> None:
    """End all watches, and wait for them."""
    running = [w for job in watches for w in job.watches.values() if w.poll() is None]
    for process in running:
        process.send_signal(signal.SIGINT)
    for process in running:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> None:
    """Run the jobs that the command line names, side by side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join((*FAULTS, *HEALTHY)))
    parser.add_argument("--minutes", type=float, default=25, help="of a healthy job")
    parser.add_argument("--step", type=int, default=600, help="before a fault")
    parser.add_argument("--apart", type=float, default=10, help="seconds")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    fuse = os.environ.get("LAB_FUSE", sys.executable)
    chosen = [replace(c, nodes=1) for c in CASES if c.name in asked.only.split(",")]
    watched: list[Watched] = []
    until = time.time() + asked.minutes * 60
    try:
        for case in chosen:
            watched.append(_started(case, asked.folder.resolve(), fuse, asked.step))
            pause = time.time() + asked.apart
            while time.time() < pause:
                _look(watched)
                time.sleep(CHECKS_S)
        while time.time() < until and not _look(watched):
            time.sleep(CHECKS_S)
    finally:
        end(watched)
        for one in watched:
            one.job.__exit__(None, None, None)
    healthy = [one for one in watched if not one.job.case.classes]
    words = [name for one in healthy for name in one.ended]
    print(f"{len(healthy)} healthy jobs, false words: {words or 'none'}")


def _started(case: Case, folder: Path, fuse: str, step: int) -> Watched:
    root = folder / case.name
    root.mkdir(parents=True)
    again = not case.classes
    steps = step * (RARE if case.name == "healthy-compile" else 1)
    job = Job(case, root / "job", fuse, steps, again=again).__enter__()
    one = Watched(job, root)
    one.start()
    return one


def _look(watched: list[Watched]) -> bool:
    """Look at all jobs; returns whether all watches have ended."""
    for one in watched:
        one.look(time.time())
    return all(len(one.ended) == len(one.watches) for one in watched)


if __name__ == "__main__":
    main()
