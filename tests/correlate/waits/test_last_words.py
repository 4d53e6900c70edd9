"""Where all ranks print alike in their loop, the last line of the odd one tells it."""

import json

import pytest

from log_lines import table, timeout

TIMED_OUT = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/job/train.py", line 6, in <module>\n'
    "[rank{0}]:     dist.all_reduce(x)\n"
    "[rank{0}]: RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed "
    "out waiting 12000ms for recv operation to complete\n"
)
LOST = TIMED_OUT.replace("unbound_buffer.cc:78] Timed ", "pair.cc:553] Connection ")
LOST = LOST.partition("out waiting")[0] + "closed by peer [127.0.0.1]:7841\n"


def loop(*ranks, passes=5):
    return {
        f"rank{r}.log": "".join(f"pass {n} of 900 done\n" for n in range(passes))
        for r in ranks
    }


def named(analysis):
    found = analysis.ranked.verdict
    return (found.slug, found.ranks, found.confidence)


OPEN = ("timeout-masking", (), "certain")


def ended(logs, late, at=""):
    """All ranks time out, but for the `late` ones, who do `at` and lose their peers."""
    return {
        name: text
        + (at + LOST.format(name[4]) if int(name[4]) in late else "")
        + ("" if int(name[4]) in late else TIMED_OUT.format(name[4]))
        for name, text in logs.items()
    }


MERGING = "".join(f"merging the vocabulary {n}%\n" for n in range(0, 100, 25))


def test_the_rank_that_was_at_something_else_is_named(analyzed):
    found = analyzed(ended(loop(0, 1, 2, 3), {3}, MERGING))
    assert named(found) == ("missing-rank", (3,), "likely")


def test_a_rank_that_lost_its_peers_at_the_same_line_waited_as_well(analyzed):
    assert named(analyzed(ended(loop(0, 1, 2, 3), {3}))) == OPEN


@pytest.mark.parametrize("late", [{2, 3}, {1, 2, 3}])
def test_of_many_that_say_something_else_none_is_odd(analyzed, late):
    assert named(analyzed(ended(loop(0, 1, 2, 3), late, MERGING))) == OPEN


def test_rank_0_alone_may_print_what_the_others_do_not(analyzed):
    logs = {f"rank{r}.log": "the model is built\n" for r in range(4)}
    logs["rank0.log"] += "".join(f"step {n} loss 2.5\n" for n in range(5))
    assert named(analyzed(ended(logs, {0}))) == OPEN


def test_who_timed_out_itself_waited_whatever_it_said(analyzed):
    logs = loop(0, 1, 2, 3)
    logs["rank3.log"] += MERGING
    assert named(analyzed(ended(logs, set()))) == OPEN


AT = "2026-08-20 10:00:{:02},000 INFO "


def timed(last, ended):
    """Ranks 0 to 2 give up at second 20; rank 3 logs until `last` and loses them."""
    logs = {}
    for rank in range(4):
        lost = LOST if rank == 3 else TIMED_OUT
        until = last if rank == 3 else 8
        text = "".join(f"{AT.format(n)}shard {n} is read\n" for n in range(0, until, 4))
        at = AT.format(ended if rank == 3 else 20).replace("INFO", "ERROR")
        logs[f"rank{rank}.log"] = f"{text}{at}gave up\n{lost.format(rank)}"
    return logs


def test_who_logs_work_when_all_others_have_given_up_did_not_wait(analyzed):
    found = analyzed(timed(last=40, ended=41))
    assert named(found) == ("straggler", (3,), "likely")
    assert "had not joined" in found.ranked.verdict.headline
    cited = [(cite.source, cite.text) for cite in found.ranked.verdict.evidence]
    assert any(s == "rank3.log" and "shard 36" in text for s, text in cited)


def test_what_is_only_possible_does_not_keep_last_lines_from_being_read(analyzed):
    """A network that may be slow is no cause of a stop."""
    logs = timed(last=40, ended=41)
    logs["rank0.log"] = (
        "gpu0001:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        "gpu0001:7:7 [0] NCCL INFO Using network Socket\n"
    ) + logs["rank0.log"]
    assert named(analyzed(logs)) == ("straggler", (3,), "likely")


HELD = (
    "[rank{0}]:[E820 {1}.000000001 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0"
    "(default_pg) Rank {0}]  failure detected by watchdog at work sequence id: 7 PG "
    "status: last enqueued work: 9, last completed work: 6\n"
)


@pytest.mark.parametrize(("last", "slug"), [(40, "straggler"), (8, None)])
def test_who_joined_when_the_others_had_given_up_is_late_by_its_own_log(
    analyzed, last, slug
):
    """Its watchdog shows that it is in the call; its lines, since when it is not."""
    at = "10:10:00"
    logs = {f"rank{r}.log": timeout(r) + HELD.format(r, at) for r in range(3)}
    text = "".join(
        f"2026-08-20 {9 + (50 + n) // 60:02}:{(50 + n) % 60:02}:00,000 INFO shard {n}\n"
        for n in range(0, last, 2)
    )
    logs["rank3.log"] = text + HELD.format(3, "10:40:41")
    found = analyzed(logs).ranked.verdict
    named = (found.slug, found.ranks) if found and found.ranks else (None, ())
    assert named == ((slug, (3,)) if slug else (None, ()))


def test_who_logged_nothing_since_may_have_waited_as_long(analyzed):
    assert named(analyzed(timed(last=8, ended=41))) == OPEN


@pytest.mark.parametrize(
    ("line", "is_work"),
    [
        ("[rank: 3] Received SIGTERM: 15", False),
        ("got signal 15, saving", False),
        ("received signals of 3 shards", True),
    ],
)
def test_that_a_signal_came_is_no_work(analyzed, line, is_work):
    logs = timed(last=8, ended=41)
    logs["rank3.log"] = logs["rank3.log"].replace("ERROR gave up", f"INFO {line}")
    assert (named(analyzed(logs)) != OPEN) is is_work


CONSOLE = """\
{rank}:INFO:train:epoch 1 batch 10
{rank}:INFO:train:epoch 1 batch 20
{rank}:INFO:train:epoch 1 batch 30
"""
FAILED = """\
E0820 10:00:21.314000 77 torch/distributed/elastic/multiprocessing/api.py:900] failed \
(exitcode: 1) local_rank: 0 (pid: 100) of binary: /usr/bin/python
"""


def test_a_rank_of_a_shared_console_that_is_done_left_the_others(analyzed):
    """The prefix of torchrun tells whose each line is; the agent lists who failed."""
    told = [CONSOLE.format(rank=f"[default{r}]") for r in range(3)]
    told += ["[default2]:INFO:train:the training is finished\n"]
    told += [LOST.format(r).replace("[rank", "[default") for r in range(2)]
    told += [FAILED, table((0, 1, 100, 0), (1, 1, 101, 1))]
    found = analyzed({"console.log": "".join(told)})
    assert named(found) == ("uneven-inputs", (2,), "likely")


def left(*said, waiting="", exits=True):
    """Ranks 0 and 1 lose a peer in a call; rank 2 prints `said` behind its last pass."""
    logs = loop(0, 1, 2)
    logs = {
        name: text + waiting + LOST.format(name[4]) if name[4] != "2" else text
        for name, text in logs.items()
    }
    logs["rank2.log"] += "".join(f"{line}\n" for line in said)
    return logs


@pytest.mark.parametrize(
    "said",
    [
        *("the loader is exhausted after 5 passes", "all epochs done, bye", "exit 0"),
        *("done, 1212 steps", "finished after 3 epochs"),
    ],
)
def test_who_says_that_its_data_ran_out_left_the_others(analyzed, said):
    found = analyzed(left(said))
    assert named(found) == ("uneven-inputs", (2,), "likely")
    assert said in found.ranked.verdict.explanation


def test_who_says_so_as_the_waiting_ranks_do_is_not_told_apart_by_it(analyzed):
    found = analyzed(left("training finished", waiting="training finished\n"))
    assert found.ranked.verdict is None or named(found)[0] != "uneven-inputs"


def test_where_most_ranks_left_the_one_that_stayed_made_a_call_of_its_own(analyzed):
    logs = {n: f"{t}training is complete, exiting\n" for n, t in loop(1, 2, 3).items()}
    logs |= ended(loop(0), set(), "")
    found = analyzed(logs)
    assert named(found)[:2] == ("rank-conditional-collective", (0,))


def working(last, line="wrote part {} of the checkpoint"):
    """Ranks 0 to 2 give up at second 80, after a minute; rank 3 logs until `last`."""
    at = "2026-08-20 10:{:02}:{:02},000 INFO "
    logs = {}
    for rank in range(4):
        text = "".join(f"{at.format(0, n)}shard {n} is read\n" for n in range(0, 20, 4))
        if rank == 3:
            text += "".join(
                f"{at.format(*divmod(n, 60))}{line.format(n)}\n"
                for n in range(20, last, 5)
            )
        timed_out = TIMED_OUT.replace("12000ms", "60000ms").format(rank)
        logs[f"rank{rank}.log"] = text + (timed_out if rank < 3 else "")
    return logs


def test_who_logs_work_until_late_in_the_wait_is_a_straggler(analyzed):
    assert named(analyzed(working(last=75))) == ("straggler", (3,), "likely")


def test_who_logged_only_as_the_wait_began_is_missing(analyzed):
    assert named(analyzed(working(last=30)))[:2] == ("missing-rank", (3,))


def test_what_waiting_ranks_print_as_well_is_no_work(analyzed):
    logs = working(last=75, line="alive {}")
    beat = "".join(
        f"2026-08-20 10:{n // 60:02}:{n % 60:02},000 INFO alive {n}\n"
        for n in range(20, 75, 5)
    )
    for rank in range(3):
        name = f"rank{rank}.log"
        head, trace, rest = logs[name].partition(f"[rank{rank}]: Traceback")
        logs[name] = head + beat + trace + rest
    assert named(analyzed(logs))[0] != "straggler"


def one_element(analyzed, closing):
    """Rank 3 reduces one element where the others reduce a gradient."""
    logs = loop(0, 1, 2, 3)
    for rank in range(4):
        logs[f"rank{rank}.log"] += closing(rank) + timeout(rank).replace(
            "NumelIn=1,", "NumelIn=1," if rank == 3 else "NumelIn=8192,"
        )
    return named(analyzed(logs))[:2]


def test_a_rank_that_says_that_its_epoch_is_over_left_its_loop(analyzed):
    over = "epoch 0 finished: 5 batches\n"
    told = one_element(analyzed, lambda rank: over if rank == 3 else "")
    assert told == ("uneven-inputs", (3,))


def test_an_epoch_that_is_over_for_all_ranks_tells_nothing(analyzed):
    told = one_element(analyzed, lambda _: "epoch 0 finished: 5 batches\n")
    assert told == ("shape-mismatch", (3,))


BAR = "Tokenizing:  {}%|####  | {}/900 [{}:00<09:00, 1.2 examples/s]\n"
BEGAN = "2026-08-20 09:59:00,000 INFO data: tokenizing\n"


def node(first, minutes):
    """Rank `first` of a node draws a bar so long; its seven neighbours time out."""
    drawn = "".join(BAR.format(n, n, n) for n in range(1, minutes + 1))
    others = range(first + 1, first + 8)
    signals = "".join(
        "W0820 10:10:02.000000 900 torch/distributed/elastic/multiprocessing/api.py:900]"
        f" Sending process {4000 + first} closing signal SIGTERM\n"
        for _ in range(1)
    )
    rows = table(*((r, -6, 4000 + r) for r in others), host=f"gpu{first}")
    return BEGAN + drawn + "".join(map(timeout, others)) + signals + rows


@pytest.mark.parametrize(
    ("minutes", "ranks"), [((5, 10), (8,)), ((10, 5), (0,)), ((10, 10), (0, 8))]
)
def test_of_two_silent_ranks_the_one_that_still_draws_its_bar_is_at_work(
    analyzed, minutes, ranks
):
    files = {f"node{n}.log": node(8 * n, m) for n, m in enumerate(minutes)}
    found = analyzed(files).ranked.verdict
    assert (found.slug, found.ranks) == ("straggler", ranks)


SIGNAL = (
    "[rank3]:[E820 10:10:00.700000000 ProcessGroupNCCL.cpp:1620] [PG ID 0 PG GUID 0("
    "default_pg) Rank 3] Observed flight recorder dump signal from another rank via "
    "TCPStore.\n"
)
WORDS = "2026-08-20 {} rank 3 INFO cache: {}\n"


@pytest.mark.parametrize(
    ("late", "slug"),
    [("10:02:00,000", "missing-rank"), ("10:13:21,590", "straggler")],
)
def test_who_logs_its_work_after_another_asked_for_dumps_is_at_work(
    analyzed, late, slug
):
    logs = loop(0, 1, 2, 3)
    own = WORDS.format("10:00:01,000", "statistics are missing")
    after = WORDS.format(late, "statistics recomputed")
    before, behind = (after, "") if slug == "missing-rank" else ("", after)
    files = {n: t + timeout(int(n[4])) for n, t in logs.items() if n != "rank3.log"}
    files["rank3.log"] = logs["rank3.log"] + own + before + SIGNAL + behind
    found = analyzed(files).ranked.verdict
    assert (found.slug, found.ranks) == (slug, (3,))


def stage(rank, function, op, warned=""):
    """The log of a rank that timed out in `op`, within a function of its program."""
    steps = "".join(f"INFO step {n}: 6 forward, 6 backward\n" for n in range(4))
    return (
        f"{steps}{warned}[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/pipe.py", line 27, in {function}\n'
        f"[rank{rank}]:     dist.{op}(x)\n"
        f'[rank{rank}]:   File "/venv/lib/python3.11/site-packages/torch/distributed/'
        f'distributed_c10d.py", line 2799, in {op}\n'
        f"[rank{rank}]:     work.wait()\n"
        f"[rank{rank}]: RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78]"
        " Timed out waiting 60000ms for recv operation to complete\n"
    )


DROPPED = "WARNING step 4 mb 4: dropping the micro-batch\n"
PIPE = {1: "backward", 3: "backward", 5: "forward", 7: "forward"}


@pytest.mark.parametrize(
    ("warned", "ranks"), [((3,), (3,)), ((5,), (5,)), ((), ()), ((3, 5), ())]
)
def test_of_two_that_wait_for_each_other_the_one_with_a_last_line_of_its_own_is_odd(
    analyzed, warned, ranks
):
    logs = {f"rank{r}.log": stage(r, "reduce", "all_reduce") for r in range(0, 8, 2)}
    for rank, way in PIPE.items():
        line = DROPPED if rank in warned else ""
        logs[f"rank{rank}.log"] = stage(rank, f"recv_{way}", "recv", line)
    found = analyzed(logs).ranked.verdict
    named = () if found is None else (found.slug, *found.ranks)
    assert named[1:] == ranks
    assert not ranks or named[0] == "unmatched-p2p"


def test_who_waits_since_its_own_last_line_does_not_make_others_late(analyzed):
    """A shipper stamped the end of a wait of 12 seconds like the line above it."""
    at = "2026-08-20T10:00:01Z stderr F "
    logs = {}
    for rank in range(4):
        work = f"2026-08-20 10:00:01,{rank}00 INFO shard {rank} is read\n"
        wait = TIMED_OUT.format(rank) if rank < 3 else ""
        lines = (work + wait).splitlines(keepends=True)
        logs[f"rank{rank}.log"] = "".join(at + line for line in lines)
    found = analyzed(logs).ranked
    assert "straggler" not in [f.slug for _, f in found.findings]


def snapshot(count):
    """Return dumps in which rank 0 is not in the barrier, and its log of 90 s since."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    began = 1_795_168_800 * 10**9  # 2026-11-20 10:00:00
    told = {}
    for rank in range(4):
        entries = [
            {
                "record_id": n,
                "collective_seq_id": n,
                "process_group": ["0", "default_pg"],
                "profiling_name": "nccl:all_reduce",
                "state": "scheduled" if n == 9 else "completed",
                "retired": n < 9,
                "timeout_ms": 1_800_000,
                "time_created_ns": began + n,
            }
            for n in range(1, 10 if rank else 9)
        ]
        dump = {"version": "2.9", "pg_config": config, "entries": entries}
        told[f"nccl_trace_rank_{rank}.json"] = json.dumps(dump)
    lines = [
        f"2026-11-20 10:{s // 60:02d}:{s % 60:02d},000 INFO saved {count(s)} of the state\n"
        for s in range(10, 100, 10)
    ]
    return {**told, "rank_0.log": "".join(lines)}


@pytest.mark.parametrize(
    ("count", "moves"),
    [
        (lambda s: f"shard {s // 10}/12", True),
        (lambda s: f"{s / 2:.1f}%", True),
        (lambda _: "48%", False),
        (lambda s: f"{s // 10} GB", False),  # of how many, nothing tells
    ],
    ids=["part", "share", "constant", "no end"],
)
def test_a_count_that_goes_on_in_the_awaited_rank_s_log_shows_it_at_work(
    analyzed, count, moves
):
    found = analyzed(snapshot(count))
    verdict = found.ranked.verdict
    assert (verdict is None) is moves
    assert (found.ranked.outcome == "no-failure") is moves
    if verdict is not None:
        assert (verdict.slug, verdict.ranks) == ("missing-rank", (0,))
        assert verdict.confidence == "possible"
