"""Who makes a job slow? Simulated histories of jobs that run, and what is said of them.

    python benchmarks/slowness.py [--jobs N] [--seed N] [--fault NAME…] [--verbose]

Each job is drawn at random: its layout, its calls a step, how steady its ranks are, how
far the clocks of its hosts are apart and drift, what its dumps hold. A rank, or all of
a host, takes longer by a share of a step; or nobody does. The distributions know
nothing of the rule that is tested. `named` has the right ranks and no others, `told` as
a class or as fastest gain, `innocent` counts jobs in which others were named.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.analysis import analyze

if TYPE_CHECKING:
    from collections.abc import Iterator

START_NS = 1_800_000_000_000_000_000
POLL_S = 0.1  # how often the watchdog looks
# the share of a step by which the slow are slower
FAULTS = {
    "steady": 0.0,
    "uneven": 0.0,
    "pipeline": 0.0,
    "slow 5 %": 0.05,
    "slow 10 %": 0.1,
    "slow 30 %": 0.3,
    "host 10 %": 0.1,
    "host 30 %": 0.3,
    "now and then 10 %": 0.1,
    "now and then 30 %": 0.3,
}


@dataclass
class Job:
    """What is drawn for one job; times in seconds."""

    rng: random.Random
    fault: str

    def __post_init__(self) -> None:
        """Draw everything, in a fixed order."""
        draw = self.rng
        self.world = draw.choice((4, 8, 16, 32))
        self.stages = self.tensor = 1
        if self.fault == "pipeline":
            self.stages = draw.choice((2, 4))
        elif draw.random() < 0.4:
            self.tensor = 2
        self.per_host = draw.choice([n for n in (1, 2, 4, 8) if n < self.world])
        self.step = draw.choice((0.05, 0.2, 1.0, 5.0))
        self.steps = draw.choice((40, 100, 300))
        self.calls = draw.choice((1, 2, 3, 6))
        self.even = draw.random() < 0.5  # work between calls, or before the first only
        sigma = 0.3 if self.fault == "uneven" else draw.choice((0.005, 0.02, 0.04))
        self.sigma = sigma
        self.spikes = draw.choice((0.0, 0.01, 0.03))
        self.transfer = self.step * draw.choice((0.01, 0.05, 0.2))
        far = draw.choice((0.0, 0.0002, 0.01, 0.5))
        hosts = range(self.world // self.per_host)
        self.offset = [draw.gauss(0, far) for _ in hosts]
        self.drift = [draw.gauss(0, draw.choice((0, 2e-6, 2e-5))) for _ in hosts]
        self.timed = draw.random() < 0.4  # NCCL with timing, else Gloo
        self.bias = [draw.gauss(0, 0.005) for _ in range(self.world)]
        self.weight = [draw.uniform(0.8, 1.2) for _ in range(self.stages)]
        share = FAULTS[self.fault]
        self.share = share
        self.slow: set[int] = set()
        if self.fault.startswith("host"):
            host = draw.choice(hosts)
            first = host * self.per_host
            self.slow = set(range(first, first + self.per_host))
        elif share:
            self.slow = {draw.randrange(self.world)}
        self.often = draw.uniform(0.2, 0.5) if "now" in self.fault else 1.0

    def work(self, rank: int, seconds: float) -> float:
        """Draw how long a rank works for what should take `seconds`."""
        draw = self.rng
        took = seconds * (1 + self.bias[rank]) * draw.lognormvariate(0, self.sigma)
        return took * (draw.uniform(1.3, 2.5) if draw.random() < self.spikes else 1)


def groups(job: Job) -> dict[str, list[list[int]]]:
    """Return the members of the groups by description."""
    block = job.tensor * job.stages
    replicas = job.world // block
    if block == 1:
        return {"default_pg": [list(range(job.world))]}
    inner = [list(range(r * block, (r + 1) * block)) for r in range(replicas)]
    outer = [[r * block + n for r in range(replicas)] for n in range(block)]
    kind = "TENSOR_MODEL_PARALLEL_GROUP" if job.tensor > 1 else "PIPELINE_GROUP"
    return {
        "default_pg": [list(range(job.world))],
        kind: inner,
        "DATA_PARALLEL_GROUP": outer,
    }


@dataclass
class Recorder:
    """Plays a job, and keeps what each rank's recorder would hold."""

    job: Job

    def __post_init__(self) -> None:
        """Begin with no calls and the ranks at zero."""
        self.now = [0.0] * self.job.world
        self.entries: list[list[dict[str, object]]] = [[] for _ in self.now]
        self.seq: dict[tuple[str, int, bool], int] = defaultdict(int)
        self.names: dict[tuple[str, int], str] = {}
        for kind, some in groups(self.job).items():
            for n, _ in enumerate(some):
                self.names[kind, n] = str(len(self.names))

    def meet(self, kind: str, n: int, op: str, size: int) -> None:
        """Let the members of a group call a collective and wait for its end."""
        members = groups(self.job)[kind][n]
        number = self.seq[kind, n, False] = self.seq[kind, n, False] + 1
        done = max(self.now[r] for r in members) + self.job.transfer / self.job.calls
        for r in members:
            self._note(r, kind, n, op, number, size, done, None)
            self.now[r] = done + self.job.rng.uniform(0, 2e-4)

    def send(self, kind: str, n: int, src: int, dst: int) -> None:
        """Let a member send to another, which waits for it."""
        members = groups(self.job)[kind][n]
        one, two = members[src], members[dst]
        done = max(self.now[one] + 1e-4, self.now[two]) + 1e-3
        number = self.seq[kind, n, True] = self.seq[kind, n, True] + 1
        self._note(one, kind, n, f"send {src}->{dst}", number, 4096, done, "p2p")
        self._note(two, kind, n, f"recv {dst}<-{src}", number, 4096, done, "p2p")
        self.now[one] += 1e-4
        self.now[two] = done

    def _note(self, r, kind, n, op, number, size, done, p2p) -> None:  # type: ignore[no-untyped-def]
        job, made = self.job, self.now[r]
        host = r // job.per_host
        seen = done + job.rng.uniform(0, POLL_S)

        def clock(t: float) -> int:
            skew = job.offset[host] + t * job.drift[host]
            return START_NS + int((t + skew) * 1e9)

        self.entries[r].append(
            {
                "record_id": len(self.entries[r]),
                "pg_id": int(self.names[kind, n]),
                "process_group": (self.names[kind, n], kind),
                "collective_seq_id": 0 if p2p else number,
                "p2p_seq_id": number if p2p else 0,
                "op_id": number,
                "profiling_name": f"{'nccl' if job.timed else 'gloo'}:{op}",
                "time_created_ns": clock(made),
                "input_sizes": [[size]],
                "output_sizes": [[size]],
                "input_dtypes": ["Float"],
                "output_dtypes": ["Float"],
                "state": "completed" if job.timed else "scheduled",
                "time_discovered_started_ns": clock(made) if job.timed else None,
                "time_discovered_completed_ns": clock(seen) if job.timed else None,
                "duration_ms": (done - made) * 1e3 if job.timed else None,
                "retired": True,
                "timeout_ms": 600_000,
                "is_p2p": bool(p2p),
                "frames": [],
            }
        )

    def play(self) -> None:
        """Run all steps."""
        job = self.job
        for _ in range(job.steps):
            now = job.rng.random() < job.often
            more = job.share * job.step / job.often if now else 0.0
            if job.stages > 1:
                self._pipeline()
            else:
                self._step(more)

    def _step(self, more: float) -> None:
        job, known = self.job, groups(self.job)
        inner = "TENSOR_MODEL_PARALLEL_GROUP"
        parts = job.calls if job.even else 1
        for call in range(job.calls):
            for r in range(job.world):
                if call < parts:
                    self.now[r] += job.work(r, job.step / parts)
                    self.now[r] += more / parts if r in job.slow else 0.0
            if job.tensor > 1:
                for n, _ in enumerate(known[inner]):
                    self.meet(inner, n, "all_gather", 512)
                for n, _ in enumerate(known["DATA_PARALLEL_GROUP"]):
                    self.meet("DATA_PARALLEL_GROUP", n, "all_reduce", 1024 + call)
            else:
                self.meet("default_pg", 0, "all_reduce", 1024 + call)

    def _pipeline(self) -> None:
        job, known = self.job, groups(self.job)
        pipes = known["PIPELINE_GROUP"]
        for n, pipe in enumerate(pipes):
            for _ in range(4):  # micro-batches
                for at, r in enumerate(pipe):
                    self.now[r] += job.work(r, job.step * job.weight[at] / 8)
                    if at + 1 < len(pipe):
                        self.send("PIPELINE_GROUP", n, at, at + 1)
            for _ in range(4):
                for at in range(len(pipe) - 1, -1, -1):
                    r = pipe[at]
                    self.now[r] += job.work(r, job.step * job.weight[at] / 8)
                    if at:
                        self.send("PIPELINE_GROUP", n, at, at - 1)
        for n, _ in enumerate(known["DATA_PARALLEL_GROUP"]):
            self.meet("DATA_PARALLEL_GROUP", n, "all_reduce", 1024)
        self.meet("default_pg", 0, "all_reduce", 1)

    def write(self, folder: Path) -> None:
        """Write one dump a rank, in a folder a host."""
        known = groups(self.job)
        for r, made in enumerate(self.entries):
            path = folder / f"gpu{r // self.job.per_host + 1:04d}"
            path.mkdir(parents=True, exist_ok=True)
            config = {
                name: {"name": name, "desc": kind, "ranks": str(known[kind][n])}
                for (kind, n), name in self.names.items()
                if r in known[kind][n]
            }
            dump = {"version": "2.10", "pg_config": config, "entries": made[-2000:]}
            (path / f"nccl_trace_rank_{r}").write_bytes(pickle.dumps(dump, 2))


def jobs(fault: str, many: int, seed: int) -> Iterator[Job]:
    """Yield jobs with this fault; the same seed draws the same ones."""
    for n in range(many):
        yield Job(random.Random(f"{seed} {fault} {n}"), fault)


def told(folder: Path) -> tuple[str, set[int], str]:
    """Return the class, whom the verdict or the fastest gain names, and the words."""
    report = analyze([str(folder)]).report
    verdict, gain = report.verdict, getattr(report, "fastest_gain", None)
    if verdict is not None:
        return verdict.slug, set(verdict.culprits.ranks), verdict.headline
    if gain is not None:
        return "gain", set(gain.ranks), gain.text
    return report.outcome, set(), ""


def main() -> int:
    """Play the jobs, and print a row for each fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", nargs="*", default=list(FAULTS))
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    print(f"{'fault':20} {'jobs':>5} {'named':>6} {'told':>5} {'innocent':>8}")
    for fault in given.fault:
        named = right = innocent = 0
        for n, job in enumerate(jobs(fault, given.jobs, given.seed)):
            with tempfile.TemporaryDirectory() as scratch:
                played = Recorder(job)
                played.play()
                played.write(Path(scratch))
                slug, ranks, words = told(Path(scratch))
            named += slug == "slow-rank" and ranks == job.slow != set()
            right += ranks == job.slow != set()
            innocent += bool(ranks - job.slow)
            if given.verbose:
                fields = ("world", "per_host", "tensor", "stages", "calls", "steps")
                drawn = " ".join(f"{f}={getattr(job, f)}" for f in fields)
                drawn += f" even={job.even:d} step={job.step} timed={job.timed:d}"
                drawn += f" sigma={job.sigma} spikes={job.spikes}"
                far = max(map(abs, job.offset))
                print(f"{fault} {n}: {drawn} off={far:.3f} want={sorted(job.slow)}")
                print(f"    got {slug} {sorted(ranks)} {words}")
        print(f"{fault:20} {given.jobs:5} {named:6} {right:5} {innocent:8}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
