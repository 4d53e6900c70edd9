"""A whole log: what is recognised, where, and what damage leaves as a note."""

import gzip
import json

import pytest

from ncclforensics.model import tables
from ncclforensics.parsers import parse
from ncclforensics.sources import discover

USING = "gpu0001:{pid}:{pid} [0] NCCL INFO Using network Socket\n"
TIMEOUT = (
    "[rank{rank}]:[E602 10:00:00.1 ProcessGroupNCCL.cpp:1] [Rank 0] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
)


@pytest.fixture
def read(tmp_path):
    def run(data, name="job.log"):
        folder = tmp_path / "evidence"
        folder.mkdir()
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        (source,) = discover([str(folder)], tmp_path / "scratch").sources
        return parse(source)

    return run


def places(frames, message="nccl.net.selected"):
    return frames.message(message)["line"].to_list()


def timeouts(frames):
    return frames.message("c10d.watchdog.timeout").select("rank", "timed_out").rows()


def test_every_recognised_line_cites_its_own_number(read):
    text = "x\n" * 700 + USING.format(pid=1) + "y\n" * 700 + USING.format(pid=2)
    frames = read(text)
    assert places(frames) == [701, 1402]
    assert frames["sources"].select("lines", "cut").row(0) == (1402, False)


def test_a_log_without_any_message_gives_its_count_and_nothing_else(read):
    frames = read("hello\nworld\n")
    assert frames["events"].is_empty()
    assert frames["sources"]["lines"].to_list() == [2]


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_log_that_ends_inside_a_line_is_cut(read, end):
    frames = read(
        USING.format(pid=1) + "gpu0001:1:1 [0] NCCL INFO AllReduce: opC" + end
    )
    assert frames["sources"]["cut"].to_list() == [not end]


def test_an_archive_that_is_cut_is_a_note_and_its_beginning_is_read(read):
    noise = "".join(f"{i * i} {i * 7919 % 104729}\n" for i in range(20_000))
    data = gzip.compress((USING.format(pid=1) + noise).encode())
    frames = read(data[: len(data) // 2], "job.log.gz")
    assert places(frames) == [1]
    assert "reading stopped after line" in frames["notes"]["text"][0]
    assert frames["sources"]["cut"].to_list() == [True]


def test_bad_bytes_around_a_message_do_not_hide_it(read):
    frames = read(b"\xfd\xfe\xff\n" + USING.format(pid=1).encode() + b"\xc3\x28\n")
    assert places(frames) == [2]
    assert "invalid UTF-8 on 2 lines" in frames["notes"]["text"][0]


def test_nul_bytes_that_a_crash_left_do_not_hide_a_message(read):
    frames = read(b"\0" * 40 + TIMEOUT.format(rank=3, seq=5).encode())
    assert timeouts(frames) == [(3, 5)]


def test_a_log_in_utf_16_is_read(read):
    text = "hello\n" * 20 + TIMEOUT.format(rank=3, seq=5)
    assert timeouts(read(("\ufeff" + text).encode("utf-16-le"))) == [(3, 5)]


def test_a_progress_bar_of_many_megabytes_hides_no_message(read):
    bar = "\r 10%|###       | 1/10 [00:01<00:09,  1.00it/s]" * 40_000
    text = bar + "\r" + USING.format(pid=1).strip() + bar + "\n" + USING.format(pid=2)
    assert places(read(text)) == [1, 2]


def test_a_line_that_docker_split_is_one_message(read):
    log = TIMEOUT.format(rank=3, seq=5)
    pieces = [log[:90], log[90:200], log[200:]]
    text = "".join(
        json.dumps({"log": p, "stream": "stderr", "time": "2026-06-02T10:00:00Z"})
        + "\n"
        for p in pieces
    ).replace('": "', '":"')
    frames = read(text)
    assert timeouts(frames) == [(3, 5)]
    assert places(frames, "c10d.watchdog.timeout") == [1]


def test_a_line_that_srun_split_is_one_message(read):
    log = TIMEOUT.format(rank=3, seq=5)
    text = f"3: {log[:190]}\n0: {USING.format(pid=1)}3: {log[190:]}"
    assert timeouts(read(text)) == [(3, 5)]


def test_a_line_that_a_terminal_wrapped_is_one_message(read):
    log = TIMEOUT.format(rank=3, seq=5).strip()
    wrapped = "\n".join(log[i : i + 80] for i in range(0, len(log), 80))
    assert timeouts(read(f"{wrapped}\n")) == [(3, 5)]


def test_a_warning_of_cuda_wrapped_before_its_words_is_one_message(read):
    log = (
        "transport/shm.cc:590 NCCL WARN Cuda failure 217\n"
        "  'peer access is not supported between these two devices'\n"
    )
    frames = read(log)
    told = frames.message("nccl.cuda.failure")
    assert told["error"].to_list() == [log.split("'")[1]]
    assert frames.message("nccl.warn").is_empty()


def test_a_message_under_another_line_is_not_that_lines(read):
    """Line 1 holds a needle of what line 2 says, and nothing of it."""
    log = (
        "[rank3]: driver: 570.1 on this host\n"
        "RuntimeError: CUDA driver version is insufficient for CUDA runtime version\n"
    )
    assert places(read(log), "python.driver_old") == [2]


def test_half_of_the_lines_may_be_gone(read):
    text = "".join(TIMEOUT.format(rank=r, seq=5) for r in range(20))
    kept = "".join(text.splitlines(keepends=True)[::2])
    assert [rank for rank, _ in timeouts(read(kept))] == list(range(0, 20, 2))


def test_a_table_whose_values_are_lost_keeps_the_types_of_its_columns(read):
    """Half of torchelastic's table: no child of it has a rank, a pid or a host."""
    table = (
        "Root Cause (first observed failure):\n[0]:\n"
        "  exitcode  : 1 (pid: x)\n  traceback : To enable\n"
    )
    events = read(table).message("torchelastic.child_failed")
    types = tables.SCHEMAS["events"]
    assert {c: events.schema[c] for c in types} == dict(types)


def test_a_message_is_not_found_on_the_line_above_its_own(read):
    lines = ("srun: job 7 has been allocated resources", "srun: Terminating StepId=7.0")
    frames = read("\n".join(lines) + "\n")
    assert places(frames, "slurm.teardown") == [2]


def test_a_rank_s_line_behind_a_progress_bar_is_a_line_of_its_own(read):
    bar = "Epoch 0:  16%|#6| 7395/45743 [13:13:43<68:36:00,  6.44s/it, loss: 0.08]"
    text = bar + "[rank3]: Traceback (most recent call last):\n"
    text += '[rank3]:   File "/job/train.py", line 8, in step\n[rank3]:     save()\n'
    text += "[rank3]: ValueError: the batch is empty\n"
    (row,) = read(text).message("python.traceback").select("rank", "exception").rows()
    assert row == (3, "ValueError")


NOTIFY = (
    "EI0002: The wait execution of the Notify register times out. Reason: The Notify "
    "register has not received the Notify record from remote rank [{}].base information\n"
)


@pytest.mark.parametrize(("rank", "read_as"), [(3, 3), (4294967295, None)])
def test_a_number_that_no_job_reaches_is_no_rank_in_any_capture(read, rank, read_as):
    frames = read(NOTIFY.format(rank))
    assert frames.message("hccl.notify_timeout")["missing"].to_list() == [read_as]
    told = [text for text in frames["notes"]["text"] if "missing beyond" in text]
    assert bool(told) is (read_as is None)


def test_a_span_counts_the_lines_that_hold_a_prefix_alone(analyzed):
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 8, in step',
        "    loss.backward(gradient)",
        "",
        "^^^^^^^^^^^^^^^^^^^^^^^",
        "ValueError: loss is nan",
    )
    log = "".join(f"[rank1]: {line}\n" for line in lines).replace(": \n", ":\n")
    frame = analyzed({"rank_1.log": log}).frames.message("python.traceback")
    assert frame.select("line", "span").rows() == [(1, 6)]
