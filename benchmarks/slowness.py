"""Who makes a job slow? Simulated histories of jobs that run, and what is said of them.

    python benchmarks/slowness.py [--jobs N] [--seed N] [--fault NAME…] [--verbose]

Each job is drawn at random: its layout, its calls a step, how steady its ranks are, how
far the clocks of its hosts are apart and drift, what its dumps hold. A rank, or all of
a host, takes longer by a share of a step; or nobody does. The distributions know
nothing of the rule that is tested.

`asked` counts the jobs in which somebody has to be named: the slow take longer by 10 %
of a step at least, and half of that or more is lost to the job, measured against the
same job played without the fault. What others do not wait for costs nothing. `hidden`
counts the jobs in which as much is lost and the evidence cannot tell by whom (see
`shows`). `named` counts those asked in which the right ranks and no others are told,
`class` those of them in which that is the verdict: where dumps do not show that the job
still runs, it is the fastest gain. `told` counts all jobs in which the right ranks are
told, and `innocent` those in which any others are, or are accused by any verdict.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncclforensics.analysis import analyze

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

START_NS = 1_800_000_000_000_000_000
POLL_S = 0.1  # how often the watchdog looks
INSPECTED = {"all_reduce": "AllReduce", "all_gather": "AllGather"}
AGREE = 10  # times more than other clocks are apart, as each is half of it off
ASKED = 0.1  # share of a step from which on somebody has to be named
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
    """Plays a job, and keeps what each rank's recorder would hold.

    `share` is by how much its slow ranks are slower.
    """

    job: Job
    share: float

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

    def play(self) -> float:
        """Run all steps; returns the seconds they took."""
        job = self.job
        for _ in range(job.steps):
            now = job.rng.random() < job.often
            more = self.share * job.step / job.often if now else 0.0
            if job.stages > 1:
                self._pipeline()
            else:
                self._step(more)
        return max(self.now)

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

    def inspected(self, folder: Path) -> None:
        """Write what NCCL's Inspector would: a line for each collective of a process.

        The lines are rendered from `ext-profiler/inspector/inspector.cc`, format v4.0.
        """
        known = groups(self.job)
        for r, made in enumerate(self.entries):
            host, counted = f"gpu{r // self.job.per_host + 1:04d}", Counter[object]()
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{host}-pid{4000 + r}.log").open("w") as log:
                for entry in made:
                    if entry["is_p2p"] or entry["duration_ms"] is None:
                        continue
                    name, kind = entry["process_group"]
                    (members,) = (
                        known[kind][n]
                        for (of, n), own in self.names.items()
                        if (of, own) == (kind, name)
                    )
                    op = INSPECTED[entry["profiling_name"].partition(":")[2]]
                    counted[name, op] += 1
                    head = {
                        "id": f"0x7f8c496ae9f{int(name):03x}",
                        "rank": members.index(r),
                        "n_ranks": len(members),
                        "nnodes": len({m // self.job.per_host for m in members}),
                    }
                    about = {
                        "inspector_output_format_version": "v4.0",
                        "git_rev": "",
                        "rec_mechanism": "nccl_profiler_interface",
                        "dump_timestamp_us": entry["time_discovered_completed_ns"]
                        // 1000,
                        "hostname": host,
                        "pid": 4000 + r,
                    }
                    took = round(entry["duration_ms"] * 1e3)
                    perf = {
                        "coll": op,
                        "coll_sn": counted[name, op],
                        "coll_msg_size_bytes": 4 * entry["input_sizes"][0][0],
                        "coll_exec_time_us": took,
                        "coll_timing_source": "kernel_gpu",
                    }
                    line = {"header": head, "metadata": about, "coll_perf": perf}
                    log.write(json.dumps(line, separators=(",", ":")) + "\n")


def jobs(fault: str, many: int, seed: int) -> Iterator[Job]:
    """Yield jobs with this fault; the same seed draws the same ones."""
    for n in range(many):
        yield Job(random.Random(f"{seed} {fault} {n}"), fault)


@dataclass
class Told:
    """What a report says: `ranks` are slow, as a class or as fastest gain.

    `accused` are the culprits of whatever verdict.
    """

    slug: str
    ranks: set[int]
    accused: set[int]
    words: str


def told(folder: Path) -> Told:
    """Analyze a folder of dumps."""
    report = analyze([str(folder)]).report
    verdict, gain = report.verdict, report.fastest_gain
    accused = set(verdict.culprits.ranks) if verdict else set()
    words = "; ".join(
        [*([verdict.headline] if verdict else []), *([gain.text] if gain else [])]
    )
    slug = verdict.slug if verdict else "gain" if gain else report.outcome
    slow = accused if slug == "slow-rank" else set(gain.ranks) if gain else set()
    return Told(slug, slow, accused, words)


def shows(job: Any, offset: list[float], delay: float, *, timed: bool) -> bool:
    """Whether dumps can tell that the slow ranks are slow, and not a clock that is off.

    `delay` is by how many seconds they come later to each call alike; 0 if not to each.
    GPU times need no clock, and a peer with the same clock tells. Else a whole host
    comes later by the same time to every call, as if its clock were ahead: at least
    three others have to agree far better. On Gloo, which records no messages, half of
    the ranks may as well be a stage of pipelines.
    """
    hosts = {rank // job.per_host for rank in job.slow}
    if timed or not hosts or len(job.slow) < len(hosts) * job.per_host:
        return True
    if 2 * len(job.slow) >= job.world:
        return False
    others = [off for host, off in enumerate(offset) if host not in hosts]
    agree = max(others) - min(others) < delay / AGREE if len(others) > 2 else False
    return not delay or agree


@dataclass
class Row:
    """What came out of the jobs with one fault, by `share` of a step."""

    fault: str
    share: float
    jobs: int = 0
    asked: int = 0
    hidden: int = 0
    named: int = 0
    as_class: int = 0
    told: int = 0
    innocent: int = 0

    def add(self, folder: Path, slow: set[int], lost: float, *, seen: bool) -> str:
        """Analyze a job that lost a share of a step; returns in words what was said."""
        said = told(folder)
        costs = self.share >= ASKED and lost >= self.share / 2
        asked = costs and seen
        right = said.ranks == slow != set()
        self.jobs += 1
        self.asked += asked
        self.hidden += costs and not seen
        self.named += asked and right
        self.as_class += asked and right and said.slug == "slow-rank"
        self.told += right
        self.innocent += bool((said.ranks | said.accused) - slow)
        want = "asked" if asked else "hidden" if costs else "not asked"
        got = f"got {said.slug} {sorted(said.ranks)} {said.words}"
        return f"    {want} {sorted(slow)} {got}"

    def __str__(self) -> str:
        """Return the row, under `HEAD`."""
        rate = f"{self.named / self.asked:.0%}" if self.asked else ""
        numbers = (
            self.jobs,
            self.hidden,
            self.asked,
            self.named,
            rate,
            self.as_class,
            self.told,
            self.innocent,
        )
        return f"{self.fault:18}" + "".join(f"{number:>9}" for number in numbers)


HEAD = f"{'fault':18}" + "".join(
    f"{name:>9}"
    for name in ("jobs", "hidden", "asked", "named", "", "class", "told", "innocent")
)


def options(about: str, faults: Iterable[str], many: int) -> argparse.ArgumentParser:
    """Return what each of these benchmarks is told: which jobs, and how many."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=many)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", nargs="*", default=list(faults))
    parser.add_argument("--verbose", action="store_true")
    return parser


def main() -> int:
    """Play the jobs, and print a row for each fault."""
    parser = options(__doc__, FAULTS, 20)
    parser.add_argument("--inspector", action="store_true", help="logs, no dumps")
    given = parser.parse_args()
    print(HEAD)
    for fault in given.fault:
        row = Row(fault, FAULTS[fault])
        pairs = zip(*(jobs(fault, given.jobs, given.seed) for _ in "ab"), strict=True)
        for n, (job, twin) in enumerate(pairs):
            job.timed = twin.timed = job.timed or given.inspector
            whole, usual = Recorder(job, job.share), Recorder(twin, 0.0)
            # work before the first call alone, or now and then, is no clock
            each = (job.calls == 1 and job.tensor == 1) or job.even
            each &= job.often == 1
            delay = each * job.share * job.step / (job.calls if job.even else 1)
            seen = shows(job, job.offset, delay, timed=job.timed)
            lost = (whole.play() - usual.play()) / (job.steps * job.step)
            with tempfile.TemporaryDirectory() as scratch:
                (whole.inspected if given.inspector else whole.write)(Path(scratch))
                said = row.add(Path(scratch), job.slow, lost, seen=seen)
            if given.verbose:
                fields = ("world", "per_host", "tensor", "stages", "calls", "steps")
                drawn = " ".join(f"{f}={getattr(job, f)}" for f in fields)
                drawn += f" even={job.even:d} step={job.step} timed={job.timed:d}"
                drawn += f" sigma={job.sigma} spikes={job.spikes}"
                drawn += f" transfer={job.transfer / job.step}"
                far = max(map(abs, job.offset))
                print(f"{fault} {n}: {drawn} off={far:.3f} lost={lost:.1%}")
                print(said)
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
