"""Checks of one node itself: memory, limits, disks, clock, GPUs and their fabric.

A check's docstring says what it looks at, why that matters, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclforensics.preflight.results import Facts, Found

MIB, GIB = 1 << 20, 1 << 30

# What NCCL's and the data loaders' buffers of eight ranks take; docker's default is
# 64 MiB, and NVIDIA's guide asks for 1 GiB.
LEAST_SHM = GIB
# Eight ranks of 2,000 entries with stacks write a few MiB each, and a job dumps twice.
LEAST_FOR_DUMPS = 256 * MIB
# The store on rank 0 has a socket for each rank, and so has NCCL's bootstrap; the rest
# is for data loaders.
LEAST_FILES, FILES_PER_RANK = 1024, 4
# A synchronised clock is off by milliseconds; the kernel itself gives up at 16 s.
MOST_CLOCK_ERROR_S = 1.0


def shared_memory(facts: Facts) -> Found:
    """/dev/shm is large enough.

    NCCL and data loaders share memory there; where it is full they die with a bus error
    or `No space left on device`.

    Do: docker run --shm-size=1g or more; in Kubernetes an emptyDir with medium: Memory;
    or remove what earlier jobs left there.
    """
    told = facts["shm"]
    text = f"{told['free'] / GIB:.2g} of {told['size'] / GIB:.2g} GiB free"
    return ("failed", text) if told["free"] < LEAST_SHM else text


def room_for_dumps(facts: Facts) -> Found:
    """Flight Recorder dumps can be written where torch would write them.

    Dumps are written when the job hangs, and a dump that cannot be written is evidence
    that is lost. The folder has to exist: torch creates only its own default.

    Do: set TORCH_FR_DUMP_TEMP_FILE to a prefix on a disk with room, and create its
    folder on every node.
    """
    told = facts["dumps"]
    text = f"{told['free'] / GIB:.2g} GiB free for {told['folder']}"
    asked = facts.variable("TORCH_FR_DUMP_TEMP_FILE")
    if asked and not told["exists"]:
        return "failed", f"{told['folder']} does not exist"
    if not told["writable"]:
        return "failed", f"{told['folder']} cannot be written"
    if told["free"] < LEAST_FOR_DUMPS or told["files_free"] in range(64):
        return "failed", text
    return text


def open_files(facts: Facts) -> Found:
    """The limit of open files allows the connections of this job.

    Rank 0 holds a socket for every rank. Where the limit is too low, `Too many open
    files` ends the job at its start, or much later in a data loader.

    Do: ulimit -n 65536 in the job's script, LimitNOFILE= of slurmd or containerd.
    """
    limit = facts["limits"]["nofile"]
    size = facts.variable("WORLD_SIZE") or facts.variable("SLURM_NTASKS") or "0"
    needed = max(LEAST_FILES, FILES_PER_RANK * int(size if size.isdigit() else 0))
    if 0 <= limit < needed:
        return "failed", f"ulimit -n is {limit:,}, this job needs {needed:,}"
    return "ulimit -n is " + ("unlimited" if limit < 0 else f"{limit:,}")


def locked_memory(facts: Facts) -> Found:
    """Memory can be locked without limit where there is InfiniBand or RoCE.

    RDMA registers its buffers in locked memory: with a limit, NCCL fails with `Call to
    ibv_create_cq failed` or `ibv_reg_mr`.

    Do: ulimit -l unlimited; LimitMEMLOCK=infinity of slurmd or containerd, IPC_LOCK in
    a container.
    """
    limit = facts["limits"]["memlock"]
    if not facts["infiniband"]:
        return "unknown", "only matters with InfiniBand or RoCE, which is not here"
    if limit >= 0:
        return "failed", f"ulimit -l is {limit // 1024:,} KiB"
    return "ulimit -l is unlimited"


def clock(facts: Facts) -> Found:
    """The clock is synchronised.

    Logs and dumps of nodes are laid beside each other by their times. Nothing fails,
    but after a hang the order of events is a guess.

    Do: systemctl status chronyd, or systemd-timesyncd, or ptp4l.
    """
    told = facts["clock"]
    if "synchronised" not in told:
        return "unknown", "the kernel does not tell here"
    if not told["synchronised"]:
        return "warning", "the clock is not synchronised"
    if told["max_error_s"] > MOST_CLOCK_ERROR_S:
        return "warning", f"the clock may be off by {told['max_error_s']:.2g} s"
    return f"synchronised within {told['max_error_s'] * 1000:.2g} ms"


def gpus(facts: Facts) -> Found:
    """nvidia-smi answers, and lists the GPUs that the job was given.

    A driver that does not answer, or a GPU that fell off the bus, fails the first rank
    that needs it.

    Do: dmesg -T | grep -i xid; reload the driver or drain the node.
    """
    here = facts["gpus"]
    if not here and "nvidia kernel module" not in facts["versions"]:
        return "unknown", "this node has no NVIDIA driver"
    if not here:
        return "failed", "the driver is loaded, and nvidia-smi lists no GPU"
    given = facts.variable("SLURM_GPUS_ON_NODE") or ""
    if given.isdigit() and int(given) > len(here):
        return "failed", f"{len(here)} GPUs, the job was given {given}"
    return f"{len(here)} {here[0]['name']}, driver {here[0]['driver']}"


def fabric_manager(facts: Facts) -> Found:
    """The fabric manager runs where there are NVSwitches.

    Without it CUDA reports `system not yet initialized` (error 802) as soon as a rank
    touches its GPU.

    Do: systemctl start nvidia-fabricmanager; its release must be that of the driver.
    """
    told = facts["fabric_manager"]
    if not told["needed"]:
        return "unknown", "this node has no NVSwitch"
    if told["running"]:
        return "nv-fabricmanager runs"
    if not told["seen"]:
        return "unknown", "a container does not see the node's processes"
    return "failed", "this node has NVSwitches, and no nv-fabricmanager runs"


CHECKS = (
    *(shared_memory, room_for_dumps, open_files, locked_memory),
    *(clock, gpus, fabric_manager),
)
