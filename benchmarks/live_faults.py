"""Harms real jobs while they run, collects them on each node, and judges the analysis.

Each case of `live/cases.py` is a torch job of four Gloo ranks on two or four nodes,
made of namespaces. `collect --again` runs on each node, then `analyze`, on everything
and without the dumps, as of a job that was not asked for any. It prints whether the
class, the ranks and nobody else are named, and whether a secret was collected.

    python benchmarks/live_faults.py FOLDER [--only NAME,NAME] [--judge]

Needs root, Linux, iproute2, util-linux, openssh-server and py-spy on the PATH; also
Open MPI, Slurm with munge, and Ray for `…-mpirun`, `…-srun` and `…-ray`, control groups
of version 1 for `starved`, `frozen` and `host-oom`, and for `storage` a Python with
fusepy in LAB_FUSE.
About 40 seconds a case.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from live.cases import CASES, Case
from live.job import SECRET, Job

CONFIDENCES = ("", "possible", "likely", "certain")


def analyzed(paths: list[Path]) -> dict[str, Any]:
    """Return the report on some paths."""
    words = [sys.executable, "-m", "ncclforensics", "analyze", *map(str, paths)]
    done = subprocess.run(
        [*words, "-f", "json", "--no-cache"], capture_output=True, check=False
    )
    return dict(json.loads(done.stdout))


def judged(case: Case, told: dict[str, Any]) -> tuple[bool, bool, bool, str]:
    """Return whether class and ranks are right and nobody innocent is named.

    With words on what was named.
    """
    verdict = told["verdict"] or {}
    named = verdict.get("culprits", {"ranks": [], "hosts": []})
    ranks, hosts = set(named["ranks"]), set(named["hosts"])
    slug, sure = verdict.get("class"), verdict.get("confidence", "")
    suspects = [some["rank"] for some in told["suspects"]]
    own_hosts = {f"gpu{r * case.nodes // 4 + 1:04d}" for r in case.ranks}
    is_class = slug in case.classes if case.classes else slug is None
    is_rank = ranks == set(case.ranks)
    if case.by_host and ranks <= set(case.ranks):
        is_rank = is_rank or hosts == own_hosts
    if case.suspected and slug is None and suspects[:1] == list(case.ranks[:1]):
        is_class = is_rank = True
    if case.at_most != "certain":
        known = CONFIDENCES.index(sure) <= CONFIDENCES.index(case.at_most)
        is_class = known and (slug is None or slug in case.classes)
        is_rank = known and (not ranks or is_rank)
    innocent = ranks <= set(case.ranks) and (ranks or hosts <= own_hosts)
    words = f"{told['outcome']} {slug} {sorted(ranks)} {','.join(sorted(hosts))} {sure}"
    return is_class, is_rank, bool(innocent), f"{words} suspects {suspects}"


def run(case: Case, folder: Path, again: str) -> None:
    """Run one job, and keep what was collected in FOLDER/NAME."""
    fuse = os.environ.get("LAB_FUSE", sys.executable)
    kept = folder / case.name
    with Job(case, folder / f"{case.name}.job", fuse) as job:
        moment = job.hang()
        began = time.time() - moment
        took = job.collect(kept, again)
    found = subprocess.run(
        ["grep", "-rlF", SECRET, kept], capture_output=True, text=True, check=False
    ).stdout.split()
    facts = {"fault_to_collect_s": began, "took_s": took, "secret_in": found}
    (folder / f"{case.name}.json").write_text(json.dumps(facts))


def without_dumps(kept: Path, folder: Path) -> Path:
    """Copy what was collected into `folder`, without the Flight Recorder's dumps."""
    left = shutil.ignore_patterns("dumps")
    return shutil.copytree(kept, folder / kept.name, ignore=left)


def row(case: Case, folder: Path) -> list[tuple[bool, bool, bool]]:
    """Analyze and print one case; returns whether it was right, twice."""
    facts = json.loads((folder / f"{case.name}.json").read_text())
    logs = [folder / f"{case.name}.job" / "logs"] if case.dies else []
    kept = folder / case.name
    told = []
    want = f"{'|'.join(case.classes) or 'nobody'} {list(case.ranks)}"
    print(f"{case.name}: want {want}", flush=True)
    for name in ("all", "no dumps"):
        with tempfile.TemporaryDirectory() as scratch:
            path = kept if name == "all" else without_dumps(kept, Path(scratch))
            *right, words = judged(case, analyzed([path, *logs]))
        told.append(tuple(right))
        marks = ("class", "rank", "nobody innocent")
        wrong = [m for m, is_right in zip(marks, right, strict=True) if not is_right]
        print(
            f"  {name:8} {'WRONG ' + ', '.join(wrong) if wrong else 'right'}: {words}"
        )
    longest = max(facts["took_s"].values())
    secret = f", SECRET IN {facts['secret_in']}" if facts["secret_in"] else ""
    print(f"  collect {longest:.1f} s{secret}", flush=True)
    return told


def main() -> None:
    """Run and judge the cases that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(case.name for case in CASES))
    parser.add_argument("--again", default="10")
    parser.add_argument("--judge", action="store_true", help="analyze what is there")
    asked = parser.parse_args()
    # what was set up is taken down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = [case for case in CASES if case.name in asked.only.split(",")]
    counted = []
    folder = asked.folder.resolve()
    for case in chosen:
        try:
            if not asked.judge:
                run(case, folder, asked.again)
            counted.append(row(case, folder))
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{case.name}: not run: {error}", flush=True)
    for at, name in enumerate(("all", "no dumps")):
        sums = [sum(told[at][k] for told in counted) for k in range(3)]
        print(
            f"{name}: of {len(counted)} class right {sums[0]}, rank right {sums[1]}, "
            f"nobody innocent {sums[2]}"
        )


if __name__ == "__main__":
    main()
