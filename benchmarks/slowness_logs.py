"""Who makes a job slow, by what its ranks log of their steps? Simulated logs of jobs.

    python benchmarks/slowness_logs.py [--jobs N] [--seed N] [--fault NAME…] [--verbose]

As in `slowness.py`, jobs are drawn at random, and `asked`, `named` and `innocent` mean
the same, and `hidden` is as `shows` has it. Each rank logs what it took for its batch
and, in some formats, to compute; all of them log the same time of the step, as they
meet in it. In `leaders` one rank of
each group reads for the others, in `pipeline` stages compute for different times, in
`uneven` the sequences of ranks differ in length, step by step.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from slowness import HEAD, Row, options

FAULTS = {
    "steady": 0.0,
    "uneven": 0.0,
    "leaders": 0.0,
    "pipeline": 0.0,
    "data 5 %": 0.05,
    "data 10 %": 0.1,
    "data 30 %": 0.3,
    "compute 10 %": 0.1,
    "compute 30 %": 0.3,
    "now and then 10 %": 0.1,
    "host 10 %": 0.1,
    "host 30 %": 0.3,
}
DEEPSPEED = "[2026-11-20 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank {rank}] "
FORMATS = {
    "mmengine": "2026/11/20 12:00:00 - mmengine - INFO - Epoch(train)  [1][{step:5}/"
    "9999]  lr: 2.0000e-02  time: {whole:.4f}  data_time: {data:.4f}  loss: 0.8123",
    "detectron": "[11/20 12:00:00 d2.utils.events]:  eta: 9:29:02  iter: {step}  "
    "time: {whole:.4f}  last_time: {whole:.4f}  data_time: {data:.4f}   lr: 0.0012",
    "torchvision": "[rank{rank}]: Epoch: [0]  [{step:4}/5004]  eta: 0:41:01  lr: 0.1  "
    "time: {whole:.4f}  data: {data:.4f}  max mem: 3000",
    "imagenet": "{rank}: Epoch: [0][{step:4}/1252]\tTime {whole:6.3f} ({whole:6.3f})\t"
    "Data {data:6.3f} ({data:6.3f})\tLoss 6.7908e+00 (6.1456e+00)",
    "deepspeed": DEEPSPEED + "time (ms) | fwd_microstep: {forward_ms:.2f} | "
    "bwd_microstep: {rest_ms:.2f} | step_microstep: 1.10",
    "pairs": "INFO rank={rank} step={step} loss=1.93 data_time={data:.3f}s "
    "forward_time={forward:.3f}s step_time={whole:.3f}s",
    "megatron": "",
    "json": "",
    "csv": "{step},{rank},{data_ms:.2f},{forward_ms:.2f},{rest_ms:.2f},{whole_ms:.2f}",
}
HEADS = {"csv": "step,rank,data_ms,forward_ms,backward_ms,step_ms"}
SHOWS_DATA = set(FORMATS) - {"deepspeed"}
SHOWS_COMPUTE = {"deepspeed", "pairs", "megatron", "csv"}


@dataclass
class Job:
    """What is drawn for one job, and the parts of its steps; times in seconds."""

    rng: random.Random
    fault: str

    def __post_init__(self) -> None:
        """Draw everything, in a fixed order."""
        draw = self.rng
        self.format = draw.choice([*FORMATS])
        self.world = draw.choice((4, 8, 16, 64))
        self.per_host = draw.choice([n for n in (2, 4, 8) if n < self.world])
        self.steps = draw.choice((8, 30, 80, 200))
        self.step = draw.choice((0.2, 1.0, 5.0))
        self.data = draw.choice((0.005, 0.03, 0.1))  # share of a step
        self.forward = draw.uniform(0.25, 0.4)
        self.spread = draw.choice((0.1, 0.3, 0.6))  # of loading
        self.sigma = (
            0.25 if self.fault == "uneven" else draw.choice((0.005, 0.02, 0.05))
        )
        self.spikes = draw.choice((0.0, 0.02))
        self.share = FAULTS[self.fault]
        self.often = draw.uniform(0.2, 0.5) if "now" in self.fault else 1.0
        first = draw.randrange(self.world)
        self.slow = {first} if self.share else set()
        if "host" in self.fault:
            first -= first % self.per_host
            self.slow = set(range(first, first + self.per_host))
        self.stages = draw.choice((2, 4))
        self.weight = [draw.uniform(0.8, 1.3) for _ in range(self.stages)]

    def own(self, rank: int) -> tuple[float, float, float]:
        """Draw what a rank takes for its batch, forward, and what it is slower."""
        draw = self.rng
        data = self.step * self.data * draw.lognormvariate(0, self.spread)
        data *= draw.uniform(2, 5) if draw.random() < self.spikes else 1
        work = self.step * draw.lognormvariate(0, self.sigma)
        if self.fault == "leaders":
            data = 5 * data if rank % 4 == 0 else 0.0005 * self.step
        if self.fault == "pipeline":
            work *= self.weight[rank * self.stages // self.world]
        slower = self.share * self.step / self.often if rank in self.slow else 0.0
        return data, work, slower if draw.random() < self.often else 0.0

    def play(self) -> tuple[list[list[dict[str, float]]], float]:
        """Return the parts of each rank in each step, and the share that is lost."""
        told, lost, total = [], 0.0, 0.0
        for _ in range(self.steps):
            each = [self.own(rank) for rank in range(self.world)]
            usual = max(data + work for data, work, _ in each)
            whole = max(sum(parts) for parts in each)
            lost, total, row = lost + whole - usual, total + whole, []
            for data, work, slower in each:
                computes = "compute" in self.fault or self.format not in SHOWS_DATA
                load = data + (0 if computes else slower)
                forward = work * self.forward + (slower if computes else 0)
                parts = {"whole": 1.05 * whole, "data": load, "forward": forward}
                row.append(parts | {"rest": 1.05 * whole - load - forward})
            told.append(row)
        return told, lost / total

    def write(self, told: list[list[dict[str, float]]], folder: Path) -> None:
        """Write a file a rank, with its host where its path tells it, or one of all."""
        lines: dict[int, list[str]] = {rank: [] for rank in range(self.world)}
        if self.format == "megatron":
            (folder / "job.log").write_text("".join(map(_listed, range(9999), told)))
            return
        for step, row in enumerate(told):
            for rank, parts in enumerate(row):
                named = {"rank": rank, "step": step, **parts}
                named |= {f"{part}_ms": 1e3 * took for part, took in parts.items()}
                if self.format == "json":
                    host = f"gpu{rank // self.per_host:04}"
                    keys = {"rank": rank, "host": host, "step": step}
                    keys |= {
                        "dataloader_ms": named["data_ms"],
                        "step_ms": named["whole_ms"],
                    }
                    lines[rank].append(json.dumps(keys))
                else:
                    lines[rank].append(FORMATS[self.format].format(**named))
        for rank, said in lines.items():
            at = folder / f"gpu{rank // self.per_host:04}" / f"rank_{rank}.log"
            at.parent.mkdir(exist_ok=True)
            head = [HEADS[self.format]] if self.format in HEADS else []
            at.write_text("\n".join([*head, *said]) + "\n")


def _listed(step: int, row: list[dict[str, float]]) -> str:
    """Return a step as Megatron prints it with `--timing-log-option all`."""
    whole = 1e3 * max(parts["whole"] for parts in row)
    head = f" [2026-11-20 12:00:00] iteration {step:8}/  500000 | elapsed time per "
    lines = [f"{head}iteration (ms): {whole:.1f} | global batch size:    64 |"]
    lines.append("times across ranks (ms):")
    for name, timer in (("forward", "forward-compute"), ("data", "batch-generator")):
        lines.append(f"  {timer}:")
        for rank, parts in enumerate(row):
            took = parts[name] + (parts["data"] if name == "forward" else 0.0)
            lines.append(f"     rank {rank:2}: {1e3 * took:.2f}")
    return "\n".join(lines) + "\n"


def shows(job: Job) -> bool:
    """Whether the logs can tell who is slow: not which ranks are stages, or a host.

    Ranks at either end, or half of them, that compute longer may be stages of a
    pipeline; a log without hosts does not tell that some ranks are all of one.
    """
    if len(job.slow) > 1 and job.format == "megatron":
        return False
    if "compute" not in job.fault and job.format in SHOWS_DATA:
        return True
    at_end = not {0, job.world - 1}.isdisjoint(job.slow)
    is_half = 2 * len(job.slow) >= job.world
    return job.format in SHOWS_COMPUTE and not at_end and not is_half


def main() -> int:
    """Play the jobs, and print a row for each fault."""
    given = options(__doc__ or "", FAULTS, 20).parse_args()
    print(HEAD)
    for fault in given.fault:
        row = Row(fault, FAULTS[fault])
        for n in range(given.jobs):
            job = Job(random.Random(f"{given.seed} {fault} {n}"), fault)
            told, lost = job.play()
            with tempfile.TemporaryDirectory() as scratch:
                job.write(told, Path(scratch))
                said = row.add(Path(scratch), job.slow, lost, seen=shows(job))
            if given.verbose:
                fields = ("format", "world", "per_host", "steps", "step", "data")
                drawn = " ".join(f"{f}={getattr(job, f)}" for f in fields)
                drawn += f" spread={job.spread} sigma={job.sigma} spikes={job.spikes}"
                print(f"{fault} {n}: {drawn} lost={lost:.1%}\n{said}")
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
