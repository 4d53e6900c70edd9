"""Process exits, normalized from agents, launchers, schedulers and the shell.

`code` follows Python's convention (-N for signal N), so 139, `Segmentation fault` and
-11 are the same. A launcher's task is a rank only if each task runs one rank: not if
the task starts torchrun or DeepSpeed on a node, and not if another line places the rank
elsewhere.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.columns import distinct
from ncclforensics.model.frames import needing, remembered
from ncclforensics.model.tables import CITE, SCHEMAS, TIME, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# as strsignal() and shells spell them; Slurm adds the last
SIGNALS = {
    "Segmentation fault": signal.SIGSEGV,
    "Bus error": signal.SIGBUS,
    "Floating point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
    "Aborted": signal.SIGABRT,
    "Killed": signal.SIGKILL,
    "Terminated": signal.SIGTERM,
    "Out Of Memory": signal.SIGKILL,
}
CODES = {name: -int(number) for name, number in SIGNALS.items()} | {
    s.name: -s.value for s in signal.Signals
}
# launchers that start several ranks under one task or one rank of another launcher
PER_NODE = (
    "torchelastic.",
    "launchers.deepspeed.",
    "launchers.kill",
    "launchers.spawn.",
    "launchers.lightning.child",
)
ITSELF = "the process itself"
BY_NUMBER = {
    "launchers.rank_killed": "launcher",
    "launchers.mpi.signal": "mpirun",
    "launchers.mpi.rank_died": "pals",
    "launchers.mvapich.ended": "mpispawn",
    "launchers.hydra.ended": "hydra",
    **{f"launchers.{by}.caught_signal": ITSELF for by in ("mpi", "ucx", "mvapich")},
    "condensed.killed": "torchelastic",
}
BY_NAME = {
    "launchers.rank_killed.named": "launcher",
    "launchers.shell.killed": "shell",
    "launchers.spawn.exited": "torch spawn",
    "launchers.aprun.ended": "aprun",
    "launchers.supervisor.killed": "supervisord",
}
# names that the kernel prints for a rank's process or a child of it
OURS = (
    r"(?i)^(?:python|pt_|torchrun|ray::|train|pretrain|dataloader|accelerate|deepspeed)"
)
EMPTY = "torchelastic.child_failed.none"  # printed for a section without entries
TABLES = ("torchelastic.child_failed", "torchelastic.child_failed.others")
# srun's names for faults, which are signals that no launcher sends
FAULTS = r"^(?:Segmentation fault|Bus error|Floating point exception|Illegal instr)"
SENT_BY_AGENT = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
SENT_BY_SRUN = (-signal.SIGTERM, -signal.SIGKILL)
ENDED_BY_SRUN = ("Terminated", "Killed")
# a process that an agent terminates was alive when another one had failed
TOLD_TO_END = ("torchelastic.closing", "torchelastic.forced")
TEARDOWN = "slurm.teardown"  # srun begins to terminate the remaining tasks
MOST_TASKS = 1 << 16  # per line
SHELL = 128  # a shell reports a process killed by signal N as this plus N
SCHEMA = {**SCHEMAS["exits"], "text": pl.String()}
ENDS = ("exits", "slurm.", "launchers.", "condensed.", *BY_NUMBER, *BY_NAME)


def ranks_of(frame: pl.DataFrame) -> frozenset[int]:
    """Return the non-null ranks in `frame`."""
    return frozenset(distinct(frame["rank"]))


@remembered
@needing(*ENDS, otherwise=SCHEMA)
def ended(frames: Frames) -> pl.DataFrame:
    """Return every exit that the evidence reports, in schema `exits` plus `text`.

    Rows without a code are left out, and so are kernel lines on processes outside the
    job. `rank` is null if only a task is known and that task may hold several ranks.
    """
    known = _whole(frames["exits"]).with_columns(pl.lit(None, pl.String).alias("text"))
    parts = [known.drop_nulls("code"), *_signalled(frames), _of_old_launcher(frames)]
    strangers = _strangers(frames)
    agents = known.filter(pl.col("reported_by") == "torchelastic")
    if agents.is_empty():
        parts.append(of_slurm(frames))
    told = pl.concat(
        [without_rows(SCHEMA), *(_conforming(p) for p in parts if p.height)]
    ).with_columns(
        pl.when(pl.col("code").is_between(SHELL + 1, SHELL + 31))
        .then(SHELL - pl.col("code"))
        .otherwise("code")
        .alias("code")
    )
    # an exit without a rank is dropped if another reporter gives its code with a rank
    named = told.drop_nulls("rank")["code"].unique()
    return told.filter(
        pl.col("rank").is_not_null() | ~pl.col("code").is_in(named.implode())
    ).join(strangers, on=["source", "line"], how="anti", maintain_order="left")


@remembered
@needing(*ENDS, otherwise=SCHEMA)
def by_themselves(frames: Frames) -> pl.DataFrame:
    """Return the rows of `ended` that failed and that no agent caused."""
    failed = ended(frames).filter(pl.col("code") != 0)
    return failed.filter(~is_by_agent(frames, failed))


def told_to_end(frames: Frames) -> pl.DataFrame:
    """Return `source line child`: the lines in which agents end a process, its pid."""
    told = frames.message(*TOLD_TO_END)
    if "child" not in told.columns:
        return without_rows({**CITE, "child": pl.Int64()})
    return told.select(*CITE, pl.col("child").cast(pl.Int64))


def is_by_agent(frames: Frames, ends: pl.DataFrame) -> pl.Series:
    """Return for each exit whether an agent's signal, or its forced kill, caused it."""
    told = told_to_end(frames)
    by_signal = ends["code"].is_in(SENT_BY_AGENT)
    if told.is_empty():
        return by_signal
    lived = told.select("source", pl.col("child").alias("pid"), is_told=True).unique()
    known = ends.join(lived, on=["source", "pid"], how="left", maintain_order="left")
    return by_signal | known["is_told"].fill_null(False)


def has_outlived(frames: Frames, ends: pl.DataFrame) -> bool:
    """Whether an agent terminated a process of which no exit among `ends` tells."""
    told = told_to_end(frames)["child"].drop_nulls()
    return not told.is_in(ends["pid"].implode()).all()


def are_of_one_host(frames: Frames, deaths: pl.DataFrame) -> bool:
    """Whether one host's ranks got SIGKILL and all others only an agent's signal."""
    hosts = deaths["host"].unique()
    killed = bool(deaths["code"].eq_missing(-signal.SIGKILL).all())
    if deaths.is_empty() or hosts.len() != 1 or hosts.null_count() or not killed:
        return False
    others = ended(frames).filter(pl.col("host") != hosts[0])
    return others.height > 0 and bool(others["code"].is_in(SENT_BY_AGENT).all())


def only_one(frames: Frames) -> int | None:
    """Return the only rank that failed by itself; None if there are several or none.

    Also None if a failed exit has no rank.
    """
    ends = by_themselves(frames)
    known = ends["rank"].drop_nulls().unique().to_list()
    return known[0] if len(known) == 1 and not ends["rank"].null_count() else None


def is_torn(frames: Frames) -> bool:
    """Whether entries of an agent's table are lost: its entry numbers have gaps."""
    lines = frames.message(*TABLES)
    if "entry" not in lines.columns:
        return False
    entry = pl.col("entry")
    empty = frames.message(EMPTY)["source"].unique()
    told = lines.group_by("source").agg(
        entry.drop_nulls().n_unique().alias("many"),
        entry.max().alias("last"),
        entry.null_count().alias("unnumbered"),
    )
    lost = (pl.col("unnumbered") > 0) & ~pl.col("source").is_in(empty.implode())
    gaps = (pl.col("last") + 1 != pl.col("many")) | lost
    return not told.filter(gaps.fill_null(True)).is_empty()


def is_whole(frames: Frames) -> bool:
    """Whether an agent's table is present with every field of each of its entries."""
    lines = frames.message(*TABLES)
    fields = {"rank", "host", "pid", "code", "entry", "t"}
    if lines.is_empty() or not fields <= set(lines.columns):
        return False
    told = lines.select(pl.col(sorted(fields)).null_count().sum())
    return told.sum_horizontal().item() == 0 and not is_torn(frames)


def _whole(exits: pl.DataFrame) -> pl.DataFrame:
    """Drop rows without a time that repeat a table entry that has one."""
    key = ["source", "rank", "pid", "code"]
    told = exits.drop_nulls(["t", *key]).select(*key, is_told=True).unique()
    known = exits.join(told, on=key, how="left", maintain_order="left")
    again = pl.col("t").is_null() & pl.col("is_told").fill_null(False)
    return known.filter(~again).drop("is_told")


def _strangers(frames: Frames) -> pl.DataFrame:
    """Return `source line` of kernel lines on processes that are not of the job."""
    lines = frames.message("kernel.segfault", "kernel.oom_kill")
    if lines.is_empty():
        return lines.select("source", "line")
    theirs = ~pl.col("name").fill_null("").str.contains(OURS)
    return lines.filter(theirs & pl.col("rank").is_null()).select("source", "line")


@remembered
def of_slurm(frames: Frames) -> pl.DataFrame:
    """Return the tasks that ended before srun terminated the others, one row per task.

    `reason` is srun's own wording. `host` is null for lines that fold several nodes.
    """
    return _of_tasks(frames, ~pl.col("is_torn"))


def ranks_of_tasks(frames: Frames) -> pl.DataFrame:
    """Return `task` and `rank` of srun tasks that are known to run one rank each."""
    tasks = pl.concat([of_slurm(frames), torn_down(frames)])
    return tasks.select("task", "rank").drop_nulls().unique()


def hosts_of_tasks(frames: Frames) -> pl.DataFrame:
    """Return `rank host source line` of srun tasks of one rank and one known host.

    There has to be a task for each rank: the tasks of agents are fewer.
    """
    tasks = _of_tasks(frames, pl.lit(value=True))
    if tasks.is_empty():
        return without_rows({c: SCHEMA[c] for c in ("rank", "host", *CITE)})
    told = tasks.select("rank", "host", *CITE).drop_nulls(["rank", "host"])
    told = told.unique(["rank", "host"], keep="first").unique("rank", keep="none")
    last = pl.concat([tasks["task"], frames["events"]["task"]]).max()
    ranks = frames["ranks"].drop_nulls("rank")
    whole = ranks.height and ranks.filter(pl.col("rank") > last).is_empty()
    return told.sort("rank") if whole else told.clear()


@remembered
def torn_down(frames: Frames) -> pl.DataFrame:
    """Return the tasks that ended after srun had begun to terminate them all."""
    return _of_tasks(frames, pl.col("is_torn"))


def _of_tasks(frames: Frames, which: pl.Expr) -> pl.DataFrame:
    """Return how tasks ended, in SCHEMA; `which` filters on `is_torn`.

    `is_torn` marks lines after the step's teardown. srun never sends a fault signal, so
    a task with the same fault as one before the teardown failed by itself and is not
    torn. Nor is the only one that exited with a code, where srun's signals ended all
    others: srun may tell of it after it has begun to terminate them.
    """
    lines = frames.message("slurm.task_ended")
    if lines.is_empty():
        return without_rows(SCHEMA)
    torn = frames.message(TEARDOWN, "slurm.cancelled")
    first = torn.group_by("source").agg(pl.col("line").min().alias("torn"))
    placed = lines.join(first, on="source", how="left", maintain_order="left")
    behind = (pl.col("line") > pl.col("torn")).fill_null(False)
    before = placed.filter(~behind & pl.col("end").str.contains(FAULTS))["end"]
    behind &= ~pl.col("end").is_in(before.implode()) & ~_is_alone(frames, lines)
    rows = [
        {
            **{c: line[c] for c in ("t", "attempt", "source", "line", "text")},
            "task": task,
            "host": None
            if "[" in line["nodes"] or "," in line["nodes"]
            else line["nodes"],
            "code": line["code"] if line["code"] is not None else _named(line["end"]),
            "reason": line["end"],
            "reported_by": "srun",
        }
        for line in placed.with_columns(behind.alias("is_torn"))
        .filter(which)
        .head(1000)
        .iter_rows(named=True)
        for task in _numbers(line["tasks"])
    ]
    if not rows:
        return without_rows(SCHEMA)
    tasks = pl.DataFrame(rows, schema={c: SCHEMA[c] for c in rows[0]}, strict=False)
    return _conforming(_with_ranks(frames, tasks))


def _is_alone(frames: Frames, lines: pl.DataFrame) -> pl.Expr:
    """Whether a line tells of the only task that no signal of srun ended.

    After a cancel, which comes as a signal, too, that proves nothing.
    """
    code = pl.col("code")
    others = lines.filter(code.is_null())["end"]
    sent = others.len() > 0 and others.is_in([*ENDED_BY_SRUN]).all()
    one = (
        lines.height - others.len() == 1
        and not frames.message("slurm.cancelled").height
    )
    by_signal = code.is_between(SHELL + 1, SHELL + 31) | (code == signal.SIGTERM)
    return (code.is_not_null() & ~by_signal & pl.lit(sent and one)).fill_null(False)


def _numbers(text: str) -> list[int]:
    """Expand srun's folded task numbers: `0-2,7` gives 0, 1, 2, 7."""
    numbers: list[int] = []
    for span in text.strip("[]").split(","):
        first, _, last = span.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers += range(int(first), min(int(last or first), MOST_TASKS) + 1)
    return numbers[:MOST_TASKS]


def _named(end: str) -> int | None:
    return CODES.get(end.partition(" (")[0].strip())


def _with_ranks(frames: Frames, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return `tasks` with `rank` = task if each task runs one rank, else null."""
    unknown = tasks.with_columns(pl.lit(None, pl.Int64).alias("rank"))
    if any(found.startswith(PER_NODE) for found in frames.messages):
        return unknown
    labelled = frames["events"].select("rank", "task").drop_nulls()
    if labelled.filter(pl.col("rank") != pl.col("task")).height:
        return unknown
    sizes = [
        frames.message("nccl.init.start", "nccl.init.complete"),
    ]
    world = next((f["nranks"].max() for f in sizes if "nranks" in f.columns), None)
    seen = frames.message("slurm.task_ended")["tasks"].to_list()
    highest = max((n for text in seen for n in _numbers(text)), default=-1)
    highest = max(highest, int(str(frames["events"]["task"].max() or -1)))
    if world is not None and highest + 1 != int(str(world)):
        return unknown
    short = pl.col("host").str.extract(r"^([^.]+)")
    homes = frames["ranks"].select("rank", short.alias("_home"))
    named = tasks.with_columns(pl.col("task").alias("rank")).join(
        homes, on="rank", how="left", maintain_order="left"
    )
    if named.filter(pl.col("_home") != short).height:
        return unknown
    return named.drop("_home")


def _signalled(frames: Frames) -> list[pl.DataFrame]:
    """Return the exits that lines report by the number or name of a signal."""
    parts = []
    per_node = any(found.startswith(PER_NODE) for found in frames.messages)
    for message, by in BY_NUMBER.items():
        lines = frames.message(message)
        if lines.height:
            rank = pl.lit(None, pl.Int64) if per_node else pl.col("rank")
            parts.append(
                lines.with_columns(
                    (-pl.col("signal")).alias("code"),
                    rank.alias("rank"),
                    pl.lit(by).alias("reported_by"),
                )
            )
    for message, by in BY_NAME.items():
        lines = frames.message(message)
        if lines.height:
            code = pl.col("reason").replace_strict(
                CODES, default=None, return_dtype=pl.Int64
            )
            parts.append(
                lines.with_columns(code.alias("code"), pl.lit(by).alias("reported_by"))
            )
    return parts


def _of_old_launcher(frames: Frames) -> pl.DataFrame:
    """Return the exits that torch.distributed.launch reports.

    The command it prints is that of the child it started last, whichever one failed.
    """
    lines = frames.message("launchers.command_failed")
    if lines.is_empty():
        return without_rows(SCHEMA)
    code = pl.col("signal").replace_strict(CODES, default=None, return_dtype=pl.Int64)
    children = pl.col("text").str.contains("--local[_-]rank=")
    return lines.filter(children).with_columns(
        pl.coalesce("code", code).alias("code"),
        pl.lit("torch.distributed.launch").alias("reported_by"),
    )


def _conforming(part: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("text") if "text" in part.columns else pl.lit(None, pl.String)
    return (
        tables.picked("exits", part)
        .with_columns(part.select(text.alias("text"))["text"])
        .with_columns(pl.col("t").cast(TIME))
        .drop_nulls("code")
        .select(SCHEMA.keys())
    )
