"""The jobs of the lab that fail in a GPU, a process, an image or a setting."""

from nccl_hosts import Host
from nccl_job import COUNT_CALLS, Job, Rank, Truth, eth0, one_odd, ranks_on

ONE = ("gpu0001",)
TWO = ("gpu0001", "gpu0002")
FOUR_CALLS = "init all-reduce=4 stay=2"


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
        truth=Truth("failure", "fabric-manager", (), (2, 3), ("gpu0002",)),
    ),
    *(
        Job(
            slug=slug,
            title="the fabric of one host does not answer",
            what_happened="On gpu0002 NVML never says which NVLinks its GPUs have, as "
            "where the fabric manager is stuck: its ranks stop in topology detection, "
            "and those of the other hosts wait for them until the job is cancelled.",
            version=version,
            hosts=eth0(*hosts),
            ranks=tuple(
                Rank(host, 2 * number + local, FOUR_CALLS, local, silent)
                for number, host in enumerate(hosts)
                for silent in ({"STUB_SILENT": "1"} if host == "gpu0002" else {},)
                for local in range(2)
            ),
            truth=Truth("failure", "fabric-manager", hosts=("gpu0002",)),
        )
        for slug, version, hosts in (
            ("nccl-silent-fabric", "2.26.2", TWO),
            ("nccl-silent-fabric-three", "2.21.5", (*TWO, "gpu0003")),
        )
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
        truth=Truth("failure", "driver-mismatch", (), (2, 3), ("gpu0002",)),
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
        what_happened="The GPU of rank 1 is full: from NCCL's seventh cudaMalloc on it "
        "returns out of memory; the others fail when rank 1 goes.",
        version="2.19.3",
        hosts=eth0(*TWO),
        ranks=one_odd(
            TWO,
            Rank("gpu0001", 1, FOUR_CALLS, 1, {"STUB_FAIL": "cudaMalloc:2:7"}),
            FOUR_CALLS,
        ),
        truth=Truth("failure", "gpu-oom", ranks=(1,), hosts=ONE),
        seconds=40,
    ),
    Job(
        slug="nccl-shm-full",
        title="/dev/shm of one host is too small",
        what_happened="gpu0002 is a container with a /dev/shm of 16 MB; NCCL cannot "
        "make its segments there and gpu0001 loses its peers.",
        version="2.23.4",
        hosts={**eth0("gpu0001"), "gpu0002": Host({"eth0": "10.0.0.2/24"}, shm="16m")},
        ranks=ranks_on(TWO, 2, FOUR_CALLS),
        truth=Truth("failure", "shm-exhausted", (), (2, 3), ("gpu0002",)),
        environment={"NCCL_DEBUG": "WARN"},
        seconds=80,
    ),
    *(
        Job(
            slug=slug,
            title=f"one rank is killed between collectives, {resolving}",
            what_happened="Rank 3 is ended by SIGKILL after four all-reduces. Its "
            "peers make the fifth and see its connections close.",
            version=version,
            hosts=eth0(*TWO),
            ranks=one_odd(
                TWO,
                Rank("gpu0002", 3, "init all-reduce=4 stay=3 die", 1),
                "init all-reduce=4 stay=2 all-reduce=1 stay=6 abort",
            ),
            truth=Truth(
                "failure",
                "crashed-rank",
                ("socket-error", "missing-rank"),
                ranks=(3,),
                hosts=("gpu0002",),
            ),
            environment=COUNT_CALLS,
            debug_file="nccl.%h.%p.log",
            seconds=30,
            name_service=resolving == "names resolve",
        )
        for slug, version, resolving in (
            ("nccl-killed-rank", "2.27.5", "names resolve"),
            ("nccl-killed-rank-no-names", "2.26.2", "names do not resolve"),
        )
    ),
    *(
        Job(
            slug=slug,
            title="one host has another NCCL",
            what_happened=f"The image of gpu0002 holds NCCL {odd}, that of the others "
            f"2.27.5. {consequence}",
            version="2.27.5",
            hosts=eth0(*TWO, "gpu0003"),
            ranks=(
                Rank("gpu0001", 0, FOUR_CALLS, 0),
                Rank("gpu0002", 1, FOUR_CALLS, 0, version=odd),
                Rank("gpu0003", 2, FOUR_CALLS, 0),
            ),
            truth=Truth(
                "failure", "nccl-version-mismatch", ranks=(1,), hosts=("gpu0002",)
            ),
        )
        for slug, odd, consequence in (
            ("nccl-version-mismatch", "2.26.2", "Their bootstrap messages differ."),
            ("nccl-version-mismatch-named", "2.27.7", "Each rank names the odd one."),
        )
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
        debug_file="nccl.%h.%p.log",
    ),
    Job(
        slug="nccl-inconsistent-env",
        title="one rank was started with NCCL_SHM_DISABLE=1",
        what_happened="Rank 1 alone has NCCL_SHM_DISABLE=1: the ranks count "
        "different nodes and channels, and every one fails on rings that do not close.",
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
)
