"""The jobs of the lab that fail in a GPU, a process, a version or a call."""

from nccl_hosts import Host
from nccl_job import Job, Rank, Truth, eth0, ranks_on

ONE = ("gpu0001",)
TWO = ("gpu0001", "gpu0002")
FOUR_CALLS = "init all-reduce=4 stay=2"
COUNT_CALLS = {"NCCL_DEBUG_SUBSYS": "INIT,ENV,COLL"}


def three_and(odd: Rank, steps: str = FOUR_CALLS) -> tuple[Rank, ...]:
    """Four ranks on two hosts, of which one is not like the others."""
    all_alike = ranks_on(TWO, 2, steps)
    return tuple(odd if rank.rank == odd.rank else rank for rank in all_alike)


CUDA_JOBS = (
    Job(
        slug="nccl-error-802",
        title="the fabric manager of one host is not running",
        what_happened="Every CUDA call on gpu0002 returns 802, as it does while "
        "nvidia-fabricmanager is down. Ranks 0 and 1 wait for ranks 2 and 3.",
        version="2.22.3",
        hosts=eth0(*TWO),
        ranks=(
            *ranks_on(ONE, 2, FOUR_CALLS),
            Rank("gpu0002", 2, FOUR_CALLS, 0, {"STUB_FAIL": "*:802:1"}),
            Rank("gpu0002", 3, FOUR_CALLS, 1, {"STUB_FAIL": "*:802:1"}),
        ),
        truth=Truth("failure", "fabric-manager", (), hosts=("gpu0002",)),
    ),
    Job(
        slug="nccl-no-driver",
        title="one host has no usable driver",
        what_happened="libcuda.so.1 is missing on gpu0002, as in a container started "
        "without its GPUs: ranks 2 and 3 fail at once, ranks 0 and 1 wait for them.",
        version="2.26.2",
        hosts=eth0(*TWO),
        ranks=(
            *ranks_on(ONE, 2, FOUR_CALLS),
            Rank("gpu0002", 2, FOUR_CALLS, 0, driver=False),
            Rank("gpu0002", 3, FOUR_CALLS, 1, driver=False),
        ),
        truth=Truth("failure", "driver-mismatch", (), hosts=("gpu0002",)),
    ),
    *(
        Job(
            slug=slug,
            title="two ranks on one GPU",
            what_happened="Rank 3 forgot cudaSetDevice(3) and uses GPU 2, which is "
            "rank 2's; NCCL refuses the communicator on every rank.",
            version=version,
            hosts=eth0(*ONE),
            ranks=(
                *ranks_on(ONE, 3, FOUR_CALLS),
                Rank("gpu0001", 3, FOUR_CALLS, device=2),
            ),
            truth=Truth("failure", "duplicate-gpu", ranks=(2, 3), hosts=ONE),
            log=log,
        )
        for slug, version, log in (
            ("nccl-duplicate-gpu", "2.21.5", "{host}/rank_{rank}.log"),
            ("nccl-duplicate-gpu-2.30", "2.30.7", "job.out"),
        )
    ),
    Job(
        slug="nccl-oom",
        title="no GPU memory left for NCCL's buffers on one rank",
        what_happened="The GPU of rank 1 is full: from NCCL's sixth cudaMalloc on it "
        "returns out of memory; the others fail when rank 1 goes.",
        version="2.19.3",
        hosts=eth0(*TWO),
        ranks=three_and(
            Rank("gpu0001", 1, FOUR_CALLS, 1, {"STUB_FAIL": "cudaMalloc:2:6"})
        ),
        truth=Truth("failure", "gpu-oom", ranks=(1,), hosts=ONE),
        seconds=40,
    ),
    Job(
        slug="nccl-shm-full",
        title="/dev/shm of one host is too small",
        what_happened="gpu0002 is a container with a /dev/shm of 16 MB; NCCL cannot "
        "make its segments there and gpu0001 loses its peers.",
        version="2.24.3",
        hosts={**eth0("gpu0001"), "gpu0002": Host({"eth0": "10.0.0.2/24"}, shm="16m")},
        ranks=ranks_on(TWO, 2, FOUR_CALLS),
        truth=Truth("failure", "shm-exhausted", hosts=("gpu0002",)),
        environment={"NCCL_DEBUG": "WARN"},
        seconds=80,
    ),
    Job(
        slug="nccl-init-missing-rank",
        title="one rank never calls ncclCommInitRank",
        what_happened="Rank 2 loads the library and then sits in its data loader; ranks "
        "0, 1 and 3 print Init START and wait until the job is cancelled.",
        version="2.29.7",
        hosts=eth0(*TWO),
        ranks=three_and(Rank("gpu0002", 2, "stay=60", 0)),
        truth=Truth("failure", "missing-rank", ranks=(2,), hosts=("gpu0002",)),
    ),
    Job(
        slug="nccl-coll-missing-rank",
        title="one rank stops calling collectives",
        what_happened="Rank 1 makes four all-reduces and no fifth; its peers make the "
        "fifth and wait in it until the job is cancelled.",
        version="2.26.2",
        hosts=eth0(*TWO),
        ranks=three_and(
            Rank("gpu0001", 1, "init all-reduce=4 stay=60", 1),
            "init all-reduce=5 stay=60",
        ),
        truth=Truth("failure", "missing-rank", ranks=(1,), hosts=ONE),
        environment=COUNT_CALLS,
    ),
    Job(
        slug="nccl-coll-mismatch",
        title="one rank calls another collective",
        what_happened="As its fourth call rank 3 makes a broadcast while the others "
        "make an all-reduce; all of them wait until the job is cancelled.",
        version="2.23.4",
        hosts=eth0(*TWO),
        ranks=three_and(
            Rank("gpu0002", 3, "init all-reduce=3 broadcast=1 stay=60", 1),
            "init all-reduce=4 stay=60",
        ),
        truth=Truth("failure", "collective-mismatch", ranks=(3,), hosts=("gpu0002",)),
        environment=COUNT_CALLS,
    ),
    Job(
        slug="nccl-coll-shape",
        title="one rank brings another size",
        what_happened="In the fourth all-reduce rank 2 brings 512 elements and the "
        "others 1024; all of them wait until the job is cancelled.",
        version="2.18.3",
        hosts=eth0(*TWO),
        ranks=three_and(
            Rank(
                "gpu0002", 2, "init all-reduce=3 elements=512 all-reduce=1 stay=60", 0
            ),
            "init all-reduce=4 stay=60",
        ),
        truth=Truth("failure", "shape-mismatch", ranks=(2,), hosts=("gpu0002",)),
        environment=COUNT_CALLS,
        log="slurm-50917.out",
    ),
    Job(
        slug="nccl-killed-rank",
        title="one rank is killed between collectives",
        what_happened="Rank 2 is ended by SIGKILL after four all-reduces. Its peers make "
        "the fifth and see its connections close.",
        version="2.27.5",
        hosts=eth0(*TWO),
        ranks=three_and(
            Rank("gpu0002", 2, "init all-reduce=4 stay=3 die", 0),
            "init all-reduce=4 stay=2 all-reduce=1 stay=8 abort",
        ),
        truth=Truth(
            "failure",
            "crashed-rank",
            ("socket-error", "missing-rank"),
            ranks=(2,),
            hosts=("gpu0002",),
        ),
        environment={
            **COUNT_CALLS,
            "NCCL_DEBUG_FILE": "nccl.%h.%p.log",
        },
        seconds=40,
    ),
    Job(
        slug="nccl-cut-by-buffer",
        title="a killed job whose last lines never left the buffers",
        what_happened="Rank 1 never came to ncclCommInitRank; the job was killed, and as "
        "stdout was a file, each rank's last lines, up to 4 KiB, were lost.",
        version="2.28.9",
        hosts=eth0(*TWO),
        ranks=three_and(Rank("gpu0001", 1, "stay=60", 1)),
        truth=Truth("inconclusive"),
        environment={"NCCL_DEBUG_SUBSYS": "ALL"},
        block_buffered=True,
    ),
    Job(
        slug="nccl-version-mismatch",
        title="one host has another NCCL",
        what_happened="The image of gpu0002 holds NCCL 2.26.2, that of the others "
        "2.27.5; the library notices and refuses.",
        version="2.27.5",
        hosts=eth0(*TWO, "gpu0003"),
        ranks=(
            Rank("gpu0001", 0, FOUR_CALLS),
            Rank("gpu0002", 1, FOUR_CALLS, version="2.26.2"),
            Rank("gpu0003", 2, FOUR_CALLS),
        ),
        truth=Truth("failure", "nccl-version-mismatch", ranks=(1,), hosts=("gpu0002",)),
    ),
    Job(
        slug="nccl-version-wave",
        title="two healthy jobs of two NCCL versions in one directory",
        what_happened="An evaluation with NCCL 2.21.5 and a training with 2.28.9 wrote "
        "their logs to one directory; both came up and ended.",
        version="2.21.5",
        hosts=eth0(*TWO),
        ranks=(
            Rank("gpu0001", 0, FOUR_CALLS, communicator="evaluation"),
            Rank("gpu0001", 1, FOUR_CALLS, communicator="evaluation"),
            Rank("gpu0002", 0, FOUR_CALLS, version="2.28.9", communicator="training"),
            Rank("gpu0002", 1, FOUR_CALLS, version="2.28.9", communicator="training"),
        ),
        truth=Truth("no-failure"),
        environment={"NCCL_DEBUG_FILE": "nccl.%h.%p.log"},
    ),
    Job(
        slug="nccl-inconsistent-env",
        title="one rank was started with NCCL_SHM_DISABLE=1",
        what_happened="Rank 1 alone has NCCL_SHM_DISABLE=1: it waits for its neighbour "
        "on a socket, while the neighbour offers shared memory.",
        version="2.27.5",
        hosts=eth0(*ONE),
        ranks=(
            Rank("gpu0001", 0, FOUR_CALLS),
            Rank("gpu0001", 1, FOUR_CALLS, environment={"NCCL_SHM_DISABLE": "1"}),
            Rank("gpu0001", 2, FOUR_CALLS),
        ),
        truth=Truth("failure", "inconsistent-env", ranks=(1,), hosts=ONE),
        seconds=40,
    ),
    Job(
        slug="nccl-bad-usage",
        title="a rank number outside the world",
        what_happened="The launcher told the process on gpu0002 that it is rank 7 of 2; "
        "NCCL refuses, and rank 0 waits for rank 1.",
        version="2.16.2",
        hosts=eth0(*TWO),
        ranks=(
            Rank("gpu0001", 0, FOUR_CALLS),
            Rank("gpu0002", 1, "init-as=7"),
        ),
        truth=Truth("failure", "missing-env", ("crashed-rank",), hosts=("gpu0002",)),
        log="nccl.{host}.log",
    ),
)
