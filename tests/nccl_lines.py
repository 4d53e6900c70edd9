"""NCCL's lines as its versions print them, for the tests of the diagnosers."""


def info(host, *texts, pid=7, device=0):
    return "".join(f"{host}:{pid}:{pid} [{device}] NCCL INFO {t}\n" for t in texts)


def warn(host, *texts, pid=7, device=0, at=None):
    """WARN lines; `at` gives them the time of day that NCCL prints since 2.26."""
    when = f"[2026-11-20 {at}] " if at else ""
    head = f"\n{when}{host}:{pid}:{pid + 30} [{device}] misc/x.cc:72 NCCL WARN "
    return "".join(f"{head}{text}\n" for text in texts)


def init(host, rank, nranks, phase="COMPLETE", pid=7, bus="7000", comm="0xabc", dev=0):
    return info(
        host,
        f"ncclCommInitRank comm 0x7f{rank} rank {rank} nranks {nranks} cudaDev {dev} "
        f"nvmlDev {dev} busId {bus} commId {comm} - Init {phase}",
        pid=pid,
        device=dev,
    )


def using(host, address, interface="eth0", pid=7):
    return info(host, f"Bootstrap: Using {interface}:{address}<0>", pid=pid)


def found(analysis, slug):
    return [f for _, f in analysis.ranked.findings if f.slug == slug]
