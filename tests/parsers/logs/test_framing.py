"""What a line's decorations and header say, and what is left of it as the message."""

from datetime import UTC, datetime

import polars as pl
import pytest

from ncclforensics.parsers.logs.framing import frame


def framed(*lines):
    numbered = {"line": range(1, len(lines) + 1), "raw": lines}
    return frame(pl.DataFrame(numbered, schema={"line": pl.Int64, "raw": pl.String}))


def only(line):
    segments = framed(line)
    assert segments.height == 1, segments
    return segments.row(0, named=True)


NCCL = "gpu0007:4121:4302 [3]"


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        (f"{NCCL} NCCL INFO Using network IB", "INFO", "Using network IB"),
        (f"{NCCL} misc/socket.cc:57 NCCL WARN Net : x", "WARN", "Net : x"),
        (
            f"[2026-04-06 22:31:56] {NCCL} transport/nvls.cc:598 NCCL WARN Cuda failure",
            "WARN",
            "Cuda failure",
        ),
        (f"[2026-04-06 22:31:56] {NCCL} a.cc:5 (open) NCCL WARN x", "WARN", "x"),
        (
            f"{NCCL} int f(std::vector<a, b>&):12 NCCL WARN NET/OFI x",
            "WARN",
            "NET/OFI x",
        ),
        ("gpu0007:4121:4302 NCCL CALL ncclAllReduce(1)", "CALL", "ncclAllReduce(1)"),
    ],
)
def test_every_nccl_header_is_taken_off(line, level, text):
    told = only(line)
    assert (told["header"], told["level"], told["text"]) == ("nccl", level, text)
    assert (told["host"], told["pid"]) == ("gpu0007", 4121)
    assert told["rank"] is None


def test_the_device_of_a_header_is_never_a_rank():
    told = only(f"{NCCL} NCCL INFO Using network IB")
    assert (told["device"], told["rank"]) == (3, None)


def test_a_scrubbed_nccl_header_is_still_one():
    told = only("[1] misc/shmutils.cc:103 NCCL WARN Error: x")
    assert (told["header"], told["device"], told["text"]) == ("nccl", 1, "Error: x")
    assert told["host"] is None


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[E ProcessGroupNCCL.cpp:475] stuck", None),
        ("[rank5]:[E ProcessGroupNCCL.cpp:563] stuck", 5),
        ("[rank5]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:1709] stuck", 5),
        ("rank5]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:1709] stuck", 5),
        ("[rank5[]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:1709] stuck", 5),
    ],
)
def test_every_c10_header_is_taken_off(line, rank):
    told = only(line)
    assert (told["header"], told["text"], told["rank"]) == ("c10", "stuck", rank)


@pytest.mark.parametrize("year", ["", "/26"])
def test_logging_and_rich_stamp_lines_by_month_and_day(year):
    told = only(f"[06/21{year} 10:25:10][rank 17] index map is ready")
    assert told["yearless"] == datetime(1972, 6, 21, 10, 25, 10, tzinfo=UTC)
    assert (told["rank"], told["text"]) == (17, "[rank 17] index map is ready")
    # that is no date
    assert only("[3/4 10:25:10] shards")["yearless"] is None


@pytest.mark.parametrize(
    ("stamp", "month", "day"), [("E602", 6, 2), ("E1120", 11, 20), ("E111", 1, 11)]
)
def test_the_date_of_c10_is_the_month_times_100_plus_the_day(stamp, month, day):
    told = only(f"[{stamp} 18:37:01.833621509 socket.cpp:207] x")
    assert told["t"] is None
    assert told["yearless"] == datetime(1972, month, day, 18, 37, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "line",
    [
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 7",
        "[2026-05-08 08:47:31,261] torch.distributed.elastic.agent: [ERROR] Sending "
        "process 7",
        "W0726 10:59:50.786825 140538811684672 torch/distributed/run.py:8] Sending "
        "process 7",
        "W0801 13:23:17.366000 32974 /opt/venv/torch/distributed/run.py:9] Sending "
        "process 7",
    ],
)
def test_every_python_header_is_taken_off(line):
    assert only(line)["text"] == "Sending process 7"


def test_a_thread_ident_is_no_pid():
    assert (
        only("W0726 10:59:50.786825 140538811684672 torch/run.py:8] x")["pid"] is None
    )
    assert only("W0801 13:23:17.366000 32974 torch/run.py:9] x")["pid"] == 32974


GROUPS = [
    ("[PG 1 Rank 5] ", ("1", None, None)),
    ("[PG 1 (mesh_tp) Rank 5] ", ("1", None, "mesh_tp")),
    ("[PG ID 1 PG GUID 35(TP (inner)) Rank 5] ", ("1", "35", "TP (inner)")),
    ("[PG ID 1 PG GUID 35 Rank 5]  ", ("1", "35", None)),
    ("[PG ID 1 PG GUID 35(tp) Rank 5] " * 2, ("1", "35", "tp")),
]


@pytest.mark.parametrize(("prefix", "group"), GROUPS)
def test_the_group_prefix_names_the_group_and_its_own_rank(prefix, group):
    told = only(f"[rank9]:[E602 18:37:01.1 ProcessGroupNCCL.cpp:1] {prefix}failure")
    assert (told["pg_id"], told["pg"], told["pg_desc"]) == group
    assert (told["rank"], told["group_rank"], told["text"]) == (9, 5, "failure")


DECORATED = [
    ("[default3]:boom", {"local_rank": 3, "rank": None}),
    ("[rank3]: boom", {"rank": 3}),
    ("[4]: [rank12]: boom", {"rank": 12}),
    ("train/0 [default3]:[rank11]: boom", {"local_rank": 3, "rank": 11}),
    ("[default3]:[rank11]: boom", {"local_rank": 3, "rank": 11}),
    ("[1,4]<stderr>:boom", {"rank": 4}),
    ("[prterun-gpu0001-77@1,4]<stderr>:boom", {"rank": 4}),
    ("[4]<stdout>:boom", {"rank": 4}),
    ("Fri Aug 11 12:31:45 2023[1,4]<stdout>:boom", {"rank": 4, "host": None}),
    (" 7: boom", {"task": 7, "rank": None}),
    ("P0  7: boom", {"task": 7}),
    ("[pod/train-worker-0/pytorch] boom", {"host_alias": "train-worker-0"}),
    ("worker-1: boom", {"host": "worker-1"}),
    ("(RayTrainWorker pid=615, ip=10.0.0.6) boom", {"pid": 615, "host": "10.0.0.6"}),
    ("(MapWorker(MapBatches(X)) pid=4, ip=10.0.0.6) boom", {"pid": 4}),
    ("\x1b[36m(raylet pid=5)\x1b[0m boom", {"pid": 5}),
    ("2026-01-02T03:04:05.123456789Z stderr F boom", {"rank": None}),
    ("2026-01-02 03:04:05.123 | INFO     | boom", {"rank": None}),
    ('time="2026-01-02T03:04:05Z" boom', {"rank": None}),
    ("ts=2026-01-02T03:04:05.123Z boom", {"rank": None}),
    ("    Fri Aug 11 12:31:45 2023[1,4]<stdout>:boom", {"rank": 4}),
    ("\t[default3]:[rank11]: boom", {"local_rank": 3, "rank": 11}),
    ("nccl-test-0-1  | boom", {"host_alias": "nccl-test-0-1"}),
    ("stderr: boom", {}),
    ("> > boom", {}),
    ("\x1b[31mboom\x1b[0m", {}),
    ("Aug  9 15:36:05 gpu0003 kernel: boom", {"host": "gpu0003"}),
    ("messages:Aug  9 15:36:05 gpu0003 kernel: boom", {"host": "gpu0003"}),
    (
        "/var/log/messages.1-88-Aug  9 15:36:05 gpu0003 kernel: boom",
        {"host": "gpu0003"},
    ),
    ("[ 1843.305512] boom", {}),
    ("[Thu Feb 14 05:03:41 2026] boom", {}),
    ("kern  :warn  : 2026-01-21T04:41:44,285060+00:00 boom", {}),
    ('{"log":"boom\\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}', {}),
]


@pytest.mark.parametrize(("line", "who"), DECORATED)
def test_every_decoration_is_peeled_and_remembered(line, who):
    told = only(line)
    assert told["text"] == "boom"
    assert {key: told[key] for key in who} == who


TAGGED = [
    ("11/25 17:43:24 rank 2: step 20 loss 1.5", 2),
    ("1795628912.717 rank=2 step 10", 2),
    ("2026-05-19 06:06:55 [r2] e0 b1200 loss=4.3", 2),
    ("07:34:39 r2 it=228 data=2.4ms", 2),
    ("r2| saves the model", 2),
    ("10-14 03:21:07.124 rank02 it=00001 begin", 2),
    ("2026-10-14 03:21:11,818 gpu7 trainer[r2] INFO step=10", 2),
    ("trainer[2] INFO step=10", None),
    ("rank 2: 812.5, rank 3: 815.0", None),
    ("r2 of the review", None),
    ("rank 2 failed", None),
]


@pytest.mark.parametrize(("line", "rank"), TAGGED)
def test_a_program_names_the_rank_that_prints(line, rank):
    assert only(line)["rank"] == rank


def test_seconds_since_1970_and_a_bare_month_and_day_are_times():
    told = framed("1795628912.717 boom", "11/25 17:43:24 boom")
    assert str(told["t"][0]).startswith("2026-11-25 17:48:32.717")
    assert str(told["yearless"][1]).startswith("1972-11-25 17:43:24")
    assert told["text"].to_list() == ["boom", "boom"]


def test_torchruns_prefix_that_looks_like_torchs_own_is_a_local_rank():
    told = framed("[rank0]:[rank16]: boom", "[rank0]: boom", "[rank1]:[rank17]: boom")
    assert told["rank"].to_list() == [16, None, 17]
    assert told["local_rank"].to_list() == [0, 0, 1]


def test_where_both_prefixes_agree_torchs_own_tells_the_rank():
    told = framed("[rank0]:[rank0]: boom", "[rank1]: boom")
    assert told["rank"].to_list() == [0, 1]
    assert told["local_rank"].to_list() == [None, None]


@pytest.mark.parametrize(
    "line", ["    node1: 4", "  INFO 11-20 10:00:00 [a.py:1] boom"]
)
def test_a_margin_before_a_name_is_the_programs_own(line):
    assert only(line)["text"] == line


def test_a_clock_time_does_not_pass_for_host_pid_and_thread():
    told = only("12:31:45 2026[1,0]<stdout>:no header")
    assert told["host"] is None


def test_stamps_with_and_without_a_zone():
    told = framed(
        "2026-01-02T03:04:05.123456789Z stdout F x",
        "[2026-01-02 03:04:05] gpu0001:1:2 [0] a.cc:1 NCCL WARN x",
        "2026-01-02T03:04:05+02:00 x",
    )["t"].to_list()
    assert told[0] == datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    assert told[1] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert told[2] == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)


def test_glued_messages_come_apart():
    bar = " 45%|### | 1/2 [01:08<1:22:03,  2.88s/it]"
    told = framed(f"{bar}[rank0]:[E602 18:37:01.8 ProcessGroupNCCL.cpp:1] stuck")
    assert told["text"].to_list() == [bar, "stuck"]
    assert told["rank"].to_list() == [None, 0]


def test_two_writers_in_one_line_come_apart():
    told = framed("gpu0001:11:12 [2] NCCL INFO gpu0001:21:22 [7] NCCL INFO Using x")
    assert told.filter(pl.col("text") != "")["pid"].to_list() == [21]


def test_a_progress_bar_redrawn_with_carriage_returns_is_many_lines():
    told = framed("10%|\r20%|\r[rank1]: boom")
    assert told["text"].to_list() == ["10%|", "20%|", "boom"]
    assert told["line"].to_list() == [1, 1, 1]


def test_nested_rank_prefixes_are_all_peeled():
    assert only("[rank1]: [rank1]: Last error:")["text"] == "Last error:"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("(Worker_TP7 pid=481) stuck", 7),
        ("(VllmWorker rank=3 pid=481) stuck", 3),
        ("[2026-11-20 12:00:00 TP14] stuck", 14),
        # with pipelines, or with copies of the model, this is a place in a group
        ("(Worker_PP1_TP0 pid=481) stuck", None),
        ("[2026-11-20 12:00:00 DP1 TP0] stuck", None),
        ("[2026-11-20 12:00:00 PP1 TP0 EP0] stuck", None),
    ],
)
def test_workers_that_split_only_tensors_are_called_by_their_rank(line, rank):
    told = only(line)
    assert (told["text"], told["rank"]) == ("stuck", rank)


@pytest.mark.parametrize("stamp", ["4600.0s  ", "4600.1s\t12\t"])
def test_seconds_of_a_notebook_are_taken_off(stamp):
    assert only(stamp + "stuck")["text"] == "stuck"


def test_hydra_puts_no_blank_behind_its_stamp():
    line = "[2026-11-20 12:00:00,123][train][INFO] - step 5"
    told = frame(pl.DataFrame({"line": [1], "raw": [line]}))
    assert str(told["t"][0]) == "2026-11-20 12:00:00.123000+00:00"


@pytest.mark.parametrize(
    ("shipped", "own", "told"),
    [
        # a buffer was emptied when the process ended
        ("10:05:40Z", "10:00:01,500", "10:00:01.500"),
        # a shipper prints whole seconds
        ("10:00:01Z", "10:00:01,500", "10:00:01.500"),
        # the program's zone is another one
        ("10:00:02Z", "12:00:01,500", "10:00:02"),
        ("10:00:02Z", "04:30:01,500", "10:00:02"),
    ],
)
def test_a_line_is_as_old_as_its_program_says_unless_zones_differ(shipped, own, told):
    raw = f"2026-11-20T{shipped} stderr F [default1]:2026-11-20 {own} step 2 loss 0.8"
    t = only(raw)["t"]
    assert t.isoformat().startswith(f"2026-11-20T{told}")


def test_a_title_that_is_a_line_of_a_rank_is_that_ranks():
    told = only("## [rank3]: ValueError: bad sample")
    assert (told["rank"], told["text"]) == (3, "ValueError: bad sample")


def test_a_table_of_ranks_behind_a_mark_stays_as_it_is():
    line = "#  Rank  0 Group  0 Pid   1787 on  gpu0001 device  0 [0x8d]"
    assert only(line)["text"] == line
