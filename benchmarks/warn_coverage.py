"""Is every warning of NCCL seen as one? Each WARN format, rendered and read back.

    python benchmarks/warn_coverage.py FORMATS.tsv [--unrecognised] [--misframed]

FORMATS.tsv has the columns level, first_seen, last_seen, file and format (printf), one
row per message of NCCL's source. Each is rendered in every form of the prefix that NCCL
2.4 to 2.30 has printed, and behind what launchers put in front of lines. `framed`
counts lines of which level, host, pid, device and text are read as they were written;
`recognised` counts formats that are a message of the grammars by their own meaning, and
not only a warning.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from pathlib import Path

import polars as pl

from ncclforensics.parsers.logs import broken_lines, framing, grammar

HOST, PID, DEVICE = "gpu0001", 4121, 3
PREFIXES = {
    "to 2.25": "{host}:{pid}:4302 [{device}] {file}:300 NCCL WARN {text}",
    "2.26 to 2.30.4": "[2026-06-23 15:45:07] {host}:{pid}:4302 [{device}] {file}:300 "
    "NCCL WARN {text}",
    "2.30.7": "[2026-06-23 15:45:07] {host}:{pid}:4302 [{device}] {file}:300 (someFn) "
    "NCCL WARN {text}",
    "2.26, own time format": "[15:45:07.123456] {host}:{pid}:4302 [{device}] "
    "{file}:300 NCCL WARN {text}",
    "a plugin's function": "{host}:{pid}:4302 [{device}] int ofi_process_cq(cq*, bool)"
    ":196 NCCL WARN {text}",
    "an absolute path": "{host}:{pid}:4302 [{device}] /build/hipify/src/{file}:57 "
    "NCCL WARN {text}",
}
DECORATIONS = {
    "none": "{line}",
    "torchrun --tee": "[default3]:{line}",
    "torchrun, own role": "[trainer3]:{line}",
    "Open MPI": "[1,3]<stderr>:{line}",
    "PRRTE": "[prterun-gpu0001-77@1,3]<stdout>:{line}",
    "Horovod": "Fri Aug 11 12:31:45 2023[1,3]<stdout>:{line}",
    "Horovod, Gloo": "[3]<stdout>:{line}",
    "MPICH -l": "[3] {line}",
    "srun -l": " 3: {line}",
    "srun -l, het job": "P0  3: {line}",
    "kubectl --prefix": "[pod/train-worker-1/torch] {line}",
    "containerd": "2026-11-20T12:00:00.123456789Z stderr F {line}",
    "docker": "{docker}",
    "pdsh": "worker-1: {line}",
    "accelerate": "stderr: {line}",
    "Ray": "\x1b[36m(RayTrainWorker pid=615, ip=10.0.0.6)\x1b[0m {line}",
    "Ray, nested": "(MapWorker(MapBatches(X)) pid=4, ip=10.0.0.6) {line}",
    "Ray, repeated": "(W pid=1) {line}\x1b[32m [repeated 7x across cluster]\x1b[0m",
    "milabench": "llama.gpu0001.0 [stderr] {line}",
    "a time": "2026-11-20 12:00:00,123 {line}",
    "ISO time": "2026-11-20T12:00:00.123Z {line}",
    "a line number": "[80746] {line}",
    "a quote": "> {line}",
    "a progress bar": " 45%|####5     | 723/1602 [2:12:45<2:59:53, 12.28s/it]{line}",
    "redrawn": "45%\r{line}",
    "colour": "\x1b[33m{line}\x1b[0m",
    "CR LF": "{line}\r",
    "kubectl, srun, torchrun": "[pod/train-1/c]  3: [default3]:{line}",
    "journal": "Nov 20 12:00:00 node7 kernel: {line}",
}
CONVERSION = re.compile(r"%[-+0 #]*[\d.*]*(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")
# a string that follows one of these is of that kind
STRINGS = (
    (r"Call to\s*$", "recv from"),
    (r"Call to recv from\s*$", "10.20.0.12<41000>"),
    (r"[Ee]rror while\s*$", "creating"),
    (r"event[^:]*:\s*$", "port error"),
    (r"(?:peer|from|to|with|at|address)\s*$", "10.20.0.12<41000>"),
    (r"(?:error|failed)\s*:?\s*$", "Connection refused"),
    (r"(?:file|path|segment|map|extend)\s*$", "/dev/shm/nccl-4kX2a1"),
    (r"'\s*$", "invalid argument"),
    (r"NET/IB\s?: $|hca $", "mlx5_0"),
)
GENERAL = "nccl.warn"  # takes what no other message knows
NUMBERS = {
    **dict.fromkeys("diu", "12"),
    **dict.fromkeys("xX", "7f3a"),
    "p": "0x7f3a00",
    "f": "0.5",
    "c": "a",
    "m": "No such file or directory",
    "%": "%",
}


def rendered(template: str) -> str:
    """Fill a printf format with values that a real line could have; one line."""
    text, at = "", 0
    for found in CONVERSION.finditer(template):
        text += template[at : found.start()]
        at = found.end()
        text += NUMBERS.get(found[1]) or _string(text)
    return re.split(r"\\n|\n", text + template[at:].removesuffix("\\n"))[0].rstrip()


def _string(before: str) -> str:
    for pattern, value in STRINGS:
        if re.search(pattern, before, re.IGNORECASE):
            return value
    return "ncclThing" if before else "ncclCommInitRank"


def framed(formats: list[tuple[str, str]]) -> pl.DataFrame:
    """Read every format in every form; returns `form decoration format right`.

    `formats` are (file, text).
    """
    rows = []
    for form, prefix in PREFIXES.items():
        for decoration, around in DECORATIONS.items():
            for file, text in formats:
                line = prefix.format(
                    host=HOST, pid=PID, device=DEVICE, file=file, text=text
                )
                docker = json.dumps({"log": line + "\n", "stream": "stderr"})
                docker = docker.replace('"log": ', '"log":', 1)
                raw = around.format(line=line, docker=docker)
                rows.append((form, decoration, file, text, raw))
    columns = ["form", "decoration", "file", "format", "raw"]
    made = pl.DataFrame(rows, schema=columns, orient="row")
    made = made.with_columns(pl.int_range(1, pl.len() + 1).alias("line"))
    read = framing.frame(broken_lines.joined(made.select("line", "raw")))
    own = (
        (pl.col("level") == "WARN")
        & (pl.col("host") == HOST)
        & (pl.col("pid") == PID)
        & (pl.col("device") == DEVICE)
        & pl.col("text").str.starts_with(pl.col("format"))
    )
    joined = made.join(read.drop("raw"), on="line", how="left")
    return (
        joined.with_columns(own.fill_null(False).alias("right"))
        .group_by("line", maintain_order=True)
        .agg(
            pl.col("right").any(),
            *(pl.col(c).first() for c in ("form", "decoration", "format", "raw")),
        )
    )


def recognised(formats: list[tuple[str, str]]) -> dict[str, str]:
    """Return the message of each format's text that is one, as NCCL 2.26 prints it."""
    messages = grammar.load()
    prefix = PREFIXES["2.26 to 2.30.4"]
    lines = [
        prefix.format(host=HOST, pid=PID, device=DEVICE, file=file, text=text)
        for file, text in formats
    ]
    frame = pl.DataFrame({"line": range(1, len(lines) + 1), "raw": lines})
    found = grammar.match(framing.frame(frame), messages)
    return {
        formats[line - 1][1]: message
        for message, rows in found.items()
        if message != GENERAL
        for line in rows["line"]
    }


def main() -> int:
    """Print the two numbers, and what is not framed or recognised if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("formats", type=Path)
    parser.add_argument("--unrecognised", action="store_true", help="list them")
    parser.add_argument("--misframed", action="store_true", help="list examples")
    options = parser.parse_args()
    with options.formats.open(encoding="utf-8", newline="") as file:
        told = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        warnings = [row for row in told if row["level"] == "WARN"]
    formats = list(
        dict.fromkeys((row["file"], rendered(row["format"])) for row in warnings)
    )
    known = recognised(formats)
    lines = framed(formats)
    print(f"{len(warnings)} WARN formats, {len(formats)} when rendered")
    print(f"framed      {int(lines['right'].sum()):,} of {lines.height:,} lines")
    wrong = lines.filter(~pl.col("right"))
    for column in ("form", "decoration"):
        for name, count in wrong.group_by(column).len().sort("len").iter_rows():
            print(f"  {count:6,} not, {column} {name!r}")
    if options.misframed:
        for raw in wrong.group_by("form", "decoration").first()["raw"]:
            print(f"    {raw!r}"[:200])
    print(f"recognised  {len(known)} of {len(formats)} formats")
    if options.unrecognised:
        for file, text in formats:
            if text not in known:
                print(f"    {file:28} {text[:150]}")
    return 0 if wrong.is_empty() else 1


if __name__ == "__main__":
    sys.exit(main())
