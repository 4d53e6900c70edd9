"""Who makes a job slow, where calls are asynchronous? Simulated streams, and a verdict.

    python benchmarks/slowness_streams.py [--jobs N] [--seed N] [--fault …] [--ended]

Beside `slowness.py`, in which a call holds its rank until it ends. Here a rank has a
CPU, which runs ahead, and a GPU with a stream for its work and one for its calls: what
the CPU records as the time of a call is no time of its GPU, and lateness shows where
the CPU waits. Jobs are data parallel, sharded, tensor parallel or pipelines; ranks are
slow on the GPU, or before a step on the CPU. They are dumped while they run, each rank
at a moment of its own, so that calls are open; `--ended` dumps them at their end.

The columns are those of `slowness.py`. Hidden, besides, is a slow GPU in NCCL's dumps
without TORCH_NCCL_ENABLE_TIMING: they have the times of the CPU alone, which does not
wait for it. So is a rank whose stage has no other, with whom it could be compared, and
a stage of a pipeline on Gloo, which records no messages: all stages before it are as
late.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slowness import HEAD, Row, options, shows

START = 1_800_000_000.0
FAULTS = {
    "steady": 0.0,
    "uneven": 0.0,
    "pipeline": 0.0,
    "rank 0 logs": 0.0,
    "gpu 5 %": 0.05,
    "gpu 10 %": 0.1,
    "gpu 30 %": 0.3,
    "cpu 10 %": 0.1,
    "cpu 30 %": 0.3,
    "host 10 %": 0.1,
    "pipeline 10 %": 0.1,
    "pipeline 30 %": 0.3,
}


@dataclass
class Rank:
    """One rank: when its CPU and its streams are free, and what it recorded."""

    cpu: float = 0.0
    work: float = 0.0
    comm: dict[str, float] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)


class Job:
    """What is drawn for one job; times in seconds."""

    def __init__(self, fault: str, seed: str) -> None:
        """Draw everything but the jitter, which `play` draws."""
        draw = random.Random(seed)
        self.fault, self.seed, self.share = fault, seed, FAULTS[fault]
        self.backend = draw.choice(("timed", "timed", "nccl", "gloo"))
        self.world = draw.choice((4, 8, 16, 32))
        shapes = ("ddp", "ddp", "fsdp", "tp")
        shape = "pp" if "pipeline" in fault else draw.choice(shapes)
        self.shape = "ddp" if self.backend == "gloo" and shape != "pp" else shape
        self.width = draw.choice((2, 4)) if shape in ("tp", "pp") else 1
        self.per_host = draw.choice([n for n in (2, 4, 8) if n < self.world])
        self.step = draw.choice((0.2, 0.6, 2.0))
        self.calls = draw.choice((2, 4, 8))
        self.steps = min(draw.choice((60, 120, 240)), 1500 // (3 * self.calls))
        self.syncs = draw.choice((1, 1, 1, 10, 0)) if self.backend != "gloo" else 1
        if "cpu" in fault:
            self.syncs = 1  # a CPU that runs ahead hides what it takes longer
        self.sigma = 0.2 if fault == "uneven" else draw.choice((0.005, 0.02, 0.04))
        self.spikes = draw.choice((0.0, 0.01, 0.02))
        self.transfer = self.step * draw.choice((0.02, 0.1, 0.2))
        hosts = self.world // self.per_host
        far = draw.choice((0.0, 2e-4, 5e-3, 0.3))
        self.off = [draw.gauss(0, far) for _ in range(hosts)]
        self.drift = [draw.gauss(0, draw.choice((0, 1e-6, 2e-5))) for _ in range(hosts)]
        self.bias = [draw.gauss(0, 0.006) for _ in range(self.world)]
        self.weight = [draw.uniform(0.85, 1.15) for _ in range(self.width)]
        self.spread = draw.choice((0.01, 0.3, 1.5))  # of the moments of the dumps
        self.keeps_mtime = draw.random() < 0.6
        first = draw.randrange(hosts) * self.per_host
        host = set(range(first, first + self.per_host))
        one = {draw.randrange(self.world)}
        self.links: dict[str, float] = {}  # by what the transfers of a group are slower
        self.slow = (host if "host" in fault else one) if self.share else set()
        self.alike = draw.random() < 0.3  # layers or buckets of one size

    def groups(self) -> dict[str, tuple[str, list[int]]]:
        """Return name, description and members of each group."""
        ranks, many = range(self.world), self.width
        if many == 1:
            return {"0": ("default_pg", [*ranks])}
        inner = (
            "TENSOR_MODEL_PARALLEL_GROUP" if self.shape == "tp" else "PIPELINE_GROUP"
        )
        found = {"0": ("default_pg", [*ranks])}
        for n in range(self.world // many):
            found[f"i{n}"] = (inner, [*ranks[n * many : (n + 1) * many]])
        for n in range(many):
            found[f"d{n}"] = ("DATA_PARALLEL_GROUP", [*ranks[n::many]])
        return found


class Play:
    """Plays a job; `share` is by how much its slow ranks are slower."""

    def __init__(self, job: Job, share: float) -> None:
        """Begin with all ranks at zero."""
        self.job, self.share = job, share
        self.rng = [random.Random(f"{job.seed} {r}") for r in range(job.world)]
        self.ranks = [Rank() for _ in self.rng]
        self.seq: dict[tuple[str, bool], int] = {}
        self.groups = job.groups()
        self.ends: list[float] = []

    def compute(self, r: int, seconds: float) -> None:
        """Let a rank's GPU work for what usually takes `seconds`."""
        job, one, draw = self.job, self.ranks[r], self.rng[r]
        took = seconds * (1 + job.bias[r]) * draw.lognormvariate(0, job.sigma)
        if "cpu" not in job.fault and r in job.slow:
            took += seconds * self.share
        one.work = max(one.work, one.cpu) + took
        if job.backend == "gloo":
            one.cpu = one.work

    def meet(
        self, group: str, op: str, size: int, *, joined: bool, part: float
    ) -> None:
        """Let a group call a collective; `joined` makes the work wait for its end."""
        job, members = self.job, self.groups[group][1]
        ready = {}
        for r in members:
            one = self.ranks[r]
            one.cpu += self.rng[r].uniform(2e-5, 2e-4)
            ready[r] = max(one.cpu, one.work, one.comm.get(group, 0.0))
        done = max(ready.values()) + job.transfer * part * job.links.get(group, 1.0)
        for r in members:
            one = self.ranks[r]
            self._note(r, group, op, size, one.cpu, ready[r], done)
            one.comm[group] = done
            one.work = max(one.work, done) if joined else one.work
            one.cpu = done if job.backend == "gloo" else one.cpu

    def send(self, group: str, src: int, dst: int) -> None:
        """Let a member send to another, whose work waits for it."""
        members = self.groups[group][1]
        a, b = (self.ranks[members[n]] for n in (src, dst))
        key = f"{group} {src} {dst}"
        starts = [max(one.cpu, one.work, one.comm.get(key, 0.0)) for one in (a, b)]
        done = max(starts) + 1e-3
        for one, r, op, start in (
            (a, members[src], f"send {src}->{dst}", starts[0]),
            (b, members[dst], f"recv {dst}<-{src}", starts[1]),
        ):
            one.cpu += 5e-5
            self._note(r, group, op, 4096, one.cpu, start, done, p2p=True)
            one.comm[key] = done
        b.work = max(b.work, done)
        if self.job.backend == "gloo":
            a.cpu, b.cpu = max(a.cpu, starts[0]), max(b.cpu, done)

    def _note(  # type: ignore[no-untyped-def]
        self, r, group, op, size, made, start, done, p2p=False
    ) -> None:
        if p2p and self.job.backend == "gloo":
            return  # Gloo records no messages
        calls = self.ranks[r].calls
        key = (f"{group} {r}", p2p)
        self.seq[key] = self.seq.get(key, 0) + 1
        calls.append(
            {
                "record_id": len(calls),
                "pg_id": [*self.groups].index(group),
                "process_group": (group, self.groups[group][0]),
                "collective_seq_id": 0 if p2p else self.seq[key],
                "p2p_seq_id": self.seq[key] if p2p else 0,
                "op_id": len(calls),
                "profiling_name": f"{self.job.backend.replace('timed', 'nccl')}:{op}",
                "at": (made, start, done),
                "input_sizes": [[1024 if self.job.alike else size]],
                "output_sizes": [[1024 if self.job.alike else size]],
                "input_dtypes": ["Float"],
                "output_dtypes": ["Float"],
                "timeout_ms": 600_000,
                "is_p2p": p2p,
                "frames": [],
            }
        )

    def play(self) -> float:
        """Run all steps; returns the seconds they took."""
        job = self.job
        for step in range(job.steps):
            for r, one in enumerate(self.ranks):
                draw = self.rng[r]
                load = 0.01 * job.step * draw.lognormvariate(0, 0.5)
                if draw.random() < job.spikes:
                    load += job.step * draw.uniform(0.2, 0.8)
                if "cpu" in job.fault and r in job.slow:
                    load += self.share * job.step
                if job.fault == "rank 0 logs" and r == 0:
                    load += job.step * (1.5 if step % 25 == 24 else 0.004)
                one.cpu += load
            getattr(self, job.shape)()
            for r, one in enumerate(self.ranks):
                busy = max(one.work, *one.comm.values())
                if job.syncs and step % job.syncs == 0:
                    one.cpu = max(one.cpu, busy) + self.rng[r].uniform(0, 2e-4)
                # a CPU is a step or two ahead at most, until its launch queue is full
                one.cpu = max(one.cpu, busy - 1.5 * job.step)
            self.ends.append(max(one.work for one in self.ranks))
        return self.ends[-1]

    def ddp(self) -> None:
        """Forward, then backward with a gradient bucket each part."""
        job = self.job
        every = range(job.world)
        for r in every:
            self.compute(r, job.step / 3)
        for n in range(job.calls):
            for r in every:
                self.compute(r, job.step * 2 / 3 / job.calls)
            last = n + 1 == job.calls
            self.meet("0", "all_reduce", 999 + n, joined=last, part=1 / job.calls)

    def fsdp(self) -> None:
        """Gather each layer before its work, and scatter its gradients."""
        job = self.job
        part = 1 / (3 * job.calls)
        for back in (False, True):
            for n in range(job.calls):
                self.meet("0", "_all_gather_base", 700 + n, joined=True, part=part)
                for r in range(job.world):
                    self.compute(r, job.step / job.calls * (2 / 3 if back else 1 / 3))
                if back:
                    op = "_reduce_scatter_base"
                    self.meet("0", op, 700 + n, joined=False, part=part)

    def tp(self) -> None:
        """Reduce after each layer within the tensor group, then over the replicas."""
        job = self.job
        inner = [g for g in self.groups if g[0] == "i"]
        for _ in range(job.calls):
            for r in range(job.world):
                self.compute(r, job.step / job.calls)
            for g in inner:
                self.meet(g, "all_reduce", 512, joined=True, part=0.3 / job.calls)
        for g in (g for g in self.groups if g[0] == "d"):
            self.meet(g, "all_reduce", 4096, joined=True, part=0.7)

    def pp(self) -> None:
        """Micro-batches through the stages and back, then over the replicas."""
        job = self.job
        many, wide = 2 * job.width, job.width
        for g in (g for g in self.groups if g[0] == "i"):
            pipe = self.groups[g][1]
            for back in (False, True):
                way = range(wide - 1, -1, -1) if back else range(wide)
                for _ in range(many):
                    for at in way:
                        took = job.step / many * job.weight[at]
                        self.compute(pipe[at], took * (2 / 3 if back else 1 / 3))
                        to = at - 1 if back else at + 1
                        if 0 <= to < wide:
                            self.send(g, at, to)
        for g in (g for g in self.groups if g[0] == "d"):
            self.meet(g, "all_reduce", 4096, joined=True, part=0.8)
        self.meet("0", "all_reduce", 1, joined=True, part=0.05)

    def write(self, folder: Path, *, ended: bool) -> None:
        """Write one dump a rank, in a folder a host."""
        job = self.job
        draw = random.Random(f"{job.seed} dump")
        moment = self.ends[-3] if not ended else self.ends[-1] + 60.0
        for r, one in enumerate(self.ranks):
            host = r // job.per_host
            now = moment + draw.uniform(0, job.spread)
            entries = [self._entry(c, host, now) for c in one.calls if c["at"][0] < now]
            path = folder / f"gpu{host + 1:04d}"
            path.mkdir(parents=True, exist_ok=True)
            config = {
                name: {"name": name, "desc": desc, "ranks": str(members)}
                for name, (desc, members) in self.groups.items()
                if r in members
            }
            dump = {"version": "2.10", "pg_config": config, "entries": entries[-2000:]}
            file = path / f"nccl_trace_rank_{r}"
            file.write_bytes(pickle.dumps(dump, 2))
            at = START + now + job.off[host] if job.keeps_mtime else START + 7200
            os.utime(file, (at, at))

    def _entry(self, call: dict[str, Any], host: int, now: float) -> dict[str, Any]:
        job = self.job
        made, start, done = call["at"]
        poll = 0.1
        seen = (done // poll + 1) * poll  # the watchdog looks ten times a second

        def clock(t: float) -> int:
            return int((START + t * (1 + job.drift[host]) + job.off[host]) * 1e9)

        told = {k: v for k, v in call.items() if k != "at"}
        over, nccl, timed = done < now, job.backend != "gloo", job.backend == "timed"
        state = "completed" if over else "started" if start < now else "scheduled"
        state = state if nccl and (timed or over) else "scheduled"
        return told | {
            "time_created_ns": clock(made),
            "state": state,
            "time_discovered_started_ns": clock(min(seen, start + poll))
            if timed and start < now
            else None,
            "time_discovered_completed_ns": clock(seen) if nccl and over else None,
            "duration_ms": (done - start) * 1e3 if timed and over else None,
            "retired": seen < now if nccl else over,
        }


def main() -> int:
    """Play the jobs, and print a row for each fault."""
    parser = options(__doc__, FAULTS, 10)
    parser.add_argument("--ended", action="store_true")
    given = parser.parse_args()
    print(HEAD)
    for fault in given.fault:
        row = Row(fault, FAULTS[fault])
        for n in range(given.jobs):
            job = Job(fault, f"{given.seed} {fault} {n}")
            whole, usual = Play(job, job.share), Play(job, 0.0)
            lost = (whole.play() - usual.play()) / (job.steps * job.step)
            delay = job.share * job.step / job.calls
            seen = job.backend != "nccl" or "cpu" in fault
            if job.shape == "pp":
                seen &= job.backend != "gloo" and job.width < job.world
            seen &= shows(job, job.off, delay, timed=job.backend != "gloo")
            with tempfile.TemporaryDirectory() as scratch:
                whole.write(Path(scratch), ended=given.ended)
                said = row.add(Path(scratch), job.slow, lost, seen=seen)
            if given.verbose:
                fields = ("shape", "backend", "world", "per_host", "width", "calls")
                fields += ("steps", "step", "syncs", "sigma", "spikes", "spread")
                drawn = " ".join(f"{f}={getattr(job, f)}" for f in fields)
                drawn += (
                    f" transfer={job.transfer / job.step} mtime={job.keeps_mtime:d}"
                )
                far = max(map(abs, job.off))
                print(f"{fault} {n}: {drawn} off={far:.4f} lost={lost:.1%}")
                print(said)
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
