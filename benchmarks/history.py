"""Is a store of a million incidents answered at once, and does it survive its writers?

    python benchmarks/history.py [--incidents N] [--hosts N] [--repeat N]
    python benchmarks/history.py --writers 32 [--each N] [--seconds N] [--at FOLDER]
        [--beside CHECKOUT]

The first form writes a store of a fleet and asks it: whole processes, from start to
end, beside a process that reads the same parquet files with polars. Of the incidents
one in ten was kept twice, and the last thousand have a file of their own. Seconds are
medians.

The second form lets processes keep incidents in one folder at once, packs and reads it
meanwhile, kills writers at random, and counts: what was acknowledged and is not there,
what is there twice, and what a reader saw by half. Half of the writers may be of
another release, which packs in its own format.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import flight_recorder
from installed import compiled
from ncclforensics.history import columns, manifest, packing, store
from ncclforensics.history.manifest import Manifest
from ncclforensics.history.record import Record

OURS = [sys.executable, "-m", "ncclforensics", "history"]
CLASSES = {
    "gpu-fault": ("hardware", "Xid 79 on GPU 3: it has fallen off the bus"),
    "ib-error": ("network", "link of mlx5_2 went down"),
    "missing-rank": ("unknown", "rank 17 never joined all_reduce SeqNum=5"),
    "crashed-rank": ("unknown", "rank 3 ended: ValueError: loss is nan"),
    "gpu-oom": ("user-code", "rank 1 ran out of GPU memory"),
}
NEW = 1000  # records with a file of their own
YEARS = 3


def fleet(incidents: int, hosts: int, seed: int = 1) -> pl.DataFrame:
    """Return the rows of a fleet: jobs of 1 to 256 hosts, one of which is named."""
    rng = np.random.default_rng(seed)
    names = np.array([f"gpu{number:05}" for number in range(hosts)])
    size = np.minimum(rng.geometric(1 / 12, incidents), min(256, hosts))
    first = (rng.random(incidents) * (hosts - size)).astype(np.int64)
    start = np.repeat(np.cumsum(size) - size, size)
    flat = np.repeat(first, size) + np.arange(size.sum()) - start
    ends = pl.Series(np.cumsum(size))
    kinds = rng.choice(len(CLASSES), incidents)
    culprit = names[first + (rng.random(incidents) * size).astype(np.int64)]
    culprit = np.where(rng.random(incidents) < 0.002, names[7], culprit)
    t = 1_700_000_000 * 10**9 + rng.integers(0, YEARS * 365 * 86_400, incidents) * 10**9
    span = (rng.exponential(20, incidents) * 3600e9).astype(np.int64)
    of = [*CLASSES]
    told = pl.DataFrame(
        {
            "row": rng.integers(0, 2**63, incidents),
            "id": np.arange(incidents),
            "evidence": np.arange(incidents),
            "same": rng.integers(0, incidents // 20 + 1, incidents),
            "t": t,
            "class": [of[kind] for kind in kinds],
            "domain": [CLASSES[of[kind]][0] for kind in kinds],
            "headline": [CLASSES[of[kind]][1] for kind in kinds],
            "hosts": culprit,
            "began": t - span,
            "job": rng.integers(0, incidents // 3 + 1, incidents),
            "user": rng.integers(0, 300, incidents),
            "image": rng.integers(1, 40, incidents),
        }
    )
    nodes = pl.DataFrame(
        {"at": np.repeat(np.arange(incidents), size), "h": names[flat]}
    )
    assert len(ends) == incidents
    return told.with_columns(
        nodes.group_by("at", maintain_order=True).agg("h")["h"].alias("nodes"),
        pl.concat_list("hosts"),
        pl.format("GPU {}", pl.col("row") % 8).alias("ranks"),
        pl.concat_list(pl.format("{}", pl.col("row") % 8)).alias("devices"),
        kept=pl.col("t"),
        ended=pl.col("t"),
        world_size=8 * pl.Series(size),
        outcome=pl.lit("failure"),
        confidence=pl.lit("likely"),
        job=pl.format("{}", "job"),
        user=pl.format("user{}", "user"),
        image=pl.format("train:24.{}", "image"),
        node_hours=pl.Series(span / 3600e9 * size),
        replaces=pl.lit([], columns.SCHEMA["replaces"]),
    )


def written(root: Path, incidents: int, hosts: int) -> list[Path]:
    """Write a store in parts as packing leaves them; returns their files."""
    for name in (manifest.NEW, manifest.PARTS, manifest.LOG):
        (root / name).mkdir(parents=True)
    rows = fleet(incidents, hosts)
    missing = [c for c in columns.SCHEMA if c not in rows.columns]
    rows = rows.with_columns(pl.lit(None).alias(c) for c in missing)
    rows = rows.select(pl.col(c).cast(k) for c, k in columns.SCHEMA.items())
    again = rows.sample(incidents // 10, seed=2).with_columns(
        pl.concat_list("row").alias("replaces"),
        pl.col("row") + 2**63,
        (pl.col("kept") + pl.duration(days=1)).cast(columns.TIME),
    )
    parts = []
    for part in (rows, again):
        packed = part.sort("t", "row")
        fresh = columns.hours(packed.filter(pl.col("replaces").list.len() == 0))
        parts.append(packing.write(root, packed, fresh))
    assert manifest.commit(root, 1, Manifest(tuple(parts)))
    for number in range(NEW):
        store.keep(root, _record(number))
    return [root / manifest.PARTS / part.name for part in parts]


def _record(number: int) -> Record:
    """Return a record of its own for each number."""
    t = 1_800_000_000 * 10**9 + number * 10**9
    told = {"id": f"{2**62 + number:016x}", "evidence": f"{2**62 + number:016x}"}
    return Record(
        **told,
        same="00000000000000aa",
        kept=t,
        t=t,
        outcome="failure",
        slug="gpu-fault",
        domain="hardware",
        headline="Xid 79 on GPU 3: it has fallen off the bus",
        hosts=("gpu00007",),
        nodes=("gpu00007", "gpu00008"),
        began=t - 3600 * 10**9,
        ended=t,
    )


REFERENCE = "import sys, polars as pl\nfor file in sys.argv[1:]: pl.read_parquet(file)"


def asked(options: argparse.Namespace) -> None:
    """Print a row per question to a store, with its ratio to plain polars."""
    compiled()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "store")
        parts = written(root, options.incidents, options.hosts)
        mib = sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) / 2**20
        questions = {
            "polars reads the parquet": [
                sys.executable,
                "-c",
                REFERENCE,
                *map(str, parts),
            ],
            "history": [*OURS, str(root)],
            "--by host": [*OURS, str(root), "--by", "host"],
            "--by gpu": [*OURS, str(root), "--by", "gpu"],
            "--by user": [*OURS, str(root), "--by", "user"],
            "--by class": [*OURS, str(root), "--by", "class"],
            "--by image": [*OURS, str(root), "--by", "image"],
            "--by failure": [*OURS, str(root), "--by", "failure"],
            "--node gpu00007": [*OURS, str(root), "--node", "gpu00007"],
        }
        print(
            f"{options.incidents:,} incidents, {options.hosts:,} hosts, {mib:.0f} MiB"
        )
        print(
            f"{'question':26} {'s':>6} {'CPU s':>7} {'ratio':>6} {'CPU':>6} {'exit':>5}"
        )
        base = None
        for name, command in questions.items():
            runs = [flight_recorder.measured(command) for _ in range(options.repeat)]
            seconds = statistics.median(run.seconds for run in runs)
            cpu = statistics.median(run.cpu for run in runs)
            base = base or (seconds, cpu)
            exits = max(run.status for run in runs)
            print(
                f"{name:26} {seconds:6.2f} {cpu:7.2f} {seconds / base[0]:6.2f}"
                f" {cpu / base[1]:6.2f} {exits:5}",
                flush=True,
            )


TREE = Path(__file__).parents[1]
WRITER = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/benchmarks"]
from history import _record
from ncclforensics.history import packing, store
root, first, many, at_least = Path(sys.argv[2]), *map(int, sys.argv[3:])
for number in range(first, first + many):
    store.keep(root, _record(number))
    print(number, flush=True)
    packing.pack(root, at_least=at_least, grace=2)
"""


def besieged(options: argparse.Namespace) -> None:
    """Let writers at one folder, kill them at random, and count what is wrong."""
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=options.at) as scratch:
        root = Path(scratch, "store")
        acknowledged: set[int] = set()
        writers: dict[subprocess.Popen[str], Path] = {}
        first = killed = torn = reads = 0
        until = time.monotonic() + options.seconds
        while time.monotonic() < until or writers:
            while len(writers) < options.writers and time.monotonic() < until:
                log = Path(scratch, f"{first}.log")
                numbers = [str(n) for n in (first, options.each, options.pack_at)]
                tree = options.beside if rng.random() < 0.5 else None
                command = [sys.executable, "-c", WRITER, str(tree or TREE), str(root)]
                with log.open("w") as out:
                    writer = subprocess.Popen(
                        [*command, *numbers], stdout=out, text=True
                    )
                writers[writer] = log
                first += options.each
            time.sleep(0.05)
            for writer in [*writers]:
                if writer.poll() is None and rng.random() < options.kill:
                    writer.send_signal(signal.SIGKILL)
                    killed += 1
                    writer.wait()
                if writer.poll() is not None:
                    told = writers.pop(writer).read_text().split("\n")[:-1]
                    acknowledged.update(map(int, told))
            if store.is_one(root) and rng.random() < 0.2:
                before = {*acknowledged}
                wrong = _wrong(root, before)
                torn += bool(wrong.pop("unread"))
                assert not any(wrong.values()), wrong
                reads += 1
        wrong = _wrong(root, acknowledged)
        print(
            f"{options.writers} writers at once, {first // options.each} in all,"
            f" {killed} killed; {len(acknowledged):,} acknowledged, generation"
            f" {manifest.newest(root)[0]}, {reads} readings beside them, {torn} torn"
        )
        print(" ".join(f"{name} {number}" for name, number in wrong.items()))


def _wrong(root: Path, acknowledged: set[int]) -> dict[str, int]:
    """Count what is lost, what is there twice, hours twice, and damaged files."""
    found = store.load(root)
    ids = found.rows("id")["id"]
    there = {number - 2**62 for number in ids}
    hours = found.hours().filter(pl.col("host") == "gpu00008")["analyses"].sum()
    return {
        "lost": len(acknowledged - there),
        "twice": len(ids) - len(there),
        "hours twice": abs(hours - len(there)),
        "unread": len(found.unread),
    }


def main() -> int:
    """Ask a large store, or let many write one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--incidents", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=4096)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--writers", type=int, default=0)
    parser.add_argument("--each", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--kill", type=float, default=0.01)
    parser.add_argument("--pack-at", type=int, default=100)
    parser.add_argument("--seed", type=int, default=os.getpid())
    parser.add_argument("--at", type=Path)
    parser.add_argument("--beside", type=Path, help="another release's checkout")
    options = parser.parse_args()
    (besieged if options.writers else asked)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
