"""The variables that a job should have before it hangs: one table.

Names and defaults are those of torch 2.13 and NCCL 2.27. `{logs}` is the folder of the
job's logs. Rows with `hunting` cost too much for every day.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: its value, what it is without, why it is set, and what that costs.

    `also` is its name in older releases.
    """

    name: str
    value: str
    default: str
    why: str
    cost: str
    also: str = ""
    hunting: bool = False


VARIABLES = (
    Variable(
        "TORCH_FR_BUFFER_SIZE",
        "2000",
        "2000; 0, which is off, before torch 2.11",
        "Flight Recorder: each rank remembers its last 2,000 calls, so that a hang "
        "shows who is in which call and who is not",
        "a few MiB of memory a rank, and a Python stack for each call: microseconds",
        also="TORCH_NCCL_TRACE_BUFFER_SIZE",
    ),
    Variable(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "1",
        "1; 0 in older releases",
        "all ranks write what they remember when one of them times out",
        "a job that timed out ends up to a minute later",
    ),
    Variable(
        "TORCH_FR_DUMP_TEMP_FILE",
        "{logs}/fr/rank_",
        "~/.cache/torch/comm_lib_trace_rank_",
        "dumps lie with the logs of this job: the default is the same for all jobs, "
        "and in a container it is gone with it",
        "some MiB a rank; the folder has to exist",
        also="TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    ),
    Variable(
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
        "60000",
        "15000",
        "time to write the dumps before the job aborts: many ranks on one slow file "
        "system need more than 15 s",
        "a job that timed out ends up to 45 s later",
    ),
    Variable(
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        "/tmp/fr_pipe_",
        "not set",
        "a job that hangs now can be asked for its dumps, and goes on: `ncclforensics "
        "collect` does that",
        "a named pipe and a thread a rank; on a disk of the node, not a shared one",
    ),
    Variable(
        "NCCL_DEBUG",
        "INFO",
        "not set, which prints nothing",
        "which interface, network and version each rank chose, and NCCL's own warnings",
        "some hundred lines a rank at the start; nothing in a step",
    ),
    Variable(
        "NCCL_DEBUG_SUBSYS",
        "INIT,BOOTSTRAP,NET,ENV",
        "INIT,BOOTSTRAP,ENV",
        "also which network device each connection took; without COLL, which prints "
        "a line for each call",
        "none beside NCCL_DEBUG",
    ),
    Variable(
        "NCCL_DEBUG_FILE",
        "{logs}/nccl.%h.%p.log",
        "stdout",
        "a file for each process: on one stdout the lines of ranks cut each other",
        "a small file a rank; the folder has to exist",
    ),
    Variable(
        "PYTHONFAULTHANDLER",
        "1",
        "not set",
        "a process that dies of a signal prints its Python stack first",
        "none",
    ),
    Variable(
        "PYTHONUNBUFFERED",
        "1",
        "not set",
        "the last lines of a process that is killed are in its log",
        "a system call for each line that is printed",
    ),
    Variable(
        "TORCH_NCCL_ENABLE_TIMING",
        "1",
        "0",
        "dumps tell a call that started from one that only was enqueued",
        "more CUDA events, and a watchdog that can hang itself",
        hunting=True,
    ),
    Variable(
        "TORCH_DISTRIBUTED_DEBUG",
        "DETAIL",
        "OFF",
        "each call is compared with its peers, and a mismatch is told at once",
        "a meeting of all ranks before each call: steps take much longer",
        hunting=True,
    ),
)

# what no variable sets
IN_CODE = (
    (
        "init_process_group(timeout=timedelta(minutes=10))",
        "10 minutes with NCCL, 30 with Gloo",
        "the timeout is how long a hang is not noticed; keep it above the longest "
        "pause of one rank, as a checkpoint that rank 0 writes alone",
    ),
)
