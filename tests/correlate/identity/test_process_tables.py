"""Ray's workers: which process is which rank, and whose traceback its driver quotes."""

import pytest

from log_lines import xid

TABLE = "(TrainController pid=90) - (ip={host}, pid={pid}) world_rank={rank}, local_rank={rank}, node_rank=0\n"
LATE = "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 25000ms for recv operation to complete"


def raised(last, head=""):
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 12, in loop',
        "    loss.backward()",
        last,
    )
    return "".join(f"{head}{line}\n" for line in lines)


def table(*pids, host="10.20.0.12"):
    return "".join(
        TABLE.format(host=host, pid=pid, rank=rank) for rank, pid in enumerate(pids)
    )


def ranks(frames, message):
    return frames.message(message)["rank"].to_list()


def test_a_process_on_the_drivers_node_is_the_one_of_the_table(analyzed):
    head = "(RayTrainWorker pid=403) "
    text = table(401, 402, 403) + raised("ValueError: short record", head)
    found = analyzed({"driver.log": text})
    assert ranks(found.frames, "python.traceback") == [2]
    assert found.ranked.verdict.ranks == (2,)


def test_a_number_that_two_hosts_have_is_of_no_one(analyzed):
    head = "(RayTrainWorker pid=401) "
    both = table(401) + table(400, 401, host="10.20.0.13")
    found = analyzed({"driver.log": both + raised("ValueError: short record", head)})
    assert ranks(found.frames, "python.traceback") == [None]


def test_a_quoted_traceback_is_of_each_rank_in_its_heading(analyzed):
    text = table(401, 402, 403, 404) + "[Rank 0 Error Snippet]:\n" + raised(LATE)
    text += "\n[Rank 1,2 Error Snippet]:\n" + raised(LATE)
    found = analyzed({"driver.log": text})
    assert sorted(ranks(found.frames, "c10d.gloo.timeout")) == [0, 1, 2]
    verdict = found.ranked.verdict
    assert (verdict.slug, verdict.ranks) == ("missing-rank", (3,))


def test_a_traceback_that_is_not_below_the_heading_is_not_theirs(analyzed):
    text = "[Rank 1,2 Error Snippet]:\n\n" + raised("ValueError: short record")
    assert ranks(analyzed({"driver.log": text}).frames, "python.traceback") == [None]


STARTED = (
    "[2026-11-20 10:00:00,245] [INFO] [launch.py:245:main] process {pid} spawned with "
    "command: ['python3', '-u', 'train.py', '--local_rank={rank}']\n"
)
LEFT = "[2026-11-20 10:09:00,388] [INFO] [launch.py:285:main] Process {} exits successfully.\n"
CLOSED = "[rank{}]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:24465."


def test_the_child_of_deepspeed_that_exited_in_peace_is_a_rank(analyzed):
    text = "".join(STARTED.format(pid=400 + rank, rank=rank) for rank in range(4))
    lost = "".join(
        raised(CLOSED.format(rank)[9:], f"[rank{rank}]: ") for rank in (0, 1, 3)
    )
    found = analyzed({"job.log": text + LEFT.format(402) + lost}).ranked.verdict
    assert (found.slug, found.ranks) == ("uneven-inputs", (2,))


@pytest.mark.parametrize(("hosts", "local"), [(1, 2), (2, None)])
def test_of_another_stream_the_numbers_may_be_of_another_node(analyzed, hosts, local):
    text = "".join(STARTED.format(pid=400 + rank, rank=rank) for rank in range(4))
    kernel = "".join(xid(31, host=f"gpu000{n}") for n in range(hosts))
    files = {"job.log": text, "other.log": LEFT.format(402), "kern.log": kernel}
    assert analyzed(files).frames["exits"]["local_rank"].to_list() == [local]


RECORD = "2026-11-20 10:00:00,123 {} [rank 3] trainer.py:88 {}\n"


def test_a_traceback_below_an_error_record_is_of_the_records_rank(analyzed):
    log = RECORD.format("ERROR", "batch failed") + raised("ValueError: short record")
    assert ranks(analyzed({"job.log": log}).frames, "python.traceback") == [3]


def test_below_a_record_of_progress_it_may_be_of_any(analyzed):
    log = RECORD.format("INFO", "step 8 loss 1.5") + raised("ValueError: short record")
    assert ranks(analyzed({"job.log": log}).frames, "python.traceback") == [None]
