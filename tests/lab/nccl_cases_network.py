"""The jobs of the lab whose network is wrong, or right and only looks wrong."""

from nccl_hosts import Host
from nccl_job import COUNT_CALLS, DOCKER0, Job, Rank, Truth, eth0, ranks_on

TWO = ("gpu0001", "gpu0002")
FOUR_CALLS = "init all-reduce=4 stay=2"
# No collectives: across hosts they would never finish under the stub.
COME_AND_GO = "init stay=2 destroy"
IFNAME = "NCCL_SOCKET_IFNAME"

NETWORK_JOBS = (
    Job(
        slug="nccl-docker0",
        title="docker0 is all that one host has",
        what_happened="eth0 of gpu0002 never came up, so NCCL took docker0 there and "
        "could not reach the root on gpu0001. Ranks 0 and 1 wait for ranks 2 and 3.",
        version="2.27.5",
        hosts={
            "gpu0001": Host({"eth0": "10.0.0.1/24", "docker0": DOCKER0}),
            "gpu0002": Host({"docker0": DOCKER0}),
        },
        ranks=ranks_on(TWO, 2, FOUR_CALLS),
        truth=Truth(
            "failure", "wrong-nic", ("unreachable-peer",), (2, 3), ("gpu0002",)
        ),
    ),
    Job(
        slug="nccl-docker0-env",
        title="NCCL_SOCKET_IFNAME=docker0 on one host",
        what_happened="gpu0002 was started with NCCL_SOCKET_IFNAME=docker0 although it "
        "has eth0. It told its peers 172.17.0.1, which is gpu0001's own docker0 too.",
        version="2.26.2",
        hosts={
            "gpu0001": Host({"eth0": "10.0.0.1/24", "docker0": DOCKER0}),
            "gpu0002": Host({"eth0": "10.0.0.2/24", "docker0": DOCKER0}),
        },
        ranks=(
            Rank("gpu0001", 0, FOUR_CALLS),
            Rank("gpu0001", 1, FOUR_CALLS),
            Rank("gpu0002", 2, FOUR_CALLS, 0, {IFNAME: "docker0"}),
            Rank("gpu0002", 3, FOUR_CALLS, 1, {IFNAME: "docker0"}),
        ),
        truth=Truth(
            "failure", "wrong-nic", ("inconsistent-env",), (2, 3), ("gpu0002",)
        ),
        seconds=80,
    ),
    Job(
        slug="nccl-lo",
        title="one host with nothing but lo",
        what_happened="No network of gpu0002 was up when the job started: NCCL bound "
        "lo there and could not reach the root on gpu0001.",
        version="2.21.5",
        hosts={**eth0("gpu0001"), "gpu0002": Host()},
        ranks=ranks_on(TWO, 2, FOUR_CALLS),
        truth=Truth(
            "failure", "wrong-nic", ("unreachable-peer",), (2, 3), ("gpu0002",)
        ),
        log="nccl.{host}.rank{rank}.log",
    ),
    *(
        Job(
            slug=slug,
            title="NCCL_SOCKET_IFNAME names an interface that one host has not",
            what_happened="The job was started with NCCL_SOCKET_IFNAME=ib0; gpu0002 "
            "has no ib0, so its ranks fail at once and the others wait for them.",
            version=version,
            hosts={"gpu0001": Host({"ib0": "10.1.0.1/24"}), **eth0("gpu0002")},
            ranks=ranks_on(TWO, 2, FOUR_CALLS),
            truth=Truth("failure", "wrong-nic", (), (2, 3), ("gpu0002",)),
            environment={IFNAME: "ib0"},
        )
        for slug, version in (
            ("nccl-no-interface", "2.20.5"),
            ("nccl-no-interface-2.30", "2.30.7"),
        )
    ),
    Job(
        slug="nccl-different-subnet",
        title="one host of three speaks from another subnet",
        what_happened="gpu0003 was started with NCCL_SOCKET_IFNAME=eth1, the "
        "management net 192.168.50.0/24, to which the others have no route.",
        version="2.23.4",
        hosts={
            **eth0("gpu0001", "gpu0002"),
            "gpu0003": Host({"eth0": "10.0.0.3/24", "eth1": "192.168.50.3/24"}),
        },
        ranks=(
            *ranks_on(TWO, 1, FOUR_CALLS),
            Rank("gpu0003", 2, FOUR_CALLS, environment={IFNAME: "eth1"}),
        ),
        truth=Truth("failure", "wrong-nic", ("inconsistent-env",), (2,), ("gpu0003",)),
        log="nccl.{host}.log",
        seconds=60,
    ),
    Job(
        slug="nccl-unreachable-host",
        title="nobody can reach one host",
        what_happened="gpu0003 has the right interface, but its switch port is in no "
        "VLAN: no packet of it arrives, and its ranks cannot reach the root.",
        version="2.28.9",
        hosts={
            **eth0("gpu0001", "gpu0002"),
            "gpu0003": Host({"eth0": "10.0.0.3/24"}, isolated=True),
        },
        ranks=ranks_on((*TWO, "gpu0003"), 1, FOUR_CALLS),
        truth=Truth("failure", "unreachable-peer", (), (2,), ("gpu0003",)),
        seconds=100,
    ),
    *(
        Job(
            slug=f"nccl-healthy-{name}",
            title=f"a healthy job on one host over {interface}",
            what_happened=f"Four ranks on one host, bound to {interface}, which is "
            "right for a single host: they come up, make four collectives and end.",
            version=version,
            hosts={"gpu0001": host},
            ranks=ranks_on(("gpu0001",), 4, "init all-reduce=4 stay=1 destroy"),
            truth=Truth("no-failure"),
            environment=COUNT_CALLS,
        )
        for name, interface, version, host in (
            ("single-node", "eth0", "2.18.3", Host({"eth0": "10.0.0.1/24"})),
            ("single-node-lo", "lo", "2.16.2", Host()),
            ("single-node-docker0", "docker0", "2.24.3", Host({"docker0": DOCKER0})),
        )
    ),
    Job(
        slug="nccl-healthy-two-names",
        title="healthy, with eth0 on one host and eno1 on the other",
        what_happened="The hosts name their interfaces differently, but both lie in "
        "10.0.0.0/24: the job comes up and ends.",
        version="2.29.7",
        hosts={**eth0("gpu0001"), "gpu0002": Host({"eno1": "10.0.0.2/24"})},
        ranks=ranks_on(TWO, 2, COME_AND_GO),
        truth=Truth("no-failure"),
        environment={
            "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET",
            "NCCL_DEBUG_TIMESTAMP_LEVELS": "ALL",
            "NCCL_DEBUG_TIMESTAMP_FORMAT": "[%Y-%m-%dT%H:%M:%S.%6f]_",
        },
    ),
    Job(
        slug="nccl-healthy-late-rank",
        title="healthy, but one rank came twelve seconds late",
        what_happened="Rank 3 read its data for twelve seconds before it called "
        "ncclCommInitRank; the others waited, then the job came up and ended.",
        version="2.28.9",
        hosts=eth0(*TWO),
        ranks=(
            *ranks_on(TWO, 2, COME_AND_GO)[:3],
            Rank("gpu0002", 3, f"stay=12 {COME_AND_GO}", 1),
        ),
        truth=Truth("no-failure"),
        log="slurm-48213.out",
        seconds=30,
    ),
    Job(
        slug="nccl-healthy-port-scan",
        title="healthy, while a port scanner knocks at the bootstrap root",
        what_happened="A security scanner connected to the bootstrap port of rank 0 "
        "and sent zeros. NCCL turned it away, and the job ran and ended.",
        version="2.22.3",
        hosts=eth0("gpu0001"),
        ranks=(
            Rank("gpu0001", 0, f"unique-id stay=2 {FOUR_CALLS}"),
            Rank("gpu0001", 1, "knock=128"),
            Rank("gpu0001", 1, f"stay=2 {FOUR_CALLS}"),
        ),
        truth=Truth("no-failure"),
    ),
)
