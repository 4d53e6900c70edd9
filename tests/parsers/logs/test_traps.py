"""Real spellings that break naive parsers; numbered as in the catalog of formats."""

import polars as pl
import pytest

from ncclforensics.parsers.logs import grammar
from ncclforensics.parsers.logs.event_rows import recognise

TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before "
    "timing out."
)


def read(*raw):
    lines = pl.DataFrame(
        {"line": range(1, len(raw) + 1), "raw": raw},
        schema={"line": pl.Int64, "raw": pl.String},
    )
    return recognise(lines, lines.height, grammar.load())


def captured(message, *raw, columns):
    return read(*raw).message(message).select(columns).rows()


def stamps(*raw):
    return read(*raw)["events"]["yearless"].dt.to_string("%m-%d %H:%M:%S").to_list()


def test_s2_the_rank_in_a_works_prefix_is_not_believed():
    line = f"[rank5]:[E602 10:00:00.1 ProcessGroupNCCL.cpp:1] [Rank 1] {TIMEOUT}"
    assert captured("c10d.watchdog.timeout", line, columns=["rank"]) == [(5,)]
    bare = f"[E ProcessGroupNCCL.cpp:475] [Rank 1] {TIMEOUT}"
    assert captured("c10d.watchdog.timeout", bare, columns=["rank"]) == [(None,)]


def test_s2_the_rank_in_a_groups_prefix_is_the_groups():
    line = (
        "[rank5]:[E602 10:00:00.1 ProcessGroupNCCL.cpp:1] [PG ID 2 PG GUID 7(TP (x)) "
        "Rank 1]  failure detected by watchdog at work sequence id: 7 PG status: last "
        "enqueued work: 9, last completed work: 6"
    )
    told = captured(
        "c10d.watchdog.status", line, columns=["rank", "group_rank", "pg", "pg_desc"]
    )
    assert told == [(5, 1, "7", "TP (x)")]


@pytest.mark.parametrize(
    ("mark", "date"), [("E602", "06-02"), ("E1120", "11-20"), ("E111", "01-11")]
)
def test_s4_s5_both_spellings_of_a_date_are_the_same_day(mark, date):
    cpp = (
        f"[rank5]:[{mark} 10:00:00.987654321 ProcessGroupNCCL.cpp:1] [Rank 5] {TIMEOUT}"
    )
    padded = f"{mark[0]}{int(mark[1:]):04d}"
    python = (
        f"{padded} 10:00:00.123000 32974 torch/distributed/elastic/multiprocessing/"
        "api.py:900] Sending process 77 closing signal SIGTERM"
    )
    assert stamps(cpp) == stamps(python) == [f"{date} 10:00:00"]


@pytest.mark.parametrize(
    "header",
    [
        "gpu0001:41:43 [0] misc/socket.cc:57 NCCL WARN ",
        "[2026-06-23 15:45:07] gpu0001:41:43 [0] misc/socket.cc:57 NCCL WARN ",
        "[2026-06-23 15:45:07] gpu0001:41:43 [0] os/linux.cc:57 (open) NCCL WARN ",
        "[2026-06-23 15:45:07] gpu0001:41:43 [0] /a b/misc/socket.cc:57 NCCL WARN ",
    ],
)
@pytest.mark.parametrize(
    "decoration",
    ["", "[default0]:", "3: ", "[1,0]<stdout>:", "\x1b[36m(W pid=1)\x1b[0m "],
)
def test_s6_s29_a_warning_follows_an_empty_line_in_every_form(header, decoration):
    text = "Net : Connection closed by remote peer gpu0002<48956>"
    frames = read(decoration, f"{decoration}{header}{text}")
    (event,) = frames["events"].filter(pl.col("level") == "WARN").to_dicts()
    assert (event["host"], event["pid"], event["line"]) == ("gpu0001", 41, 2)


def test_s7_a_clock_time_is_no_host():
    line = (
        "Fri Aug 11 12:31:45 2023[1,3]<stdout>:gpu0001:41:43 [0] NCCL INFO Using "
        "network IB"
    )
    told = captured("nccl.net.selected", line, columns=["host", "pid", "rank"])
    assert told == [("gpu0001", 41, 3)]


START = "cudaDev 0 nvmlDev 0 busId 7000"


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        (f"comm 0x1 rank 3 nranks 8 {START} commId 0xab - Init START", "START"),
        (f"comm 0x1 rank 3 nranks 8 {START} commId 0xab - Init COMPLETE", "COMPLETE"),
        (
            f"[Rank 3] ncclCommInitRank comm 0x1 rank 3 nranks 8 {START} commId 0xab - "
            "Init START",
            "START",
        ),
        (
            f"ncclCommSplit comm 0x1 rank 3 nranks 8 {START} parent 0x2 splitCount 4 "
            "color 7 key 0- Init START",
            "START",
        ),
        (
            f"ncclCommSplit comm 0x1 rank 3 nRanks 8 {START} parent 0x2 color 7 "
            f"key 0 - "
            "Init COMPLETE",
            "COMPLETE",
        ),
    ],
)
def test_s12_every_spelling_of_an_init_line_is_read(text, phase):
    message = f"nccl.init.{phase.lower()}"
    told = captured(
        message, f"h:1:2 [0] NCCL INFO {text}", columns=["comm_rank", "nranks", "rank"]
    )
    assert told == [(3, 8, None)]


def test_s15_an_expected_failure_at_info_is_no_sign_of_failure():
    text = "Cuda failure 1 'invalid argument'"
    warn = read(f"h:1:2 [0] transport/nvls.cc:598 NCCL WARN {text}")["events"]
    info = read(f"h:1:2 [0] NCCL INFO transport/nvls.cc:598 {text}")["events"]
    assert set(info["role"]) <= {"neutral"}
    assert warn.height == 1


def test_s16_a_fingerprint_without_its_comma_is_read():
    line = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is "
        "running "
        "collective: CollectiveFingerPrint(SequenceNumber=0OpType=BARRIER), but Rank 1 "
        "is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType="
        "ALLREDUCE, TensorShape=[8], TensorDtypes=Float, "
        "TensorDeviceTypes=TensorOptions("
        "dtype=float (default), device=cpu, layout=Strided (default), requires_grad="
        "false (default), pinned_memory=false (default), memory_format=(nullopt)))."
        "Collectives differ in the following aspects: \t Sequence number: 0vs 4"
    )
    told = captured("c10d.fingerprint", line, columns=["group_rank", "op"])
    assert (0, "BARRIER") in told


@pytest.mark.parametrize("junk", ["76280750235782912", "18446744073709551615", "-1"])
def test_s17_a_counter_of_uninitialised_memory_is_no_line_lost(junk):
    line = (
        "[rank4]:[E ProcessGroupNCCL.cpp:1182] [PG 3 Rank 1] Timeout at NCCL "
        "work: 9141, "
        f"last enqueued NCCL work: 9143, last completed NCCL work: {junk}."
    )
    told = captured(
        "c10d.watchdog.status", line, columns=["timed_out", "last_enqueued"]
    )
    assert told == [(9141, 9143)]


def test_s19_a_long_line_that_srun_labelled_twice_is_whole():
    line = f"[rank5]:[E602 10:00:00.1 ProcessGroupNCCL.cpp:1] [Rank 1] {TIMEOUT}"
    frames = read(f" 5: {line[:190]}", f" 5: {line[190:]}")
    assert frames.message("c10d.watchdog.timeout")["timed_out"].to_list() == [7]


@pytest.mark.parametrize(
    "end",
    [
        "DUE TO TIME LIMIT ***",
        "DUE TO PREEMPTION ***",
        "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        "DUE to SIGNAL Terminated ***",
        "***",
    ],
)
@pytest.mark.parametrize("before", ["", " 10%|#    | 1/10 [00:01<00:09,  1.0s/it]"])
def test_s20_slurm_writes_into_other_lines(end, before):
    line = (
        f"{before}slurmstepd: error: *** STEP 77.0 ON gpu0001 CANCELLED AT "
        f"2026-11-20T21:52:36 {end}"
    )
    assert read(line).message("slurm.cancelled").height == 1


@pytest.mark.parametrize("number", ["15", "Signals.SIGTERM"])
def test_s22_a_signal_is_a_number_or_a_name(number):
    line = (
        "W0801 13:23:17.366000 32974 "
        "torch/distributed/elastic/agent/server/api.py:900] "
        f"Received {number} death signal, shutting down workers"
    )
    assert read(line).message("torchelastic.signalled").height == 1


def test_s24_a_prefix_that_is_there_twice_is_taken_off_twice():
    prefix = "[PG ID 0 PG GUID 0(default_pg) Rank 2] "
    line = (
        f"[rank2]:[F602 10:00:00.1 ProcessGroupNCCL.cpp:1] {prefix}{prefix}Terminating "
        "the process after attempting to dump debug info, due to collective timeout or "
        "exception."
    )
    told = captured("c10d.heartbeat.terminate", line, columns=["rank", "pg"])
    assert told == [(2, "0")]


def test_s26_a_lost_gpu_may_take_three_lines():
    lines = (
        "[ 1843.300001] NVRM: The NVIDIA GPU 0000:3b:00.0",
        "[ 1843.300002] NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "[ 1843.300003] NVRM: fallen off the bus and is not responding to commands.",
    )
    assert any(name.startswith("kernel.gpu") for name in read(*lines).messages)


def test_two_writers_of_one_line_are_both_heard():
    line = "gpu0001:41:43 [2] NCCL INFO gpu0001:42:44 [7] NCCL INFO Using network IB"
    assert captured("nccl.net.selected", line, columns=["pid", "device"]) == [(42, 7)]


def test_a_progress_bar_in_front_of_a_c10_line_is_no_part_of_it():
    bar = "Loss 0.1: 50%|#####     | 24/48 [01:08<1:22:03,  2.88s/it]"
    line = f"{bar}[rank5]:[E602 10:00:00.1 ProcessGroupNCCL.cpp:1] [Rank 1] {TIMEOUT}"
    assert captured("c10d.watchdog.timeout", line, columns=["rank"]) == [(5,)]


@pytest.mark.parametrize(
    "decoration",
    [
        "[default5]:",
        "[1,5]<stderr>:",
        "[prterun-h-1@1,5]<stderr>:",
        "[5]<stderr>:",
        " 5: ",
        "[pod/worker-5/pytorch] ",
        "2026-03-01T10:00:00.123456789Z stderr F ",
        "worker-1: ",
        "stderr: ",
        "\x1b[36m(RayTrainWorker pid=615, ip=10.0.0.6)\x1b[0m ",
        "> ",
        "2026-03-01T10:00:00Z 5: [default5]:",
    ],
)
def test_s18_s29_a_message_is_heard_behind_every_decoration(decoration):
    header = "[rank5]:[E602 10:00:00.1 ProcessGroupNCCL.cpp:1] [Rank 1] "
    line = f"{decoration}{header}{TIMEOUT}"
    assert captured("c10d.watchdog.timeout", line, columns=["rank"]) == [(5,)]
