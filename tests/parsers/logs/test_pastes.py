"""What a log went through before it was pasted is undone, and nothing else is."""

import textwrap

import polars as pl
import pytest

import spoiling
from ncclforensics.parsers.logs import log_reader, pastes
from ncclforensics.sources import Source

LOG = [
    "gpu0001:41:42 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using "
    "internal net plugin of this version.",
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/'
    'distributed_c10d.py", line 3252, in all_reduce',
    "[rank0]:     work.wait()",
    "[rank0]: RuntimeError: Timed out waiting 7000ms for recv operation to complete, "
    "which is what the limit of this group says",
    "[rank0]:[E1120 21:20:41.710829377 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds",
    "[rank0]: it ends here",
]


def lines(raw):
    numbered = {"line": range(1, len(raw) + 1), "raw": list(raw)}
    return pl.DataFrame(numbered, schema={"line": pl.Int64, "raw": pl.String})


def restored(raw, whole=True):
    """Return the text of lines after all that is undone in them."""
    told = lines(raw)
    return pastes.restored(told, pastes.planned(told, whole))["raw"].to_list()


def cut(width, log):
    return [s[i : i + width] for s in log for i in range(0, len(s), width)]


def filled(width, log, **how):
    fill = textwrap.TextWrapper(width, break_on_hyphens=False, **how)
    return [part for line in log for part in fill.wrap(line)]


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_what_a_terminal_broke_is_whole_again(width):
    assert restored(cut(width, LOG)) == LOG


@pytest.mark.parametrize("width", [60, 80, 100])
def test_blanks_that_a_terminal_dropped_at_its_last_column_are_back(width):
    assert restored([line.rstrip() for line in cut(width, LOG)]) == LOG


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_what_was_broken_at_blanks_is_whole_again(width):
    assert restored(filled(width, LOG)) == LOG


def test_what_goes_on_may_be_indented():
    assert restored(filled(80, LOG, subsequent_indent=" " * 11)) == LOG


TRACEBACK = [
    "Traceback (most recent call last):",
    *(
        line
        for name in ("on_workers_recorded", "activate_workers", "wait_for_the_slots")
        for line in (
            f'  File "/opt/widgets/runner/elastic/registration.py", line 17, in {name}',
            "    self.driver.resume()",
            "    ^^^^^^^^^^^^^^^^^^^^",
        )
    ),
    "TimeoutError: Timed out waiting for more hosts. Please check that there are enough "
    "of them to run at least 4 processes.",
]


def test_one_line_may_be_all_that_goes_on():
    """What goes on stands below a column of times, and nothing else so deep."""
    log = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/job/train.py", line 8, in step',
        "    loss.backward()",
        "[rank0]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection "
        "closed by peer [10.0.0.1]:31466. This is typically caused by a remote worker",
    ]
    assert restored(filled(100, log, subsequent_indent=" " * 11)) == log


def test_code_under_frames_is_not_what_goes_on():
    assert restored(filled(79, TRACEBACK, subsequent_indent=" " * 11)) == TRACEBACK


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_a_blank_stays_at_its_side_of_a_break(width):
    assert restored(spoiling.folded(width, LOG, None)) == LOG


def test_a_blank_that_begins_a_line_is_the_one_between_the_words():
    words = "RuntimeError: " + "x" * 46
    log = [line for n in range(4) for line in (f"[rank{n}]: {words}", " is gone")]
    assert restored(log) == [f"[rank{n}]: {words} is gone" for n in range(4)]


def test_an_exception_in_one_line_keeps_the_rank_in_front_of_it():
    text = " ".join(line.strip() for line in LOG)
    assert LOG[4] in restored([text])


def test_the_table_of_an_agent_in_one_line_has_its_fields_again():
    table = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-21_09:50:21",
        "  host      : gpu0001",
        "  rank      : 2 (local_rank: 2)",
        "  exitcode  : 1 (pid: 41011)",
        "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/errors.html",
        "=" * 60,
    ]
    text = " ".join(line.strip() for line in [*LOG, *table])
    found = [line.rstrip() for line in restored([text])]
    assert [line for line in table[8:] if line not in found] == []


def test_a_mail_quotes_and_wraps():
    assert restored([f"> {line}" for line in filled(74, LOG)]) == LOG


@pytest.mark.parametrize("mark", ["# ", "// ", "| ", "  # ", "> ", "> > ", "- ", "* "])
def test_a_mark_in_front_of_every_line_is_left_out(mark):
    log = ["RuntimeError: Socket Timeout", "ranks:", "  File x"]
    assert restored([mark + line for line in log]) == log


@pytest.mark.parametrize("form", ["{}:{}", "{}: {}", "{:6d}\t{}", "{:7d} {}", "{}. {}"])
def test_line_numbers_are_left_out(form):
    assert restored([form.format(n, line) for n, line in enumerate(LOG, 7)]) == LOG


def test_what_grep_found_has_gaps_in_its_numbers():
    assert restored([f"{n * n}:{line}" for n, line in enumerate(LOG, 2)]) == LOG


def test_entities_quotes_and_blanks_of_a_page_are_plain_text():
    page = [
        "&lt;module&gt; &amp;&quot;x&quot;",
        "\u201cgpu0\u201d\u00a0is",
        "it\u2019s",
    ]
    assert restored(page) == ['<module> &"x"', '"gpu0" is', "it's"]


def test_entities_by_number_are_plain_text_as_well():
    page = ["group&#40;default_pg&#x29;&nbsp;&lsqb;Rank 1&rsqb;", "R&D; &x;"]
    assert restored(page) == ["group(default_pg) [Rank 1]", "R&D; &x;"]


def test_what_only_looks_like_an_entity_stays():
    code = ["if (a &b; c)", "http://x/?a=1&amp;b=2", "&copy; &#10;"]
    assert restored(code) == code


def test_lines_of_a_chat_are_left_out():
    said = ["[10:41 AM] Jane Doe", *LOG[:3], "Jane Doe  10:42 AM", *LOG[3:]]
    assert restored(said) == LOG


def test_an_empty_line_below_each_line_is_left_out():
    assert restored([part for line in LOG for part in (line, "")]) == LOG


def test_a_traceback_ends_where_it_does_in_the_file(analyzed):
    doubled = "".join(f"{line}\n\n" for line in LOG)
    raised = analyzed({"job.log": doubled}).frames.message("python.traceback")
    begins, ends = (2 * n - 1 for n in (2, 5))
    assert (raised["line"] + raised["span"] - 1).to_list() == [ends]
    assert raised["line"].to_list() == [begins]


STACKS = {
    "faulthandler": [
        "2026-11-20 10:00:00 step 7",
        "Timeout (0:10:00)!",
        "Thread 0x00007fb7da026b80 (most recent call first):",
        '  File "/opt/torch/distributed/distributed_c10d.py", line 2810 in all_reduce',
        '  File "/job/train.py", line 26 in save_checkpoint',
        '  File "/job/train.py", line 40 in <module>',
    ],
    "py-spy": [
        "Process 41013: python train.py",
        "Python v3.11.9 (/usr/bin/python3.11)",
        'Thread 41013 (idle): "MainThread"',
        "    wait (torch/distributed/distributed_c10d.py:555)",
        "    all_reduce (torch/distributed/distributed_c10d.py:2810)",
        "    <module> (train.py:133)",
    ],
    "without words": [
        "Traceback (most recent call last):",
        '  File "/opt/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/opt/torch/distributed/elastic/agent/server/api.py", line 9, in f',
        "    result = agent.run()",
        '  File "/opt/torch/distributed/elastic/rendezvous/dynamic.py", line 9, in g',
        "    raise RendezvousTimeoutError",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    ],
    "launchers": [
        *("INFO:root:wait for available slots: 4", "[0]<stdout>:step 0 loss 1.0"),
        *("[default2]:[rank2]: Traceback (most recent call last):",),
        '[default2]:[rank2]:   File "/job/train.py", line 9, in step',
        "[default2]:[rank2]:     loss.backward()",
        "[default2]:[rank2]: RuntimeError: Timed out waiting 7000ms for recv operation",
    ],
}


@pytest.mark.parametrize("kind", STACKS)
def test_stacks_and_tracebacks_in_one_line_are_lines(kind):
    told = " ".join(line.strip() for line in STACKS[kind])
    found = restored([told])
    assert [line.split() for line in found] == [line.split() for line in STACKS[kind]]


@pytest.mark.parametrize("wide", [16, 60])
def test_rows_and_rules_of_a_table_with_times_are_no_run_on_records(wide):
    times = " ".join(f"2026-11-20T10:0{n}:00" for n in range(4))
    table = [
        "  ".join(name.ljust(wide) for name in ("JobID", "State", "Submit", "Start")),
        "  ".join("-" * wide for _ in range(4)),
        f"{'771'.ljust(wide)}  {'PREEMPTED'.ljust(wide)}  {times}",
    ]
    assert restored(table) == table


def test_what_launchers_and_shippers_put_in_front_begins_no_further_record():
    log = [
        "[pod/train-x7k2q/main] 2026-11-20T11:28:37.575000Z [default1]:[rank1]:   "
        f'File "/opt/torch/distributed/distributed_c10d.py", line {n} in all_reduce'
        for n in range(4)
    ]
    assert restored(log) == log
    log = [line.replace("[pod/train-x7k2q/main] ", "") for line in log]
    assert restored(log) == log


def test_the_stack_of_a_crash_in_one_line_is_that_of_a_crash(analyzed):
    crash = [
        *("terminate called after throwing an instance of 'gloo::EnforceNotMet'",),
        *("Fatal Python error: Aborted", "", *STACKS["faulthandler"][2:]),
        "Extension modules: numpy.core._multiarray_umath (total: 22)",
    ]
    told = analyzed({"rank_1.log": " ".join(filter(None, crash)) + "\n"}).frames
    assert told.message("python.fatal").height == 1
    assert told["looks"].filter(pl.col("kind") == "stack").height == 0


def test_short_steps_in_one_line_are_lines():
    steps = [f"2026-11-20 10:00:0{n},000 step {n} loss 2.5" for n in range(4)]
    assert restored([" ".join(steps)]) == steps


def test_a_traceback_that_a_program_quotes_in_a_string_stays_one_line():
    frames = "".join(f'\\n  File "/job/a.py", line {n}, in f{n}' for n in range(9))
    log = [f"2026-11-20 10:00:00 ERROR the task failed: 'Traceback{frames}'"]
    assert restored(log) == log


def test_the_rest_of_a_line_that_holds_words_of_a_message_is_joined():
    """As these words alone are no message that would be hidden."""
    failed = "NCCL WARN Cuda failure 'system not yet initialized'"
    log = [
        f"gpu0002:31377:31377 [0] misc/cudawrap.cc:190 {failed}",
        f"gpu0002:31377:31377 [32767] init.cc:1701 {failed}",
    ]
    assert restored(cut(60, log)) == log


def test_a_stack_below_a_heading_of_full_width_is_no_rest_of_it():
    log = [
        "=== Rank 0: http://gpu0001:38947/handler/dump_traceback? ===",
        "Current thread 0x00007f42967fc6c0 (most recent call first):",
        "  <no Python frame>",
        "Thread 0x00007f42bd43cb80 (most recent call first):",
        *(
            f'  File "/opt/torch/a/long/path/to/the/file_{n}.py", line {n} in f{n}'
            for n in range(3)
        ),
    ]
    assert restored(cut(60, log)) == log


def test_an_exception_without_words_is_no_rest_of_the_code_above():
    log = [
        "Traceback (most recent call last):",
        *(f'  File "/opt/torch/launch_{n}.py", line {n}, in call' for n in range(3)),
        "    raise RendezvousTimeoutError",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        *(
            f"2026-11-20 10:00:0{n},000 and this is a long line of what it printed: it ends"
            for n in range(3)
        ),
    ]
    assert restored(spoiling.wrapped(74, log, None)) == log


def test_records_in_one_line_are_lines():
    found = restored([" ".join(LOG)])
    assert next(line.strip() for line in found if "[rank0]" in line).endswith("last):")
    assert LOG[5] in found


def test_a_joined_line_has_the_number_of_its_first_piece():
    told = lines(cut(80, LOG))
    found = pastes.restored(told, pastes.planned(told, True))
    begins = [sum(-(-len(s) // 80) for s in LOG[:n]) + 1 for n in range(len(LOG))]
    assert found["line"].to_list() == begins


ALIKE = {
    "as it was": LOG,
    "steps of one length": [f"step {n} loss 0.{n:04d} " + "x" * 40 for n in range(99)],
    "a comment among code": ["# out of memory", "x = 1", "# we fear", "y = 2", "z = 3"],
    "a table": ["| GPU  Name |", "| 0  H100 |", "| 1  H100 |"],
    "tasks of srun": ["0: begins", "1: begins", "2: begins", "3: begins"],
    "the end of a short log": [
        "[rank0]: the checkpoint of step 500 is written to /data/run",
        "Killed",
    ],
    "columns that are padded": [
        f"{job:<12} {name:<10} {state:>30} {nodes:>20} "
        for job, name, state, nodes in (
            ("JobID", "JobName", "State", "NodeList"),
            ("-" * 12, "-" * 10, "-" * 30, "-" * 20),
            ("1", "pretrain", "CANCELLED by 1001", "gpu[0001-0002]"),
            ("1.batch", "batch", "CANCELLED", "gpu0001"),
            ("1.0", "bash", "CANCELLED", "gpu[0001-0002]"),
        )
    ],
    "steps below a greeting": [
        "rank 1/8 up on node00, device cuda:1, pid 373694",
        *(f"step {n} loss 2.91{n:02d} lr 3.0e-04 41{n}.0 samples/s" for n in range(4)),
    ],
    "srun after its daemon": [
        *(f" 0: step {n} loss 2.91{n:02d} lr 3.0e-04" for n in range(4)),
        "slurmstepd: error: *** STEP 66120.0 ON node00 CANCELLED AT 2025-11-02T11:22 ***",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ],
    "blocks with a line between": [
        *("step 1 loss 1.5", "step 2 loss 1.4", "", "epoch 1 is done", ""),
        *("step 3 loss 1.3", "step 4 loss 1.2", "", "epoch 2 is done", ""),
    ],
    "a list of names below one line": [
        "# Port counters: Lid 16 port 1 (CapMask: 0x5A00)",
        "SymbolErrorCounter:..............65535",
        "LinkErrorRecoveryCounter:........12",
        "LinkDownedCounter:...............31",
        "PortRcvErrors:...................10421",
        "VL15Dropped:.....................0",
    ],
    "properties": [
        "State                              : Polling",
        "Physical state                     : ETH_AN_FSM_ENABLE",
        "Auto Negotiation                   : ON",
        "Status Opcode                      : 1024",
        "Recommendation                     : Cable is unplugged",
    ],
    "what a tab indents": [
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-6d1d0000)",
        "\t Link 0: CRC Errors: 0",
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-77aa0000)",
        "\t Link 4: CRC Errors: 90211",
    ],
    "tables": [
        row
        for step in range(3)
        for row in (
            *(
                f" {rank:>4} | {30.5:>8} | {600.5 + step:>8} | {99.5:>12}"
                for rank in "012"
            ),
            f"loss {5 - step}.25",
        )
    ],
    "clock times": ["10:00:01 step 1", "10:00:02 step 2", "10:00:03 step 3"],
    "a row of stars": ["W0801 13:23:17.366000 3 a.py:9] " + "*" * 41, "*" * 20],
}


@pytest.mark.parametrize("raw", ALIKE.values(), ids=ALIKE)
def test_what_only_looks_alike_stays_as_it_is(raw):
    assert pastes.planned(lines(raw), True) == ()


def test_of_a_large_log_only_marks_and_breaks_are_undone():
    page = ["it\u2019s"] * 3
    assert restored(page, whole=False) == page


def test_the_report_says_what_was_undone(tmp_path):
    path = tmp_path / "mail.txt"
    path.write_text("".join(f"> {line}\n" for line in filled(74, LOG)))
    told = log_reader.read(Source("mail.txt", path, "log", "", bytes=1))
    said = told["notes"]["text"].to_list()
    assert any("in front of the lines" in text for text in said)
    assert any("broken at" in text for text in said)
    assert told["events"].filter(message="c10d.watchdog.timeout").height == 1


LOST = "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error"


@pytest.mark.parametrize(
    "prompt",
    [
        "ada@gpu0001:~/job$ nvidia-smi",
        "(venv) ada@gpu0001:/data$ ./train.sh",
        "root@gpu0001:/# dmesg",
        "[ada@gpu0001 job]$ python train.py",
        "ada@gpu0001 ~ % nvidia-smi",
    ],
)
def test_a_prompt_tells_the_host_of_its_output(prompt):
    below = ["ada@gpu0002:~$ cat other.log", LOST]
    mine = [f"[host/gpu0001] {line}" for line in (prompt, LOST)]
    assert restored([LOST, prompt, LOST, "```", LOST]) == [LOST, *mine, "```", LOST]
    assert restored([prompt, LOST, *below]) == [*mine, *below]


@pytest.mark.parametrize(
    "line",
    [
        "ada@login1:~/job$ cat slurm-123.out",
        "ada@login1:~/job$ ssh gpu0001 tail slurm-123.out",
        "ada@login1:~/job$ kubectl get pods",
        "ada@login1:~/job$",
        "git@github.com:org/repo.git is cloned",
        "loss@epoch 3 is 40 % higher",
        "mail ada@gpu0001 for $ 5",
    ],
)
def test_what_shows_no_host_of_the_output_is_no_such_prompt(line):
    assert restored([line, LOST]) == [line, LOST]


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("$ kubectl exec llm-1 -- nvidia-smi", "llm-1"),
        ("$ kubectl -n ml exec -it pod/llm-1 -c main -- dmesg", "llm-1"),
        ("ada@login1:~/job$ kubectl logs llm-1 --tail=50", "llm-1"),
        ("+ kubectl logs -f llm-1", "llm-1"),
        ("ada@login1:~/job$ ssh root@gpu0001 nvidia-smi", "gpu0001"),
    ],
)
def test_a_command_tells_where_its_output_is_from(command, host):
    told = [command, LOST, "$ date", LOST]
    assert restored(told) == [command, f"[host/{host}] {LOST}", *told[2:]]


SPIED = ("Process 7: python train.py", "Python v3.11.9 (/usr/bin/python3.11)")


@pytest.mark.parametrize(
    ("headings", "hosts"),
    [
        (("### a-x7k2p", "### b-9qmzd"), ("a-x7k2p", "b-9qmzd")),
        (("== pod/llm-0 ==", "== pod/llm-1 =="), ("llm-0", "llm-1")),
        (
            ("worker-0 (node gpu0001)", "worker-1 (node gpu0002)"),
            ("gpu0001", "gpu0002"),
        ),
        (("now llm-0:", "and llm-1:"), ("llm-0", "llm-1")),
    ],
)
def test_a_word_in_which_the_lines_above_stack_dumps_differ_is_a_place(headings, hosts):
    above, below = headings
    told = [above, *SPIED, "", below, "", *SPIED]
    first, second = ([f"[host/{host}] {line}" for line in SPIED] for host in hosts)
    assert restored(told) == [above, *first, "", below, "", *second]


@pytest.mark.parametrize(
    "words", [("the stuck one:", "a healthy one:"), ("llm-0:",) * 2]
)
def test_words_that_name_no_place_above_stack_dumps_tell_none(words):
    told = [line for word in words for line in (word, *SPIED, "")]
    assert restored(told) == told


RUN_ON = (
    "[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to "
    "the asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
    "corrupted/incomplete data. terminate called after throwing an instance of "
    "'std::runtime_error' what(): NCCL error: remote process exited or there was a "
    "network error, NCCL version 2.14.3 ncclRemoteError: A call failed possibly due to a "
    "network error or a remote process exiting prematurely. Last error: NET/IB : Got "
    "completion from peer 10.20.0.12<39138> with error 12, opcode 0, len 0, vendor err 129"
)


def test_what_a_process_says_of_its_end_in_one_line_is_split():
    (last,) = [line for line in restored([RUN_ON]) if line.startswith("NET/IB")]
    assert last.endswith("vendor err 129")
    short = "what(): NCCL error Last error: none, terminate called after that"
    assert restored([short]) == [short]


ROWS = (
    "gpu0001:41:42 [0] NCCL INFO threadThresholds 8/8/64 | 32/8/64 | 512 | channels512",
    "gpu0001:41:42 [0] NCCL INFO AllReduce: opCount 3 sendbuff 0x55b4f40e2a60 recvbuff "
    "0x55b4f40e2a60 count 1024 datatype 7 op 0 root 0 comm 0x7f089c6e6010 [nranks=4]",
    "gpu0001:41:42 [0] NCCL INFO comm 0x7f089c6e6010 rank 1 nRanks 4 nNodes 2",
)


def test_a_quoted_line_that_ends_with_a_bar_is_no_row_of_a_table():
    wrapped = filled(74, ROWS)
    assert wrapped[0].endswith("|")
    assert restored([f"> {line}" for line in wrapped]) == list(ROWS)
    table = [f"| {name} | {n} |" for n, name in enumerate(("a", "b", "c"))]
    assert restored(table) == table


def test_a_break_inside_a_name_with_plus_signs_is_undone():
    line = (
        "[rank0]:     return engine.run_backward(  # Calls into the C++ engine for it"
    )
    log = [*LOG, line]
    at = line.index("++")
    assert restored(cut(at, log)) == log


def test_a_ruled_line_as_wide_as_the_terminal_is_whole():
    log = [*LOG, "=" * 60, "train.py FAILED", "-" * 60, "Failures:"]
    assert restored(cut(60, log)) == log


def test_no_blank_stands_in_the_place_of_a_line_of_code():
    line = (
        "[rank0]: RuntimeError: [enforce fail at inline_container.cc:672] . unexpected"
    )
    log = [*LOG, line]
    at = line.index("672")
    assert restored([part.rstrip() for part in cut(at, log)]) == log


def test_carets_are_no_indented_rest():
    under = " " * 11 + "^" * 20
    log = [*LOG[1:5], under, "[rank0]: it ends here"]
    broken = [*filled(80, log[:4], subsequent_indent=" " * 11), *log[4:]]
    assert len(broken) > len(log)
    assert restored(broken) == log
