"""Lists of which ranks run where, as launchers, schedulers and people write them."""

import base64
import json

import pytest

from ncclforensics.correlate.waits import roll_call

HOSTS = ("fx108", "cn-a17", "gpu-b-03", "fx111")
EACH = 4
LAST = tuple(range(12, 16))
PANIC = "[412113.0040] Kernel panic - not syncing: Fatal machine check\n"
GPUS = {host: [*range(EACH)] for host in HOSTS}
RANKS = {host: [*range(EACH * i, EACH * i + EACH)] for i, host in enumerate(HOSTS)}
TIMED_OUT = "".join(
    f"[rank{rank}]:[E1120 12:00:00.123456789 ProcessGroupNCCL.cpp:629] [Rank {rank}] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out.\n"
    for rank in range(16 - EACH)
)


def by_host(line):
    return "".join(f"{line(host, ranks)}\n" for host, ranks in RANKS.items())


def by_rank(line):
    return by_host(
        lambda host, ranks: "\n".join(
            line(rank, host, turn) for turn, rank in enumerate(ranks)
        )
    )


CODED = base64.b64encode(json.dumps(GPUS).encode()).decode()
DEEPSPEED = "[2026-11-20 11:07:46,791] [INFO] [launch.py:164:main] "
LISTS = {
    "prefix": by_host(
        lambda host, ranks: f"[{host}] node up, ranks {ranks[0]}-{ranks[-1]}"
    ),
    "world": f"{DEEPSPEED}WORLD INFO DICT: {GPUS}\n",
    "mapping": f"{DEEPSPEED}global_rank_mapping=defaultdict(<class 'list'>, {RANKS})\n",
    "coded": f"python -m deepspeed.launcher.launch --world_info={CODED} train.py\n",
    "srun": by_host(
        lambda host, ranks: (
            f"srun: launching StepId=5.0 on host {host}, {EACH} tasks: "
            f"[{ranks[0]}-{ranks[-1]}]"
        )
    ),
    # as mpirun 4.1.4 prints it
    "map": by_host(
        lambda host, ranks: "\n".join(
            [
                f" Data for node: {host}\tNum slots: 4\tMax slots: 0\tNum procs: 4",
                *(
                    f" \tProcess OMPI jobid: [30138,1] App: 0 Process rank: {rank} "
                    "Bound: N/A"
                    for rank in ranks
                ),
            ]
        )
    ),
    "bound": by_rank(
        lambda rank, host, _: (
            f"[{host}:41007] MCW rank {rank} is not bound "
            "(or bound to all available processors)"
        )
    ),
    "csv": "rank,local_rank,hostname\n"
    + by_rank(lambda rank, host, turn: f"{rank},{turn},{host}"),
    "table": "| Rank | Node |\n|---|---|\n"
    + by_rank(lambda rank, host, _: f"| {rank} | {host} |"),
    "words": by_rank(
        lambda rank, host, turn: (
            f"INFO:root:Rank {rank}: hostname={host}, local_rank={turn}"
        )
    ),
}


@pytest.mark.parametrize("form", LISTS)
def test_a_list_of_ranks_tells_who_ran_on_a_host(analyzed, form):
    files = {"launch.log": LISTS[form], "fx111.console": PANIC}
    found = analyzed(files | {"train.log": TIMED_OUT}).ranked.verdict
    assert (found.slug, found.hosts) == ("host-fault", ("fx111",))
    assert found.ranks == LAST


def test_the_ranks_of_a_node_are_those_of_its_pods(analyzed):
    pods = "NAME READY STATUS RESTARTS AGE IP NODE\n" + "".join(
        f"llm-{at}   1/1   Running   0   3h   10.1.0.{at}   {host}   <none>   <none>\n"
        for at, host in enumerate(HOSTS)
    )
    inits = {
        f"llm-{at}.log": "".join(
            f"llm-{at}:{40 + rank}:{90 + rank} [{rank % EACH}] NCCL INFO "
            f"ncclCommInitRank comm 0x55d rank {rank} nranks 16 cudaDev {rank % EACH} "
            f"nvmlDev {rank % EACH} busId {rank}b000 commId 0x77 - Init COMPLETE\n"
            for rank in RANKS[host]
        )
        for at, host in enumerate(HOSTS)
    }
    files = {"pods.txt": pods, "fx111.console": PANIC, "train.log": TIMED_OUT}
    found = analyzed(files | inits).ranked.verdict
    assert (found.hosts, found.ranks) == (("fx111",), LAST)


@pytest.mark.parametrize(
    "line",
    [
        "srun: launching StepId=5.0 on host fx111, 1 tasks: 3",  # an agent's task
        "[fx111] lost ranks 12-15",
        "rank 12 waits for fx111",
        "| Rank | Loss |\n|---|---|\n| 12 | fx111 |",
    ],
)
def test_what_places_no_rank_names_none(analyzed, line):
    files = {"launch.log": f"{line}\n", "fx111.console": PANIC, "train.log": TIMED_OUT}
    found = analyzed(files).ranked.verdict
    assert (found.hosts, found.ranks) == (("fx111",), ())


def test_ranks_that_a_list_names_have_said_nothing(analyzed):
    frames = analyzed({"train.log": LISTS["csv"] + TIMED_OUT}).frames
    assert {*frames["ranks"]["rank"]} == {*range(16)}
    assert roll_call.call(frames).unseen == {*LAST}
