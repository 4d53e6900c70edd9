"""The jobs of the lab in which one rank does not call what the others call."""

from nccl_job import COUNT_CALLS, Job, Rank, Truth, eth0, one_odd, ranks_on

ONE = ("gpu0001",)
TWO = ("gpu0001", "gpu0002")
FOUR_CALLS = "init all-reduce=4 stay=2"

CALL_JOBS = (
    Job(
        slug="nccl-ras-status",
        title="ncclras asked while one rank is two all-reduces behind",
        what_happened="Rank 1 makes four all-reduces and no fifth; its peers make six. "
        "Then somebody on gpu0001 runs ncclras, which reports the rank behind.",
        version="2.28.9",
        hosts=eth0(*TWO),
        ranks=(
            *one_odd(
                TWO,
                Rank("gpu0001", 1, "init all-reduce=4 stay=60", 1),
                "init all-reduce=6 stay=60",
            ),
            Rank("gpu0001", 1, "stay=8 ras=5", 1, log="ncclras.txt"),
        ),
        truth=Truth("failure", "missing-rank", ranks=(1,), hosts=ONE),
        seconds=25,
    ),
    Job(
        slug="nccl-ras-dead-rank",
        title="ncclras asked after one rank was killed",
        what_happened="Rank 3 is ended by SIGKILL after four all-reduces. Fifteen "
        "seconds later somebody on gpu0001 runs ncclras, which misses that process.",
        version="2.27.5",
        hosts=eth0(*TWO),
        ranks=(
            *one_odd(
                TWO,
                Rank("gpu0002", 3, "init all-reduce=4 stay=2 die", 1),
                "init all-reduce=4 stay=60",
            ),
            Rank("gpu0001", 1, "stay=15 ras=5", 1, log="ncclras.txt"),
        ),
        truth=Truth(
            "failure",
            "crashed-rank",
            ("missing-rank",),
            ranks=(3,),
            hosts=("gpu0002",),
        ),
        seconds=35,
    ),
    Job(
        slug="nccl-init-missing-rank",
        title="one rank never calls ncclCommInitRank",
        what_happened="Rank 2 loads the library and then sits in its data loader; "
        "ranks 0, 1 and 3 print Init START and wait until the job is cancelled.",
        version="2.29.7",
        hosts=eth0(*TWO),
        ranks=one_odd(TWO, Rank("gpu0002", 2, "stay=60", 0), FOUR_CALLS),
        truth=Truth("failure", "missing-rank", ranks=(2,), hosts=("gpu0002",)),
    ),
    Job(
        slug="nccl-coll-missing-rank",
        title="one rank stops calling collectives",
        what_happened="Rank 1 makes four all-reduces and no fifth; its peers make the "
        "fifth and wait in it until the job is cancelled.",
        version="2.26.2",
        hosts=eth0(*TWO),
        ranks=one_odd(
            TWO,
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
        ranks=one_odd(
            TWO,
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
        ranks=one_odd(
            TWO,
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
        slug="nccl-bad-usage",
        title="a rank number outside the world",
        what_happened="The launcher told the process on gpu0002 that it is rank 7 of "
        "2; NCCL refuses, and rank 0 waits for rank 1.",
        version="2.16.2",
        hosts=eth0(*TWO),
        ranks=(
            Rank("gpu0001", 0, FOUR_CALLS),
            Rank("gpu0002", 1, "init-as=7"),
        ),
        truth=Truth("failure", "missing-env", ("crashed-rank",), (), ("gpu0002",)),
        log="nccl.{host}.log",
    ),
    Job(
        slug="nccl-cut-by-buffer",
        title="a killed job whose last lines never left the buffers",
        what_happened="All ranks made the same 40 all-reduces and hung; the job was "
        "killed. As stdout was a file, each log ends at a multiple of 4096 bytes, in "
        "the middle of a line, and the counts seem to differ.",
        version="2.28.9",
        hosts=eth0(*TWO),
        ranks=ranks_on(TWO, 2, "init all-reduce=40 stay=60"),
        truth=Truth("inconclusive", also_acceptable=("stuck-in-collective",)),
        environment=COUNT_CALLS,
        block_buffered=True,
    ),
)
