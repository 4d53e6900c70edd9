"""A suspect's place in the code, where a stack shows it, and not a library's place."""

HEAD = 'Process {pid}: python train.py\nPython v3.11.9 (/usr/bin/python3.11)\n\nThread {pid} ({state}): "MainThread"\n'
WAITS = (
    "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n"
    "    step (train.py:88)\n    <module> (train.py:200)\n"
)
SAVES = (
    "    write (zipfile.py:1200)\n    save (torch/serialization.py:964)\n"
    "    save_checkpoint (ckpt.py:77)\n    <module> (train.py:200)\n"
)


def stacks(state):
    rows = {f"rank_{r}.txt": (70 + r, "idle", WAITS) for r in (0, 1, 2)}
    rows["rank_3.txt"] = (73, state, SAVES)
    return {
        name: HEAD.format(pid=pid, state=how) + frames
        for name, (pid, how, frames) in rows.items()
    }


def test_who_was_seen_to_run_is_a_suspect_with_its_place(analyzed):
    found = analyzed(stacks("active"))
    assert found.ranked.outcome == "inconclusive"
    first = found.ranked.suspects[0]
    assert first.rank == 3
    assert "ckpt.py:77 save_checkpoint" in first.why


def test_who_stands_still_is_possibly_missing_at_its_place(analyzed):
    top = analyzed(stacks("idle")).ranked.verdict
    assert (top.slug, top.ranks, top.confidence) == ("missing-rank", (3,), "possible")
    assert "ckpt.py:77 save_checkpoint" in top.explanation
