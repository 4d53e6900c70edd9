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
