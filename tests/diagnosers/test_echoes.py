"""Look-alikes of a culprit: who passes a loss on, and whose own words are lost."""

import shutil

import removal
from ncclforensics.analysis import analyze

CLOSED = (
    "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/"
    "pair.cc:553] Connection closed by peer [10.0.0.{peer}]:4711\n"
)
USING = (
    "gpu000{n}:4{rank}:4{rank} [0] NCCL INFO Bootstrap: Using eth0:10.0.0.{n}<0>\n"
    "gpu000{n}:4{rank}:4{rank} [0] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} "
    "nranks 3 cudaDev 0 nvmlDev 0 busId 7000 commId 0xab - Init COMPLETE\n"
)


def lost(rank, peer):
    return USING.format(n=rank + 1, rank=rank) + CLOSED.format(rank=rank, peer=peer)


def blamed(found):
    return [f.culprits.hosts for f in found.report.findings if f.slug == "socket-error"]


def test_a_victim_that_passes_its_loss_on_is_not_blamed(analyzed):
    """Rank 0 lost rank 1, which had lost a host of which nothing is known."""
    found = analyzed({"rank_0.log": lost(0, 2), "rank_1.log": lost(1, 3)})
    assert ("gpu0002",) not in blamed(found)


def test_a_peer_that_lost_nobody_else_is_named(analyzed):
    quiet = USING.format(n=2, rank=1)
    found = analyzed({"rank_0.log": lost(0, 2), "rank_1.log": quiet})
    assert blamed(found) == [("gpu0002",)]


def test_who_waited_in_words_that_are_lost_is_not_surely_absent(jobs, tmp_path):
    """Rank 1 waits in a receive that Gloo does not record; its log is lost."""
    copy = tmp_path / "evidence"
    shutil.copytree(jobs / "torch-unmatched-p2p" / "evidence", copy)
    for log in copy.glob("logs/*/attempt_0/1/*"):
        log.unlink()
    found = analyze([str(copy)])
    told = [f.confidence for f in found.report.findings if 1 in f.culprits.ranks]
    assert "certain" not in told


def test_a_list_of_ends_that_is_cut_calls_nobody_peaceful(jobs, tmp_path):
    copy = tmp_path / "evidence"
    shutil.copytree(jobs / "torch-sigkill-rank" / "evidence", copy)
    log = copy / "torchrun.log"
    text = log.read_bytes()
    for share in (0.3, 0.5, 0.7):
        log.write_bytes(text[: int(len(text) * share)])
        found = analyze([str(copy)])
        assert "uneven-inputs" not in [f.slug for f in found.report.findings]


def test_of_two_who_left_one_call_last_and_are_not_heard_neither_is_absent():
    """Rank 4 came late, rank 5 waited for it; the logs of their host are lost."""
    case = removal.incident(removal.INCIDENTS / "straggler-checkpoint")
    gone = [name for name in case.names if "gpu0003" in name]
    _, left = case.without(gone)
    assert all(5 not in f.culprits.ranks for f in left.findings)
