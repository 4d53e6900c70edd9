"""What programs state of their rank, in words and orders of their own."""

import pytest

RANKS, EACH = 4, 2


def ranks_of(analysis):
    """Return the host and local rank of each rank, by number."""
    rows = analysis.frames["ranks"].select("rank", "host", "local_rank").rows()
    return {rank: (host, local) for rank, host, local in rows}


def stream(line):
    """Return a line of each rank: `line(rank, local rank, host)`."""
    return "".join(
        f"{line(rank, rank % EACH, f'node{rank // EACH:03}')}\n"
        for rank in range(RANKS)
    )


ALL = {rank: (f"node{rank // EACH:03}", rank % EACH) for rank in range(RANKS)}


@pytest.mark.parametrize(
    "form",
    [
        "init_process_group backend=nccl rank={0} local_rank={1} world_size=4 host={2}",
        "rank {0}/4: up, host={2}, local rank {1}",
        "WORLD INFO host {2} local_rank {1} global_rank {0}",
        "| distributed init (rank {0}): env://  host={2} local_rank={1}",
    ],
)
def test_rank_host_and_local_rank_stand_in_any_order(analyzed, form):
    assert ranks_of(analyzed({"job.log": stream(form.format)})) == ALL


@pytest.mark.parametrize(
    "form",
    [
        "local rank {0}/4 ready on {2}",
        "tp rank {0}, host={2}",
        "lost the host {2} of rank {0}",
        "rank {0} waits for {2}",
    ],
)
def test_numbers_of_groups_and_of_other_ranks_state_none(analyzed, form):
    assert ranks_of(analyzed({"job.log": stream(form.format)})) == {}


def test_a_torchrun_prefix_is_that_of_the_rank_that_it_stated(analyzed):
    """In each node's file the same local ranks stand."""
    files = {}
    for node in range(RANKS // EACH):
        lines = []
        for local in range(EACH):
            rank = node * EACH + local
            said = (
                f"init rank={rank} local_rank={local} world_size=4 host=node{node:03}"
            )
            lines.append(f"[default{local}]:{said}")
        for step in range(40):
            for local in range(EACH):
                slow = (node, local) == (1, 1)
                times = (
                    f"fwd={0.3 if slow else 0.2:.3f} sync={0.1 if slow else 0.2:.3f}"
                )
                lines.append(f"[default{local}]:step={step} {times} total=0.4")
        files[f"node_{node}.log"] = "".join(f"{line}\n" for line in lines)
    analysis = analyzed(files)
    assert ranks_of(analysis) == ALL
    assert analysis.ranked.verdict.ranks == (3,)


def test_a_pod_that_states_one_rank_writes_its_lines(analyzed):
    lines = [f"[pod/job-{7 - rank}/main] rank={rank} world_size=4" for rank in range(4)]
    for step in range(40):
        for rank in range(4):
            times = (
                "data 240.0ms | fwd 200.0ms"
                if rank == 1
                else "data 9.5ms | fwd 200.0ms"
            )
            lines.append(
                f"[pod/job-{7 - rank}/main] step {step} | {times} | sync 60.0ms"
            )
    analysis = analyzed({"kubectl.txt": "".join(f"{line}\n" for line in lines)})
    assert analysis.ranked.verdict.ranks == (1,)


def test_a_hostfile_places_the_ranks_of_a_job_of_its_size(analyzed):
    line = "rank {} of 4 started\n"
    told = {"job.log": "".join(map(line.format, range(RANKS)))}
    hosts = "node000 slots=2\nnode001 slots=2\n"
    placed = {rank: host for rank, (host, _) in ALL.items()}
    found = ranks_of(analyzed({**told, "hostfile": hosts}))
    assert {rank: host for rank, (host, _) in found.items()} == placed
    # one with more slots tells nothing of where the ranks are
    found = ranks_of(analyzed({**told, "hostfile": f"{hosts}node002 slots=2\n"}))
    assert {host for host, _ in found.values()} == {None}
