"""Messages that Gloo does not record, told by how many operations it counted."""

import json

import pytest

from log_lines import traceback

TIMED_OUT = (
    "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting "
    "10000ms for {} operation to complete"
)


def dump(messages, open_call):
    """A dump of seven all_reduces, of which `messages` tells those before each."""
    entries, op = [], 0
    for n, many in enumerate(messages, 1):
        op += many + 1
        entries.append(
            {
                "record_id": n - 1,
                "collective_seq_id": n,
                "p2p_seq_id": 0,
                "op_id": op,
                "pg_id": 0,
                "process_group": ["0", "default_pg"],
                "profiling_name": "gloo:all_reduce",
                "state": "scheduled",
                "retired": not (open_call and n == len(messages)),
                "is_p2p": False,
                "input_sizes": [[8]],
                "output_sizes": [[8]],
                "input_dtypes": ["Float"],
                "output_dtypes": ["Float"],
                "time_created_ns": 1_790_000_000_000_000_000 + n * 10**9,
                "timeout_ms": 10000,
            }
        )
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return json.dumps({"version": "2.10", "pg_config": config, "entries": entries})


def verdict(analyzed, last):
    """Rank 1 waits in a send; `last` tells the messages of the others before call 7."""
    files = {}
    for rank in range(4):
        usual = [4, 8, 8, 4][rank]
        before = [usual] * 6 + ([last[rank]] if rank in last else [])
        files[f"dump_{rank}.json"] = dump(before, rank in last)
        half = "send" if rank == 1 else "recv"
        files[f"stage{rank}.log"] = traceback(rank, TIMED_OUT.format(half))
    return analyzed(files).ranked.verdict


@pytest.mark.parametrize("last", [{0: 4, 2: 6, 3: 3}, {0: 4, 2: 7, 3: 4}])
def test_who_left_out_more_than_its_peers_explain_owes_the_message(analyzed, last):
    found = verdict(analyzed, last)
    assert (found.slug, found.ranks) == ("unmatched-p2p", (2,))
    assert "the recv that rank 1 waits for" in found.headline


@pytest.mark.parametrize(
    "last",
    [{0: 4, 2: 8, 3: 4}, {0: 4, 2: 7, 3: 3}, {0: 3, 2: 7, 3: 3}],
    ids=["all are made", "both left out one", "three left out one each"],
)
def test_messages_that_both_sides_left_out_blame_nobody(analyzed, last):
    found = verdict(analyzed, last)
    assert found is None or found.slug != "unmatched-p2p"


def spied(rank, function, argument):
    """What `py-spy dump --locals` shows of a rank in a message."""
    return (
        f"Process {70 + rank}: python halo.py (RANK={rank} LOCAL_RANK={rank})\n"
        "Python v3.11.9 (/usr/bin/python3.11)\n\n"
        f'Thread {70 + rank} (idle): "MainThread"\n'
        f"    {function} (torch/distributed/distributed_c10d.py:2799)\n"
        "        Arguments:\n            tensor: <Tensor at 0x7f58>\n"
        f"            {argument}\n            group: None\n"
        "    exchange (halo.py:10)\n        Arguments:\n            dst: 2\n"
        "    <module> (halo.py:23)\n"
    )


def halo(analyzed, half="send", argument="dst: 1"):
    """Rank 0 waits in a receive from rank 3, which waits in a message too."""
    files = {
        f"fr_{r}.json": dump([2] * (7 if r in (1, 2) else 6), r in (1, 2))
        for r in range(4)
    }
    for rank in range(4):
        said = half if rank == 3 else "recv"
        files[f"out_rank{rank}.log"] = traceback(rank, TIMED_OUT.format(said))
    files["spy_rank0_pid70.txt"] = spied(0, "recv", "src: 3")
    files["spy_rank3_pid73.txt"] = spied(3, half, argument)
    return analyzed(files).ranked.verdict


def test_who_sends_to_another_rank_than_the_one_that_receives_from_it(analyzed):
    found = halo(analyzed)
    assert (found.slug, found.ranks) == ("unmatched-p2p", (3,))
    assert "rank 3 never posted the send that rank 0 waits for" in found.headline


@pytest.mark.parametrize(
    ("half", "argument"),
    [("send", "dst: 0"), ("recv", "src: 2")],
    ids=["they name each other", "it waits to receive as well"],
)
def test_two_that_may_wait_for_each_other_or_in_turn_blame_nobody(
    analyzed, half, argument
):
    found = halo(analyzed, half, argument)
    assert found is None or found.slug != "unmatched-p2p"
