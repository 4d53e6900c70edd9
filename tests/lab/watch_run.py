"""Harms real torch jobs while `ncclforensics watch` follows them, and takes the time.

Each case starts ranks on Gloo, waits until they make steps, harms one of them, and
prints after how many seconds which word came, and whom the report names. `--patience`
is given to a second watch beside the one that learns, `--collect` to a third. All cases
run side by side.

    python tests/lab/watch_run.py FOLDER [--cases stop,lock] [--healthy 60]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TRAIN = Path(__file__).with_name("watch_train.py").resolve()
PACKAGE = Path(__file__).parents[2].resolve()
# name: ranks, the one at fault, whether torchrun starts them, whether they dump
CASES = {
    "stop": (4, 2, False, True),
    "lock": (3, 1, False, True),
    "other": (2, 1, False, True),
    "kill": (3, 2, False, False),
    "kill-torchrun": (2, 1, True, False),
    "fifo": (2, 0, False, True),
    "raise-torchrun": (2, 1, True, False),
    "raise": (3, 0, False, False),
    "return": (2, 1, False, True),
}


class Run:
    """One job with the watches on it."""

    def __init__(self, name: str, root: Path, port: int, patience: str) -> None:
        self.name, self.folder = name, root / name
        self.folder.mkdir(parents=True)
        ranks, self.who, torchrun, dumps = CASES[name]
        (self.folder / "logs").mkdir()
        args = ["--dump-every", "20"] if dumps else []
        self.jobs = self._torchrun(ranks, port, args) if torchrun else []
        if not torchrun:
            self.jobs = [self._rank(r, ranks, port, args) for r in range(ranks)]
        paths = [self.folder / "logs", *([self.folder / "dumps"] if dumps else [])]
        self.words = {
            "learned": self._watch("learned", paths, []),
            "patient": self._watch("patient", paths, ["--patience", patience]),
            "collects": self._watch(
                "collects", paths, ["--collect", str(self.folder / "hang")]
            ),
        }
        self.told: dict[str, float] = {}
        self.harmed = 0.0

    def _rank(self, rank: int, world: int, port: int, args: list[str]):
        env = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(world)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        env |= {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
        with (self.folder / "logs" / f"rank_{rank}.log").open("wb") as log:
            command = [sys.executable, TRAIN, *args]
            return subprocess.Popen(
                command, cwd=self.folder, env=env, stdout=log, stderr=log
            )

    def _torchrun(self, world: int, port: int, args: list[str]):
        launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(world)]
        launch += ["--master-port", str(port), "--log-dir", "logs", "--redirects", "3"]
        with (self.folder / "logs" / "torchrun.log").open("wb") as log:
            command = [sys.executable, *launch, str(TRAIN), *args]
            env = os.environ | {"OMP_NUM_THREADS": "1"}
            return [
                subprocess.Popen(
                    command, cwd=self.folder, env=env, stdout=log, stderr=log
                )
            ]

    def _watch(self, name: str, paths: list[Path], more: list[str]):
        copy = f'cp "$NCCLFORENSICS_REPORT" {self.folder}/{name}.json'
        command = [sys.executable, "-m", "ncclforensics", "watch", *map(str, paths)]
        command += ["--exec", copy, "--no-cache", *more]
        out = (self.folder / f"{name}.out").open("wb")
        err = (self.folder / f"{name}.err").open("wb")
        env = os.environ | {"PYTHONPATH": str(PACKAGE)}
        return subprocess.Popen(command, stdout=out, stderr=err, env=env)

    def steps(self) -> int:
        """Return how many steps the ranks have logged."""
        logs = (self.folder / "logs").rglob("*.log")
        return sum(log.read_text().count(" step ") for log in logs)

    def harm(self) -> None:
        """Harm the rank at fault."""
        kind = self.name.split("-")[0]
        self.harmed = time.time()
        if kind in ("stop", "kill"):
            number = signal.SIGSTOP if kind == "stop" else signal.SIGKILL
            os.kill(self._pid(), number)
        else:
            (self.folder / "fault").write_text(f"{kind} {self.who}")

    def _pid(self) -> int:
        if len(self.jobs) > 1:
            return self.jobs[self.who].pid
        agent = self.jobs[0].pid
        ranks = [
            int(pid)
            for threads in Path(f"/proc/{agent}/task").iterdir()
            for pid in (threads / "children").read_text().split()
            if f"\0RANK={self.who}\0".encode()
            in Path(f"/proc/{pid}/environ").read_bytes()
        ]
        return ranks[0]

    def look(self) -> bool:
        """Note which watches have ended; returns whether all have."""
        for name, watch in self.words.items():
            if name not in self.told and watch.poll() is not None:
                self.told[name] = time.time()
                print(*self.row(name), sep=" | ", flush=True)
        return len(self.told) == len(self.words)

    def row(self, name: str) -> tuple[str, ...]:
        """Return what came of one watch."""
        after = self.told[name] - self.harmed if self.harmed else float("nan")
        code = self.words[name].returncode
        file = self.folder / f"{name}.json"
        report = json.loads(file.read_bytes()) if file.exists() else {}
        verdict = report.get("verdict") or {}
        ranks = (verdict.get("culprits") or {}).get("ranks")
        suspects = [s["rank"] for s in report.get("suspects", ())]
        told = (self.folder / f"{name}.err").read_text().splitlines()
        end = next(
            (
                t
                for t in reversed(told)
                if ": stopped" in t or ": failed" in t or ": ended" in t
            ),
            "",
        )
        return (
            *(self.name, f"rank {self.who}", name, f"{after:.0f} s", f"exit {code}"),
            *(str(report.get("outcome")), str(verdict.get("class"))),
            *(str(verdict.get("confidence")), f"ranks {ranks}", f"suspects {suspects}"),
            end[:150],
        )

    def end(self) -> None:
        """End all processes of the job and its watches."""
        for process in [*self.jobs, *self.words.values()]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        time.sleep(1)
        for process in [*self.jobs, *self.words.values()]:
            if process.poll() is None:
                process.kill()
            process.wait()


def _all_told(runs: list[Run]) -> bool:
    """Look at every run; returns whether all have their words."""
    told = [run.look() for run in runs]
    return all(told)


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--healthy", type=float, default=75, help="seconds before")
    parser.add_argument("--patience", default="30s")
    parser.add_argument("--port", type=int, default=29700)
    parser.add_argument("--apart", type=float, default=8, help="seconds between starts")
    parser.add_argument("--longest", type=float, default=1500, help="seconds after")
    args = parser.parse_args()
    runs: list[Run] = []
    try:
        for at, name in enumerate(args.cases.split(",")):
            runs.append(Run(name, args.folder, args.port + at, args.patience))
            time.sleep(args.apart)
        while not all(run.steps() for run in runs):
            time.sleep(1)
        time.sleep(args.healthy)
        for run in runs:
            print(run.name, "harmed", "false word!" * run.look(), flush=True)
            run.harm()
        until = time.time() + args.longest
        while time.time() < until and not _all_told(runs):
            time.sleep(0.5)
    finally:
        for run in runs:
            run.end()


if __name__ == "__main__":
    main()
