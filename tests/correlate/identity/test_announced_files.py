"""Files that announce one rank each, and what somebody noted of ranks and hosts."""

import pytest

TIMED_OUT = (
    "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
    "12000ms for recv operation to complete\n"
)


def ranks_of(analysis):
    told = analysis.frames["events"].filter(message="c10d.gloo.timeout")
    return dict(told.select("source", "rank").iter_rows())


def announced(*ranks, world=6):
    return {
        f"box-{n}/train.log": f"INFO:app:rank {rank}/{world} ready\n{TIMED_OUT}"
        for n, rank in zip("abcdef", ranks, strict=False)
    }


def test_each_file_is_of_the_rank_that_it_announces(analyzed):
    found = ranks_of(analyzed(announced(0, 1, 2, 4)))
    assert found == {
        f"box-{n}/train.log": r for n, r in zip("abcd", (0, 1, 2, 4), strict=True)
    }


@pytest.mark.parametrize(
    "files",
    [
        announced(0, 2, 4),  # the first ranks of nodes, whose others say nothing
        announced(0),
        announced(0, 1, 1),
        {"all.log": "".join(announced(0, 1, 2).values())},
    ],
    ids=["nodes", "one", "twice", "one file"],
)
def test_else_a_file_may_hold_other_ranks_as_well(analyzed, files):
    assert not any(rank is not None for rank in ranks_of(analyzed(files)).values())


PANIC = "[412113.0040] Kernel panic - not syncing: Fatal machine check\n"


@pytest.mark.parametrize("line", ["box-43 ranks 2-3", "ranks 2-3 on box-43"])
def test_a_note_of_ranks_and_hosts_tells_where_they_ran(analyzed, line):
    files = {"nodes.txt": f"{line}\n", "box-43_console.log": PANIC}
    found = analyzed(files | {"train.log": TIMED_OUT}).ranked.verdict
    assert (found.slug, found.hosts, found.ranks) == ("host-fault", ("box-43",), (2, 3))
