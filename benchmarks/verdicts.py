"""Whom do we name, and whom does torchfrtrace? Both on the same folders of dumps.

    python benchmarks/verdicts.py [FOLDER…]

Below each folder (by default the fixtures) every job with a known truth is looked for
that has Flight Recorder dumps. torchfrtrace gets the folder that holds them and the
names' common prefix; the ranks that it calls missing or culprits are taken from what it
prints, and where it ends with an exception that is said. `right` counts guilty ranks
that were named, `innocent` the others that were.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from accuracy import FIXTURES, Truth, truths
from ncclforensics.analysis import analyze

PROGRAM = Path(sys.executable).with_name("torchfrtrace")
BLAMED = re.compile(r"(?:missing ranks:|[Cc]ulprit rank:?|errors? (?:in|on) rank)(.*)")
SECONDS = 300


def dumps(evidence: Path) -> Path | None:
    """Return the folder of the dumps of a job, None if there are no two of them."""
    for folder in [evidence, *sorted(p for p in evidence.rglob("*") if p.is_dir())]:
        files = [p for p in folder.iterdir() if p.is_file() and ranked(p)]
        heads = [p.read_bytes()[:2] for p in files]
        if sum(head in (b"\x80\x02", b"\x80\x04", b'{"') for head in heads) > 1:
            return folder
    return None


def ranked(file: Path) -> bool:
    """Whether a file's name ends in a rank."""
    return file.stem[-1:].isdigit() and "log" not in file.name


def theirs(folder: Path) -> tuple[str, set[int]]:
    """Run torchfrtrace; return what came of it, and the ranks that it blames."""
    names = [p.name for p in folder.iterdir() if p.is_file() and ranked(p)]
    prefix = min(names, key=len).rstrip("0123456789")
    command = [str(PROGRAM), str(folder), "-p", prefix]
    told = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    text = told.stdout + told.stderr
    if told.returncode:
        last = [line for line in text.splitlines() if line.strip()][-1:]
        return f"fails: {last[0][:50] if last else told.returncode}", set()
    blamed = {
        int(rank) for line in BLAMED.findall(text) for rank in re.findall(r"\d+", line)
    }
    return ("names ranks" if blamed else "names nobody"), blamed


def ours(folder: Path) -> tuple[str, set[int]]:
    """Analyze the same folder; return the class, and the ranks that are named."""
    found = analyze([str(folder)]).ranked
    verdict = found.verdict
    if verdict is None or found.outcome != "failure":
        return found.outcome, set()
    return verdict.slug, set(verdict.ranks)


def row(truth: Truth, folder: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """Print both verdicts on one job; return right and innocent of each."""
    scores = []
    guilty = set(truth.ranks)
    wanted = "/".join(sorted(truth.classes)) or truth.outcome
    print(f"{truth.slug}: {wanted} {some(guilty)}")
    for name, judge in (("ncclforensics", ours), ("torchfrtrace", theirs)):
        if judge is theirs and not PROGRAM.exists():
            continue
        word, named = judge(folder)
        scores.append((len(named & guilty), len(named - guilty)))
        print(
            f"    {name:14} {scores[-1][0]:3} right {scores[-1][1]:3} innocent  "
            f"{word} {some(named)}",
            flush=True,
        )
    return scores[0], scores[-1] if len(scores) > 1 else (0, 0)


def some(ranks: set[int]) -> str:
    """Return up to twelve ranks as text."""
    listed = sorted(ranks)
    return ",".join(map(str, listed[:12])) + ("…" if len(listed) > 12 else "")


def main() -> int:
    """Print two rows a job, and what they sum up to."""
    folders = [Path(name) for name in sys.argv[1:]] or [FIXTURES]
    total = [0, 0, 0, 0, 0]
    for truth in truths(folders):
        folder = dumps(truth.evidence)
        if folder is None:
            continue
        mine, other = row(truth, folder)
        total = [
            a + b for a, b in zip(total, [len(truth.ranks), *mine, *other], strict=True)
        ]
    print(
        f"of {total[0]} guilty ranks ncclforensics named {total[1]} and {total[2]} "
        f"innocents, torchfrtrace {total[3]} and {total[4]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
