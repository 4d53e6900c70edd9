"""Workers that tell their pids are ranks where nothing else tells ranks."""

import pytest

from log_lines import timeout
from ncclforensics.evidence import blocked_processes

WORKER = "1795878179.96 worker {} pid {} ready\n"


def pids(analyzed, workers, **more):
    log = "".join(WORKER.format(n, 12430 + n) for n in workers)
    frames = analyzed({"out.txt": log, **more}).frames
    return dict(frames["ranks"].select("rank", "pid").drop_nulls().rows())


def test_workers_from_0_on_are_the_ranks_of_their_pids(analyzed):
    assert pids(analyzed, range(3)) == {0: 12430, 1: 12431, 2: 12432}


@pytest.mark.parametrize(
    ("workers", "more"),
    [([1, 2], {}), ([0], {}), (range(2), {"rank5.log": timeout(5)})],
    ids=["without the first", "one", "beside ranks"],
)
def test_other_workers_may_be_a_data_loaders(analyzed, workers, more):
    assert pids(analyzed, workers, **more) == {}


PS = (
    "  PID  PPID STAT %CPU     ELAPSED WCHAN                  COMMAND\n"
    "12430 12427 Sl    1.3       00:38 futex_do_wait          python\n"
    "12431 12427 {}    1.3       00:38 do_signal_stop         python\n"
)


@pytest.mark.parametrize(("state", "outcome"), [("Tl", "inconclusive"), ("Sl", "no-")])
def test_a_stopped_process_of_an_unknown_rank_is_no_clean_bill(
    analyzed, state, outcome
):
    found = analyzed({"ps.txt": PS.format(state), "out.txt": "step 1 loss 2\n" * 3})
    assert found.ranked.outcome.startswith(outcome)


LOST = "[rank{}]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:24465.\n"


def as_told(analyzed, form, **more):
    """Return the pids of ranks that have lines of their own beside the list `form`."""
    text = "".join(form.format(rank, 4700 + rank) for rank in range(3))
    frames = analyzed({"run.log": LOST.format(0), "list.txt": text, **more}).frames
    return dict(frames["ranks"].select("rank", "pid").drop_nulls().rows())


@pytest.mark.parametrize(
    "form",
    [
        "started rank {} pid {}\n",
        "17:31:59 rank {} (pid {}) ended with 1\n",
        "worker pid {1} global rank {0}\n",
        "14:02 pid={1} rank={0}\n",
        "--- rank {}: /proc/{}/stack\n",
    ],
)
def test_a_line_with_one_rank_and_one_pid_tells_that_ranks_process(analyzed, form):
    assert as_told(analyzed, form) == {0: 4700, 1: 4701, 2: 4702}


@pytest.mark.parametrize(
    "form",
    [
        "at local rank {} pid {}\n",
        "the tp rank {} pid {}\n",
        "step {} pid {}\n",
        "kills pid {1} of rank {0}\n",
        "started rank {} pid 4711\n",  # they share a number, as in containers
    ],
)
def test_other_numbers_beside_a_pid_tell_no_rank(analyzed, form):
    assert as_told(analyzed, form) == {}


KILL = (
    "{0} [14461.173904] Memory cgroup out of memory: Killed process 4702 (python) "
    "total-vm:2096240kB, anon-rss:1406144kB, file-rss:19980kB, shmem-rss:0kB, UID:0 "
    "pgtables:3048kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(("hosts", "ranks"), [(1, (2,)), (2, ())])
def test_what_the_kernel_killed_is_that_rank_on_the_only_host(analyzed, hosts, ranks):
    started = "".join(f"started rank {rank} pid {4700 + rank}\n" for rank in range(3))
    kernel = {f"gpu{n:04}_dmesg.txt": KILL.format("")[1:] for n in range(hosts)}
    files = {"run.log": LOST.format(0), "launch.log": started, **kernel}
    found = analyzed(files).ranked.verdict
    assert (found.slug, found.ranks) == ("host-oom", ranks)


SHORT = "  PID STAT WCHAN              ELAPSED\n 4702 DNsl percpu_rwsem_wait  00:35\n"


def test_a_list_without_commands_shows_who_waits_in_the_kernel(analyzed):
    told = "".join(f"--- rank {rank}: /proc/{4700 + rank}/stack\n" for rank in range(3))
    frames = analyzed({"run.log": LOST.format(0), "node.txt": SHORT + told}).frames
    rows = blocked_processes.listed(frames).select("rank", "state", "name").rows()
    assert rows == [(2, "D", None)]
