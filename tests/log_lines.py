"""Log lines as programs print them, for the tests of diagnosers."""

WATCHDOG = (
    "[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before "
    "timing out.\n"
)


def timeout(rank):
    return WATCHDOG.format(rank=rank)


def traceback(rank, last, file="train.py"):
    lines = (
        "Traceback (most recent call last):",
        f'  File "/job/{file}", line 8, in step',
        "    loss.backward()",
        last,
    )
    head = "" if rank is None else f"[rank{rank}]: "
    return "".join(f"{head}{line}\n" for line in lines)


def init(
    rank, world, host="gpu0001", bus="55000", pid=None, comm="0xabc", phase="COMPLETE"
):
    pid = pid or 4000 + rank
    return (
        f"{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x7f00 rank {rank} "
        f"nranks {world} cudaDev {rank % 8} nvmlDev {rank % 8} busId {bus} commId "
        f"{comm} "
        f"- Init {phase}\n"
    )


def kernel(text, host="gpu0001", at="10:00:00"):
    return f"Aug 20 {at} {host} kernel: {text}\n"


def xid(number, text="", pci="0000:55:00", **where):
    return kernel(f"NVRM: Xid (PCI:{pci}): {number}, {text}", **where)


def table(*children, host="gpu0001"):
    """torchelastic's table of (rank, exit code, pid); the first is the "root cause".

    The local rank may be told as well: eight ranks are on a node otherwise.
    """

    def block(number, rank, code, pid, local=None):
        local = rank % 8 if local is None else local
        return (
            f"[{number}]:\n  time      : 2026-08-20_10:00:00\n  host      : {host}\n"
            f"  rank      : {rank} (local_rank: {local})\n"
            f"  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n"
            "  traceback : To enable traceback see: https://pytorch.org/docs\n"
        )

    first, *others = children
    listed = "".join(block(i, *child) for i, child in enumerate(others, 1))
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + f"\ntrain.py FAILED\nFailures:\n{listed or '  <NO_OTHER_FAILURES>'}\n"
        + f"Root Cause (first observed failure):\n{block(0, *first)}"
        + "=" * 60
        + "\n"
    )


def found(analysis, slug):
    """The findings of one class, as (role, finding)."""
    return [(role, f) for role, f in analysis.ranked.findings if f.slug == slug]


def ruled_out(analysis, slug):
    return [s for s in analysis.ranked.ruled_out if s.slug == slug]


def verdict(analysis):
    """What a failure was found to be: class, ranks and hosts."""
    top = analysis.ranked.verdict
    if top is None or analysis.ranked.outcome != "failure":
        return analysis.ranked.outcome
    return top.slug, top.ranks, top.hosts


AGENT = "I0820 11:09:0{n}.354000 4100{n} torch/distributed/"


def agent(n, run="4711", endpoint="localhost:29500", nodes=1, node=0):
    """What a torchrun agent was started with, and whom it met."""
    head = AGENT.format(n=n)
    configs = (
        "Starting elastic_operator with launch configs:",
        "  entrypoint       : train.py",
        "  min_nodes        : 1",
        "  max_nodes        : 2",
        f"  run_id           : {run}",
        "  rdzv_backend     : c10d",
        f"  rdzv_endpoint    : {endpoint}",
    )
    result = (
        "[default] Rendezvous complete for workers. Result:",
        "  restart_count=0",
        "  master_addr=localhost",
        f"  group_rank={node}",
        f"  group_world_size={nodes}",
        "  local_ranks=[0, 1]",
        "  global_ranks=[0, 1]",
    )
    return "".join(f"{head}launcher/api.py:202] {c}\n" for c in configs) + "".join(
        f"{head}elastic/agent/server/api.py:525] {r}\n" for r in result
    )


def open_call(backend, created_ns):
    """The entry of a dump for the first all_reduce of a group of all, which is open."""
    return {
        "record_id": 0,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "op_id": 1,
        "is_p2p": False,
        "profiling_name": f"{backend}:all_reduce",
        "time_created_ns": created_ns,
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "frames": [],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": False,
        "timeout_ms": 600000,
    }
