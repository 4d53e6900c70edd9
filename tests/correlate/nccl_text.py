"""Lines as NCCL prints them, for tests that need jobs of their own."""

COMM = 0x7F0000001000


def pointer(pid, number=0):
    return f"0x{COMM + pid * 0x100000 + number * 0x1000:x}"


def header(host, pid, device=0):
    return f"{host}:{pid}:{pid} [{device}] NCCL INFO "


def init(host, pid, rank, size, phase, comm_id="0x5ae77eb5ea4ec1ee", comm=None):
    return (
        f"{header(host, pid)}ncclCommInitRank comm {comm or pointer(pid)} rank {rank} "
        f"nranks {size} cudaDev 0 nvmlDev 0 busId 7000 commId {comm_id} - Init {phase}"
    )


def split(host, pid, rank, size, phase, comm, parent, number, color):
    dash = "- " if phase == "START" else " - "
    return (
        f"{header(host, pid)}ncclCommSplit comm {comm} rank {rank} nranks {size} "
        f"cudaDev 0 nvmlDev 0 busId 7000 parent {parent}{number} color {color} "
        f"key {rank}{dash}Init {phase}"
    )


def coll(host, pid, op, count, comm=None, size=4, number=0, dtype=7, root=0):
    return (
        f"{header(host, pid)}{op}: opCount {number:x} sendbuff 0x7f00 recvbuff 0x7f00 "
        f"count {count} datatype {dtype} op 0 root {root} comm {comm or pointer(pid)} "
        f"[nranks={size}] stream 0x55"
    )


def rank_log(rank, calls, size=4, *, frozen=False, more=(), host=None):
    """Return the log of a rank that joins a communicator and makes `calls`."""
    host, pid = host or f"gpu000{1 + rank // 2}", 4000 + rank
    lines = [init(host, pid, rank, size, phase) for phase in ("START", "COMPLETE")]
    lines += [
        coll(host, pid, op, count, size=size, number=0 if frozen else number)
        for number, (op, count) in enumerate(calls)
    ]
    return "\n".join([*lines, *more]) + "\n"
