"""The faults with their truth, written before the tool was run on any of them.

`classes` are what may be named, the best first; none means that nobody may be. `ranks`
are those at fault. Rank r runs on node r * nodes // 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RANKS = 4
NETWORK = ("unreachable-peer", "socket-error", "wrong-nic")


@dataclass(frozen=True)
class Case:
    """One job and what happens to it.

    `harm` is a function of `harm` that does it from outside. `odd` are variables of the
    rank at fault alone. `dies`: the job ends by itself, and its logs are given to the
    analysis beside what was collected. `at_most` is the highest confidence that is
    right. `by_host`: naming the hosts is as good as naming the ranks. `suspected`:
    being the first suspect is as good as being named.
    """

    name: str
    story: str
    classes: tuple[str, ...]
    ranks: tuple[int, ...]
    nodes: int = 4
    launch: str = "python"
    harm: str = ""
    odd: dict[str, str] = field(default_factory=dict)
    dies: bool = False
    starts: bool = True  # comes to its first steps
    at_most: str = "certain"
    by_host: bool = False
    suspected: bool = False
    settles_s: float = 5.0
    gathers: str = "on each node"


MISSING = ("missing-rank",)
CASES = (
    Case("stopped", "rank 2 gets SIGSTOP", MISSING, (2,), harm="stop"),
    Case(
        *("stopped-srun", "rank 2 gets SIGSTOP", MISSING, (2,)),
        nodes=2,
        launch="srun",
        harm="stop",
    ),
    Case("lock", "rank 1 waits for a lock of its own", MISSING, (1,)),
    Case("lock-mpirun", "the same", MISSING, (1,), nodes=2, launch="mpirun"),
    Case(
        *("lock-ray", "the same", MISSING, (1,)),
        nodes=2,
        launch="ray",
        gathers="by ray",
    ),
    Case("storage", "rank 3 writes to a mount that hangs", ("storage-stall",), (3,)),
    Case(
        *("loader-stuck", "rank 1 waits for its data loader's worker", MISSING, (1,)),
        launch="torchrun",
    ),
    Case(
        *("loader-killed", "the worker of rank 1 gets SIGKILL", ("crashed-rank",)),
        ranks=(1,),
        harm="kill_worker",
        dies=True,
        launch="torchrun",
    ),
    Case(
        *("worker-killed-queue", "rank 1 waits for the queue of a killed process"),
        *(MISSING, (1,)),
    ),
    Case(
        *("collective", "rank 0 gathers where the others reduce"),
        *(("collective-mismatch", "rank-conditional-collective"), (0,)),
        nodes=2,
    ),
    Case(
        *("call-order", "rank 0 enters two groups in the other order"),
        *(("call-order-deadlock",), (0,)),
    ),
    Case(
        *("uneven-barrier", "rank 3 ran out of data and waits in a barrier"),
        *(("uneven-inputs", "missing-rank"), (3,)),
        launch="torchrun",
    ),
    Case(
        *("uneven-sleep", "rank 3 ran out of data and polls for a file"),
        *(("uneven-inputs", "missing-rank"), (3,)),
    ),
    Case(
        *("conditional", "only rank 0 evaluates, with a barrier"),
        *(("rank-conditional-collective", "collective-mismatch"), (0,)),
        nodes=2,
    ),
    Case(
        *("shape", "rank 2 reduces 2000 elements, the others 1024"),
        *(("shape-mismatch",), (2,)),
        dies=True,
    ),
    Case(
        *("unmatched-p2p", "rank 1 leaves out a send to rank 2"),
        *(("unmatched-p2p",), (1,)),
    ),
    Case(
        *("gil", "rank 2 holds the GIL in C"),
        *(("gil-deadlock", "missing-rank"), (2,)),
    ),
    # within seconds the same as `healthy-evaluation`: to be suspected, not accused
    Case(
        *("loop", "rank 1 never ends a loop of Python", MISSING, (1,)),
        at_most="possible",
        suspected=True,
    ),
    Case(
        *("starved", "rank 1 gets 2 % of a core: slow, not stuck"),
        *(("slow-rank", "straggler"), (1,)),
        harm="starve",
        at_most="likely",  # slow is proved by its calls, not why
    ),
    Case(
        *("narrow-path", "the switch port of node 2 takes 1500 bytes, eth0 9000"),
        *(("mtu-mismatch",), (1,)),
        harm="narrow",
        by_host=True,
    ),
    Case(
        *("link-down", "eth0 of node 2 is set down", NETWORK, (1,)),
        harm="cut",
        by_host=True,
    ),
    Case(
        *("dead-interface", "node 2 uses an interface that leads nowhere"),
        *(("wrong-nic", "unreachable-peer"), (1,)),
        odd={"GLOO_SOCKET_IFNAME": "dead0"},
        dies=True,  # the others do
        starts=False,
        by_host=True,
    ),
    Case(
        *("variable", "TORCH_DISTRIBUTED_DEBUG=DETAIL on rank 2 alone"),
        *(("inconsistent-env",), (2,)),
        odd={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
        starts=False,
    ),
    Case(
        *("silent-node", "node 3 is cut off, and does not answer ssh"),
        *(("node-lost", "unreachable-peer", "missing-rank", "crashed-rank"), (2,)),
        harm="cut_node_3",
        gathers="by ssh",
        suspected=True,
        by_host=True,
    ),
    Case(
        *("killed", "rank 1 gets SIGKILL", ("crashed-rank",), (1,)),
        harm="kill",
        launch="torchrun",
        dies=True,
    ),
    Case(
        *("host-oom", "rank 1 outgrows its control group", ("host-oom",), (1,)),
        harm="limit_memory",
        launch="torchrun",
        dies=True,
    ),
    Case(
        *("full-disk", "rank 0 saves to a full disk", ("disk-full",), (0,)),
        launch="torchrun",
        dies=True,
        nodes=2,
    ),
    Case(
        *("file-lock", "rank 2 waits for a file lock of another process"),
        *(MISSING, (2,)),
        harm="hold_file",
    ),
    Case("debugger", "rank 0 stands in pdb", MISSING, (0,), nodes=2),
    Case(
        *("subprocess", "rank 3 waits for a command that hangs", MISSING, (3,)),
        launch="torchrun",
    ),
    Case(
        *("resolver", "rank 1 waits for a resolver", MISSING, (1,)),
        harm="lose_the_resolver",
    ),
    Case(
        *("rendezvous", "rank 3 was never started"),
        *(("rendezvous-failed", "missing-rank"), (3,)),
        starts=False,
        harm="never",
        suspected=True,  # one that starts later looks the same
    ),
    Case(
        *("saver", "rank 2 joins its saving thread, whose queue is full"),
        *(MISSING, (2,)),
    ),
    Case(
        *("fifo", "rank 3 opens a named pipe into which nobody writes"),
        *((*MISSING, "storage-stall"), (3,)),
        launch="torchrun",
    ),
    Case(
        *("store-key", "rank 1 waits for a key of the store that nobody sets"),
        *((*MISSING, "rank-conditional-collective"), (1,)),
    ),
    Case(
        *("raised", "rank 1 raises, and a thread keeps its process alive"),
        *(("crashed-rank", *MISSING), (1,)),
    ),
    Case(
        *("full-pipe", "rank 0 prints into a pipe that nobody reads", MISSING, (0,)),
        nodes=2,
    ),
    Case(
        *("skipped-call", "rank 2 leaves out one all_reduce and is one call ahead"),
        *(("collective-mismatch", "rank-conditional-collective"), (2,)),
    ),
    Case(
        *("wrong-peer", "rank 2 receives from rank 0 what rank 1 sends"),
        *(("unmatched-p2p",), (2,)),
    ),
    Case(
        "frozen", "rank 1 is frozen by its control group", MISSING, (1,), harm="freeze"
    ),
    Case(
        *("traced", "a debugger stopped rank 1 and was left there", MISSING, (1,)),
        nodes=2,
        harm="trace",
    ),
    Case(
        *("lost-route", "node 2 throws away what goes to node 3", NETWORK, (1,)),
        harm="lose_a_route",
        by_host=True,
    ),
    Case(
        *("stopped-node", "all ranks of node 2 get SIGSTOP", MISSING, (2, 3)),
        nodes=2,
        launch="srun",
        gathers="by slurm",
        harm="stop_node_2",
    ),
    Case(
        "healthy-compile", "all ranks wait for compilers for a minute", (), (), nodes=2
    ),
    Case("healthy-evaluation", "rank 0 evaluates for a minute", (), ()),
    Case("healthy-checkpoint", "rank 0 saves for a minute", (), (), nodes=2),
    Case("healthy-loading", "samples come unevenly", (), ()),
    Case("healthy-pause", "rank 1 pauses once for 12 s", (), ()),
)
