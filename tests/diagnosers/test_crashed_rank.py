"""crashed-rank names who fell for a reason of its own, and no victim of it."""

import pytest

FRAME = '  File "/job/train.py", line 31, in check_loss\n    raise ValueError\n'


def traceback(rank, last):
    body = f"Traceback (most recent call last):\n{FRAME}{last}\n"
    return "".join(f"[rank{rank}]: {line}\n" for line in body.splitlines())


def table(*children):
    """torchelastic's table of (rank, exit code, reason); the first is the root."""
    (rank, code, text), *others = children

    def block(number, rank, code, text):
        return (
            f"[{number}]:\n  time      : 2026-03-01_10:00:00\n  host      : gpu0001\n"
            f"  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {500 + rank})\n  error_file: <N/A>\n"
            f"  traceback : {text}\n"
        )

    failures = "".join(block(i, *child) for i, child in enumerate(others, 1))
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + "\ntrain.py FAILED\n"
        + "-" * 60
        + f"\nFailures:\n{failures or '  <NO_OTHER_FAILURES>'}\n"
        + "-" * 60
        + f"\nRoot Cause (first observed failure):\n{block(0, rank, code, text)}"
        + "=" * 60
        + "\n"
    )


NOTHING = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
)


def verdict(analysis):
    found = analysis.ranked.verdict
    return found and (found.slug, found.ranks)


def test_the_rank_with_an_exception_of_its_own_is_named(analyzed):
    log = (
        traceback(0, LOST)
        + traceback(2, "ValueError: loss is nan")
        + traceback(1, LOST)
    )
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("crashed-rank", (2,))
    assert "train.py:31 check_loss" in analysis.ranked.verdict.explanation


def test_torchruns_root_cause_is_not_believed(analyzed):
    log = (
        traceback(0, LOST)
        + traceback(2, "ValueError: loss is nan")
        + table((0, 1, NOTHING), (2, -15, "Signal 15 (SIGTERM) received by PID 502"))
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


@pytest.mark.parametrize(
    ("code", "name"), [(-11, "SIGSEGV"), (-7, "SIGBUS"), (-9, "SIGKILL")]
)
def test_a_signal_that_nobody_of_the_job_sends_is_named(analyzed, code, name):
    log = table((3, code, f"Signal {-code} ({name}) received by PID 503"))
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("crashed-rank", (3,))
    # who sent SIGKILL is not known, and no peer lost anybody
    wanted = "possible" if code == -9 else "likely"
    assert analysis.ranked.verdict.confidence == wanted
    assert name in analysis.ranked.verdict.headline


def test_the_agents_sigterm_accuses_nobody(analyzed):
    log = table((3, -15, "Signal 15 (SIGTERM) received by PID 503"))
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) is None
    assert analysis.ranked.outcome == "inconclusive"


def test_a_watchdogs_own_abort_is_a_victims(analyzed):
    head = "[rank3]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:684] "
    log = (
        f"{head}[Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=5, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
        "milliseconds before timing out.\n"
        f"{head}[Rank 3] To avoid data inconsistency, we are taking the entire process "
        "down.\n" + table((3, -6, "Signal 6 (SIGABRT) received by PID 503"))
    )
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("timeout-masking", ())
    assert analysis.ranked.outcome == "inconclusive"


def test_several_bare_exit_codes_tell_nothing(analyzed):
    log = table((0, 1, NOTHING), (1, 1, NOTHING))
    analysis = analyzed({"job.log": log})
    assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


def test_one_unexplained_exit_among_victims_is_named(analyzed):
    log = (
        traceback(0, LOST)
        + traceback(1, LOST)
        + table((0, 1, NOTHING), (1, 1, NOTHING), (2, 3, NOTHING))
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


LAUNCHERS = {
    "mpirun": "mpirun noticed that process rank 3 with PID 41011 on node gpu0001 "
    "exited on "
    "signal 11 (Segmentation fault).",
    "prterun": "prterun noticed that process rank 3 with PID 41011 on node gpu0001 "
    "exited "
    "on signal 9 (Killed).",
    "pals": "gpu0001.example.internal: rank 3 died from signal 11 and dumped core",
    "pals, a code": "gpu0001.example.internal: rank 3 exited with code 255\n"
    "gpu0002.example.internal: rank 0 died from signal 15",
    "srun": "srun: error: gpu0001: task 3: Segmentation fault (core dumped)",
    "srun, bus": "srun: error: gpu0001: task 3: Bus error (core dumped)",
    "lightning": "[rank: 3] Child process with PID 41011 terminated with code -11. "
    "Forcefully terminating all other processes to avoid zombies",
    "horovodrun": "Process 3 exit with status code 139.",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_names_the_rank_that_fell(analyzed, launcher):
    found, ranks = verdict(analyzed({"job.log": LAUNCHERS[launcher] + "\n"}))
    assert (found, ranks) == ("crashed-rank", (3,))


# these print the command of the child that they started last, whichever fell
LAST_STARTED = {
    "deepspeed": "[2026-03-01 12:00:00,123] [ERROR] [launch.py:325:sigkill_handler] "
    "['/opt/venv/bin/python', '-u', 'train.py', '--local_rank={last}'] exits with "
    "return code = -11\n",
    "torch.distributed.launch": "subprocess.CalledProcessError: Command "
    "'['/opt/venv/bin/python', '-u', 'train.py', '--local_rank={last}', '--amp']' died "
    "with <Signals.SIGSEGV: 11>.\n",
}


@pytest.mark.parametrize("launcher", LAST_STARTED)
@pytest.mark.parametrize(("last", "ranks"), [(3, ()), (0, (0,))])
def test_the_command_of_the_last_child_names_it_if_it_is_the_only_one(
    analyzed, launcher, last, ranks
):
    line = LAST_STARTED[launcher].format(last=last)
    assert verdict(analyzed({"job.log": line})) == ("crashed-rank", ranks)


def test_the_end_of_a_table_whose_head_is_lost_still_names_the_rank(analyzed):
    whole = table((0, -11, "Signal 11 (SIGSEGV) received by PID 500"))
    tail = whole[whole.index("  rank ") :]
    assert verdict(analyzed({"job.log": tail})) == ("crashed-rank", (0,))


AGENT_RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/venv/bin/torchrun", line 8, in <module>\n'
    "    sys.exit(main())\n"
    '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/launcher/api.py", '
    "line 269, in launch_agent\n"
    "    raise ChildFailedError(\n"
    "torch.distributed.elastic.multiprocessing.erro"
)


def failed(rank, code):
    return (
        "E0301 10:00:00.342000 41007 torch/distributed/elastic/multiprocessing/api.py:"
        f"869] failed (exitcode: {code}) local_rank: {rank} (pid: {500 + rank}) of "
        "binary: /opt/venv/bin/python3\n"
    )


def test_an_agents_own_traceback_is_no_ranks_even_where_its_end_is_lost(analyzed):
    log = failed(2, -9) + AGENT_RAISED
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


NAMELESS = f"Traceback (most recent call last):\n{FRAME}ValueError: loss is nan\n"


def test_the_only_exception_without_a_name_is_of_the_only_rank_that_failed(analyzed):
    log = NAMELESS + failed(2, 1) + AGENT_RAISED
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


def test_one_of_two_exceptions_without_a_name_may_be_another_ranks(analyzed):
    lost = f"Traceback (most recent call last):\n{FRAME}{LOST}\n"
    log = NAMELESS + lost + failed(2, 1)
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", ())


def test_an_exception_without_a_name_is_not_of_a_rank_that_was_told_to_end(analyzed):
    log = NAMELESS + table((2, -15, "Signal 15 (SIGTERM) received by PID 502"))
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", ())


def test_a_task_that_runs_torchrun_is_no_rank(analyzed):
    banner = (
        "W0301 10:00:00.354000 41007 torch/distributed/run.py:874] Setting "
        "OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    )
    line = "srun: error: gpu0002: task 1: Segmentation fault\n"
    analysis = analyzed({"job.log": banner + line})
    assert verdict(analysis) == ("crashed-rank", ())
    assert analysis.ranked.verdict.hosts == ("gpu0002",)


def test_a_task_number_that_does_not_fit_the_world_is_no_rank(analyzed):
    inits = "".join(
        f"gpu000{r // 4 + 1}:{50 + r}:{50 + r} [0] NCCL INFO comm 0x7f00 rank {r} "
        "nranks 8 "
        f"cudaDev {r % 4} busId {r + 1}000 commId 0xabc - Init COMPLETE\n"
        for r in range(8)
    )
    line = "srun: error: gpu0002: task 1: Segmentation fault\n"
    assert verdict(analyzed({"job.log": inits + line})) == ("crashed-rank", ())


def test_what_srun_ends_after_the_first_is_an_echo(analyzed):
    log = (
        "srun: error: gpu0001: task 2: Bus error\n"
        "srun: Terminating StepId=50917.0\n"
        "slurmstepd: error: *** STEP 50917.0 ON gpu0001 CANCELLED AT "
        "2026-03-01T10:00:00 ***\n"
        "srun: error: gpu0001: tasks 0-1,3: Killed\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


def test_a_cancel_by_its_user_kills_tasks_that_did_nothing(analyzed):
    log = (
        "slurmstepd: error: *** STEP 50917.0 ON gpu0001 CANCELLED AT "
        "2026-03-01T10:00:00 ***\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "srun: error: gpu0001: task 0: Killed\n"
    )
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("cancelled", ())
    assert analysis.ranked.verdict.confidence == "likely"


WATCHDOG = (
    "[rank{rank}]:[E602 18:37:0{rank}.833621509 ProcessGroupNCCL.cpp:1535] [PG ID 0 "
    "PG GUID "
    "0(default_pg) Rank {rank}] Process group watchdog thread terminated with "
    "exception: "
    "{error}\n"
)
ILLEGAL = "CUDA error: an illegal memory access was encountered"
REMOTE = "NCCL error: remote process exited or there was a network error, NCCL 2.21.5"


def test_a_watchdog_that_a_cuda_error_ended_tells_of_its_own_rank(analyzed):
    log = WATCHDOG.format(rank=2, error=ILLEGAL) + WATCHDOG.format(rank=1, error=REMOTE)
    log += table(
        (1, -6, "Signal 6 (SIGABRT) received by PID 501"),
        (2, -6, "Signal 6 (SIGABRT) received by PID 502"),
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


def test_a_watchdog_that_lost_its_peer_accuses_nobody(analyzed):
    analysis = analyzed({"job.log": WATCHDOG.format(rank=1, error=REMOTE)})
    assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


@pytest.mark.parametrize("name", ["Segmentation fault", "Bus error"])
def test_faulthandlers_last_words_name_the_rank(analyzed, name):
    log = f"Fatal Python error: {name}\n\nCurrent thread 0x7f00 (most recent first):\n"
    assert verdict(analyzed({"rank_3.log": log})) == ("crashed-rank", (3,))


def test_faulthandlers_abort_may_be_the_watchdogs_own(analyzed):
    analysis = analyzed({"rank_3.log": "Fatal Python error: Aborted\n"})
    assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


@pytest.mark.parametrize(("name", "fires"), [("python", True), ("gnome-shell", False)])
def test_the_kernels_segfault_counts_for_a_process_of_the_job(analyzed, name, fires):
    line = (
        f"Mar  1 10:00:00 gpu0001 kernel: {name}[41011]: segfault at 7f79 ip "
        "00007f7c sp "
        "00007f7c error 4 in libnccl.so.2[7f7c7ac00000+8d000]\n"
    )
    analysis = analyzed({"dmesg.log": line})
    assert verdict(analysis) == (("crashed-rank", ()) if fires else None)


@pytest.mark.parametrize(
    ("name", "library", "sure"),
    [
        ("python", "libnccl.so.2", "likely"),
        ("pt_main_thread", "libc.so.6", "likely"),
        ("python", "libc.so.6", "possible"),
        ("python", "libcurl.so.4", "possible"),
    ],
)
def test_the_kernel_alone_tells_a_training_by_its_libraries_and_threads(
    analyzed, name, library, sure
):
    line = (
        f"Mar  1 10:00:00 gpu0001 kernel: {name}[41011]: segfault at 7f79 ip "
        f"00007f7c sp 00007f7c error 4 in {library}[7f7c7ac00000+8d000]\n"
    )
    found = analyzed({"dmesg.log": line}).ranked.verdict
    assert found.confidence == sure


@pytest.mark.parametrize(
    ("trap", "fires"), [("general protection fault", True), ("trap int3", False)]
)
def test_a_protection_fault_is_told_like_a_segfault(analyzed, trap, fires):
    line = (
        f"Mar  1 10:00:00 gpu0001 kernel: traps: pt_main_thread[41011] {trap} "
        "ip:7f7c sp:7f7d error:0 in libnccl.so.2[7f7c7ac00000+8d000]\n"
    )
    analysis = analyzed({"dmesg.log": line})
    assert verdict(analysis) == (("crashed-rank", ()) if fires else None)


def test_one_bare_exit_of_1_or_an_abort_may_be_a_victims_whose_words_are_lost(analyzed):
    for code in (1, -6):
        analysis = analyzed({"job.log": table((2, code, NOTHING))})
        assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


def test_a_table_of_which_nothing_but_a_line_is_left_is_still_read(analyzed):
    torn = "Root Cause (first observed failure):\n  time      : 2026-03-01_10:00:00\n"
    job = (
        "gpu0001:50:50 [0] NCCL INFO comm 0x7f rank 0 nranks 1 cudaDev 0 - Init START\n"
    )
    analysis = analyzed({"job.log": torn, "rank_0.log": job})
    assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


def test_a_traceback_that_a_cut_file_ends_in_accuses_nobody(analyzed):
    whole = traceback(1, LOST)
    cut = whole[: whole.index("Connection closed") + 5]
    analysis = analyzed({"rank_1.log": cut})
    assert analysis.ranked.outcome == "inconclusive"
    assert analysis.ranked.verdict is None


WORKER = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: {signal}.\n"


def test_a_lost_data_loading_process_is_of_its_rank_without_a_traceback(analyzed):
    log = "[rank3]: " + WORKER.format(signal="Killed")
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (3,))


def test_a_data_loading_process_that_was_told_to_end_is_an_echo(analyzed):
    analysis = analyzed({"job.log": "[rank3]: " + WORKER.format(signal="Terminated")})
    assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


def test_a_traceback_of_which_a_page_took_the_indentation_is_read(analyzed):
    flat = "".join(f"{line.strip()}\n" for line in NAMELESS.splitlines())
    analysis = analyzed({"rank_3.log": flat})
    assert verdict(analysis) == ("crashed-rank", (3,))
    assert "train.py:31 check_loss" in analysis.ranked.verdict.explanation


@pytest.mark.parametrize("around", ["**{}**", "`{}`", "```{}```"])
def test_emphasis_around_a_line_does_not_hide_it(analyzed, around):
    line = "RuntimeError: NCCL communicator was aborted on rank 0."
    analysis = analyzed({"issue.md": around.format(line) + "\n"})
    assert analysis.ranked.outcome == "inconclusive"


def test_a_gradient_that_is_not_a_number_names_its_rank_and_host(analyzed):
    line = (
        "AssertionError: Rank 5: found NaN in local grad norm in backwards pass. "
        "Device: 1, node: gpu0002\n"
    )
    top = analyzed({"job.log": line}).ranked.verdict
    assert (top.slug, top.ranks, top.hosts) == ("crashed-rank", (5,), ("gpu0002",))


def went_on(*steps):
    return "".join(f"step {n} loss 1.25\n" for n in steps)


def test_an_exception_after_which_the_job_went_on_was_caught(analyzed):
    raised = NAMELESS
    assert (
        verdict(analyzed({"job.log": went_on(1) + raised + went_on(2, 3, 4)})) is None
    )
    # a step that was under way, or another end below it, tells nothing
    for below in (went_on(2, 3), went_on(2, 3, 4) + NAMELESS):
        log = went_on(1) + raised + below
        assert verdict(analyzed({"job.log": log})) == ("crashed-rank", ())


@pytest.mark.parametrize(
    ("second", "named"),
    [
        ("OSError: [Errno 5] Input/output error", [(1,), (2,)]),
        ("ValueError: loss is nan at step 9", [(1, 2)]),
    ],
)
def test_ranks_that_fall_for_different_reasons_are_told_apart(analyzed, second, named):
    files = {
        "rank_1.log": traceback(1, "ValueError: loss is nan at step 4"),
        "rank_2.log": traceback(2, second),
    }
    ranked = analyzed(files).ranked
    told = [f.ranks for _, f in ranked.findings if f.slug == "crashed-rank"]
    assert sorted(told) == named


def slurm(*ends):
    return "".join(f"srun: error: gpu0001: {end}\n" for end in ends)


LAST_WORDS = "FileExistsError: [Errno 17] File exists: '/data/S043'\n"


def test_the_last_line_of_a_traceback_belongs_to_the_only_task_that_failed(analyzed):
    ends = slurm("task 3: Exited with exit code 1", "tasks 0-2: Terminated")
    found = analyzed({"job.log": LAST_WORDS + ends}).ranked.verdict
    assert (found.slug, found.ranks, found.hosts) == (
        *("crashed-rank", (3,)),
        ("gpu0001",),
    )


def test_the_last_lines_of_two_tracebacks_belong_to_nobody(analyzed):
    ends = slurm("task 3: Exited with exit code 1", "tasks 0-2: Terminated")
    log = LAST_WORDS + "ValueError: the batch is empty\n" + ends
    assert analyzed({"job.log": log}).ranked.outcome == "inconclusive"


def test_the_last_line_of_a_traceback_alone_may_have_been_caught(analyzed):
    assert analyzed({"job.log": LAST_WORDS}).ranked.outcome == "inconclusive"


def sticky(host, error="an illegal memory access was encountered"):
    return f"{host}:7:9 [0] enqueue.cc:1556 NCCL WARN Cuda failure 700 '{error}'\n"


def test_an_error_that_stays_with_its_process_is_that_process_own(analyzed):
    found = analyzed({"job.log": sticky("gpu0002")}).ranked.verdict
    assert (found.slug, found.hosts) == ("crashed-rank", ("gpu0002",))


LIBRARIES = {
    "tensorrt-llm": "[TensorRT-LLM][ERROR] CUDA runtime error in "
    "cudaEventSynchronize(get()): an illegal memory access was encountered (/src/event.h:66)",
    "triton": "RuntimeError: Triton Error [CUDA]: misaligned address",
    "xla": "F external/xla/xla/stream_executor/cuda/cuda_event.cc:29] Error polling for "
    "event status: failed to query event: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    "thrust": "  what():  parallel_for failed: cudaErrorIllegalAddress: an illegal memory "
    "access was encountered",
    "caffe": "F1120 10:12:31.413240 12130 math_functions.cu:79] Check failed: error == "
    "cudaSuccess (77 vs. 0)  an illegal memory access was encountered",
    "cublas": "RuntimeError: cublas runtime error : the GPU program failed to execute at "
    "/pytorch/aten/src/THC/THCBlas.cu:450",
}


@pytest.mark.parametrize("text", LIBRARIES.values(), ids=LIBRARIES)
def test_such_an_error_counts_in_the_words_of_any_library(analyzed, text):
    assert verdict(analyzed({"job.log": text + "\n"})) == ("crashed-rank", ())


def test_such_words_in_a_sentence_are_no_error_of_a_process(analyzed):
    text = "It then ends because an illegal memory access was encountered.\n"
    assert verdict(analyzed({"job.log": text})) is None


def test_a_failed_library_of_a_rank_is_that_ranks(analyzed):
    text = "[rank6]: RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n"
    assert verdict(analyzed({"job.log": text})) == ("crashed-rank", (6,))


OF_OTHERS = {
    "rpc": "RuntimeError: RPCErr:1:RPC ran for more than set timeout (60000 ms) and will "
    "now be marked with an error",
    "tensorpipe": "RuntimeError: eof (this error originated at "
    "tensorpipe/transport/shm/connection_impl.cc:259)",
    "vllm": "TimeoutError: RPC call to execute_model timed out.",
    "deepep": "RuntimeError: DeepEP error: timeout (dispatch CPU)",
    "nccl": "OSError: (External) NCCL error(6), remote process exited or there was a "
    "network error.",
    "store": "RuntimeError: Stop_waiting response is expected",
    "lightgbm": "lightgbm.basic.LightGBMError: Socket recv error, Connection reset by peer "
    "(code: 104)",
    "torch_xla": "RuntimeError: tensorflow/compiler/xla/xla_client/mesh_service.cc:294 : "
    "Failed to meet rendezvous 'loss_reduce': Socket closed (14)",
    "tensorflow": "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops "
    "is aborted by: Socket closed",
    "jax": "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: GetKeyValue() timed out "
    "with key: cuda:nccl:devices=0,1 and duration: 10m",
    "ray": "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for "
    "object available to read.",
}


@pytest.mark.parametrize("text", OF_OTHERS.values(), ids=OF_OTHERS)
@pytest.mark.parametrize(
    "form", [traceback, lambda rank, last: f"[rank{rank}]: {last}\n"]
)
def test_who_got_no_answer_from_another_process_is_a_victim(analyzed, form, text):
    analysis = analyzed({"job.log": form(3, text)})
    assert analysis.ranked.outcome == "inconclusive"
    assert verdict(analysis) in (None, ("crashed-rank", ()))


def test_a_victim_stands_beside_the_rank_that_fell(analyzed):
    log = traceback(3, OF_OTHERS["vllm"]) + traceback(1, "IndexError: no row 7")
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (1,))


def test_a_worker_that_vllm_saw_end_may_be_a_victim(analyzed):
    text = (
        "(EngineCore_DP0 pid=5912) ERROR 10-15 08:32:29 [multiproc_executor.py:154] Worker "
        "proc VllmWorker-3 died unexpectedly, shutting down executor.\n"
    )
    analysis = analyzed({"job.log": text})
    assert (analysis.ranked.outcome, verdict(analysis)) == ("inconclusive", None)


def test_one_such_error_may_have_brought_about_the_other(analyzed):
    log = sticky("gpu0001") + sticky("gpu0002")
    assert analyzed({"job.log": log}).ranked.outcome == "inconclusive"


ACTOR = """ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing.
\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict
\tactor_id: d5f5
\tpid: 41011
\tname: fLhSWorkerDict_{}:6
\tip: {}
"""


@pytest.mark.parametrize(
    ("node", "address", "ranks", "hosts"),
    [
        (0, "192.0.2.12", (6,), ("192.0.2.12",)),
        # how many ranks are on the nodes before is not told
        (1, "192.0.2.12", (), ("192.0.2.12",)),
        (0, "xxxxxxx", (6,), ()),
    ],
)
def test_the_name_of_an_actor_tells_its_rank(analyzed, node, address, ranks, hosts):
    found = analyzed({"job.log": ACTOR.format(node, address)}).ranked.verdict
    assert (found.slug, found.ranks, found.hosts) == ("crashed-rank", ranks, hosts)


@pytest.mark.parametrize(
    ("later", "ranks"), [("Segmentation fault (core dumped)", (0, 1)), ("Killed", (1,))]
)
def test_a_fault_behind_the_teardown_is_its_tasks_own_if_it_began_with_one(
    analyzed, later, ranks
):
    log = (
        "srun: error: gpu0002: task 1: Segmentation fault (core dumped)\n"
        "srun: Terminating job step 20370799.1\n"
        f"srun: error: gpu0001: task 0: {later}\n"
        "srun: error: gpu0003: task 2: Terminated\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", ranks)


def logs_of(*endings):
    """Return a log per rank: two steps, then its ending."""
    head = "2026-11-20 12:00:0{n},000 INFO rank={rank} step {n} loss 0.5\n"
    return {
        f"rank{rank}.log": "".join(head.format(n=n, rank=rank) for n in (1, 2)) + ending
        for rank, ending in enumerate(endings)
    }


def test_a_rank_that_says_nothing_while_all_others_lost_it_ended(analyzed):
    lost = [traceback(rank, LOST) for rank in (0, 2, 3)]
    left = logs_of(lost[0], "", *lost[1:])
    analysis = analyzed(left)
    assert verdict(analysis) == ("crashed-rank", (1,))
    assert analysis.ranked.verdict.confidence == "likely"


def test_of_two_that_say_nothing_either_may_be_the_one_that_ended(analyzed):
    lost = [traceback(rank, LOST) for rank in (0, 3)]
    assert not verdict(analyzed(logs_of(lost[0], "", "", lost[1])))


def test_an_output_that_was_not_collected_may_hold_a_victims_words(analyzed):
    left = logs_of(*(traceback(rank, LOST) for rank in range(4)))
    del left["rank1.log"]
    assert not verdict(analyzed(left))


@pytest.mark.parametrize(
    "killed", ["killed by signal SIGABRT", "was killed by signal 6"]
)
def test_a_launchers_own_words_tell_how_the_ranks_ended(analyzed, killed):
    lost = [traceback(rank, LOST) for rank in (0, 2, 3)]
    left = logs_of(lost[0], "", *lost[1:])
    ends = [f"12:00:04 rank 1 {killed}"]
    ends += [f"12:00:04 rank {rank} exited with 1" for rank in (0, 2, 3)]
    analysis = analyzed({**left, "launcher.log": "\n".join(ends) + "\n"})
    assert verdict(analysis) == ("crashed-rank", (1,))
    assert "SIGABRT" in analysis.ranked.verdict.headline


@pytest.mark.parametrize(
    ("children", "ranks"),
    [
        # the program's fault: who was first is not known, and does not matter
        (((0, -11), (1, -11), (2, -11)), ()),
        (((0, -4), (1, -4)), ()),
        # also if some of the ranks are not seen, but not if half of them are not
        (((1, -11), (2, -11), (3, -11)), ()),
        (((2, -11), (3, -11)), (2, 3)),
        # one has a fault, and its peers lose it
        (((1, -11), (0, 1), (2, 1)), (1,)),
        (((1, -11), (0, -6)), (1,)),
    ],
)
def test_a_fault_of_most_ranks_at_once_is_the_programs(analyzed, children, ranks):
    names = {-4: "SIGILL", -6: "SIGABRT", -11: "SIGSEGV"}
    rows = [
        (
            rank,
            code,
            f"Signal {-code} ({names[code]}) received by PID {500 + rank}"
            if code < 0
            else NOTHING,
        )
        for rank, code in children
    ]
    assert verdict(analyzed({"job.log": table(*rows)})) == ("crashed-rank", ranks)


def test_the_only_task_that_srun_did_not_end_failed_by_itself(analyzed):
    log = (
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "srun: error: gpu0001: task 0: Exited with exit code 255\n"
        "srun: error: gpu0002: task 1: Killed\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (0,))
    cancelled = (
        "slurmstepd: error: *** STEP 31.0 ON gpu0001 CANCELLED AT 2026-11-20T10:00:00 "
        "***\n"
    )
    assert not (verdict(analyzed({"job.log": cancelled + log})) or ("", ()))[1]


AMD = (
    "Memory access fault by GPU node-4 (Agent handle: 0x631351bb5a20) on address "
    "0x7f00. Reason: Unknown.",
    "Memory access fault by GPU node-2 on address 0x7f00. Reason: Page not present.",
    ":0:rocdevice.cpp :3020: 9 us: [pid:41 tid:0x7f] Callback: Queue 0x7f Aborting with "
    "error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation failed. Code: 0x1016",
    "gpu0001:41:42 [1] init.cc:9 NCCL WARN HIP failure 'an illegal memory access was "
    "encountered'",
)


@pytest.mark.parametrize("line", AMD)
def test_what_amds_runtime_says_of_its_process_names_the_rank(analyzed, line):
    assert verdict(analyzed({"rank_1.log": line + "\n"}))[:2] == ("crashed-rank", (1,))


def test_a_hip_call_that_nccl_did_without_accuses_nobody(analyzed):
    line = "gpu0001:41:42 [1] NCCL INFO init.cc:9 HIP failure 'invalid argument'\n"
    assert analyzed({"rank_1.log": line}).ranked.verdict is None


FATAL = (
    "Fatal Python error: Segmentation fault\n\n"
    "Current thread 0x00007f1f9c2b4740 (most recent call first):\n"
    '  File "/job/train.py", line 141 in step\n'
)
SPIED = (
    "Process {0}: python train.py\nPython v3.11.7 (/usr/bin/python3)\n\n"
    'Thread {0} (idle): "MainThread"\n    step (train.py:141)\n'
)
NO_PROCESS = (
    "Error: Failed to open process {} - check if it is running.\n"
    "Reason: No such process (os error 3)\n"
)


@pytest.mark.parametrize(("gone", "ranks"), [({3}, (3,)), ({2, 3}, ()), (set(), ())])
def test_a_death_on_a_shared_console_is_of_the_one_process_that_is_gone(
    analyzed, gone, ranks
):
    spied = {
        f"py-spy-rank{r}.txt": (NO_PROCESS if r in gone else SPIED).format(500 + r)
        for r in range(4)
    }
    found = analyzed({"out.log": FATAL, **spied}).ranked.verdict
    assert (found.slug, found.ranks) == ("crashed-rank", ranks)


@pytest.mark.parametrize(
    ("dumped", "named"), [((0, 2, 3), ((1,), "likely")), ((0, 2), ((), "certain"))]
)
def test_a_death_without_a_name_is_of_the_one_rank_that_all_wait_for(
    analyzed, jobs, dumped, named
):
    """Real dumps of torch; of two ranks that are lost, either may have raised it."""
    there = jobs / "torch-crashed-rank" / "evidence" / "fr"
    dumps = {f"fr_{r}": (there / f"nccl_trace_rank_{r}").read_bytes() for r in dumped}
    raised = f"Traceback (most recent call last):\n{FRAME}ValueError: loss is nan\n"
    found = analyzed({"node.log": raised, **dumps}).ranked.verdict
    assert (found.slug, (found.ranks, found.confidence)) == ("crashed-rank", named)


def test_a_fault_placed_by_the_waits_keeps_its_own_advice(analyzed, jobs):
    there = jobs / "torch-crashed-rank" / "evidence" / "fr"
    dumps = {
        f"fr_{r}": (there / f"nccl_trace_rank_{r}").read_bytes() for r in (0, 2, 3)
    }
    found = analyzed({"out.log": FATAL, **dumps}).ranked.verdict
    assert (found.ranks, found.confidence) == ((1,), "likely")
    assert {cite.source for cite in found.evidence} > {"out.log"}
    assert any("PYTHONFAULTHANDLER" in str(action) for action in found.remedy)


SUPERVISED = "2026-11-29 00:59:21,885 WARN exited: rollout-1 ({}; not expected)\n"


@pytest.mark.parametrize(
    ("end", "why"),
    [("terminated by SIGSEGV", "SIGSEGV"), ("exit status 3", "exit code 3")],
)
def test_supervisord_reports_how_a_process_ended(analyzed, end, why):
    found = analyzed({"supervisord.log": SUPERVISED.format(end)}).ranked.verdict
    assert (found.slug, found.ranks) == ("crashed-rank", ())
    assert why in found.explanation


@pytest.mark.parametrize("end", ["exited: rollout-1 (exit status 0; expected)"])
def test_an_end_that_supervisord_expects_is_no_failure(analyzed, end):
    log = f"2026-11-29 00:59:21,873 INFO {end}\n"
    assert analyzed({"supervisord.log": log}).ranked.verdict is None


GLIBC = "double free or corruption (out)\n"


def test_a_process_that_glibc_aborted_is_the_only_one_that_failed(analyzed):
    told = analyzed({"job.log": GLIBC + table((1, -6, NOTHING))})
    assert verdict(told) == ("crashed-rank", (1,))
    assert "double free" in told.ranked.verdict.explanation


def test_of_two_that_aborted_nobody_knows_whose_memory_it_was(analyzed):
    told = analyzed({"job.log": GLIBC + table((1, -6, NOTHING), (0, -6, NOTHING))})
    assert told.ranked.verdict is None or told.ranked.verdict.ranks == ()


RAY = "(RayTrainWorker pid={}, ip=192.0.2.{}) "
DIED = (
    "(raylet, ip=192.0.2.12) A worker died or was killed while executing a task by an "
    "unexpected system error. Worker IP address: 192.0.2.12 Worker PID: 511\n"
)


@pytest.mark.parametrize(("victim", "named"), [(500, True), (511, False)])
def test_a_worker_that_ray_lost_is_not_one_that_its_watchdog_ended(
    analyzed, victim, named
):
    start = "Setting up process group for: env:// [rank={}, world_size=2]\n"
    log = RAY.format(500, 11) + start.format(0) + RAY.format(511, 12) + start.format(1)
    rank = f"[rank{int(victim == 511)}]:[E1120 10:00:01.000000001 ProcessGroupNCCL.cpp:632] "
    said = (
        RAY.format(victim, 11)
        + rank
        + (
            f"[Rank {int(victim == 511)}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
        )
    )
    told = verdict(analyzed({"driver.log": log + DIED + said}))
    assert (told == ("crashed-rank", (1,))) == named


KILLED = (
    "[2026-11-20 12:00:00,123] [ERROR] [launch.py:325:sigkill_handler] "
    "['/opt/venv/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return "
    "code = -9\n"
)
NOTICED = (
    "mpirun.real noticed that process rank 3 with PID 41011 on node gpu0001 exited on "
    "signal 9 (Killed).\n"
)


@pytest.mark.parametrize(("log", "ranks"), [(KILLED, ()), (NOTICED, (3,))])
def test_a_launcher_that_outlives_the_kill_saw_no_teardown(analyzed, log, ranks):
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("crashed-rank", ranks)
    assert analysis.ranked.verdict.confidence == "likely"


@pytest.mark.parametrize(
    ("last", "ranks"),
    [
        ("RuntimeError: Distributed package doesn't have NCCL built in", ()),
        ("AssertionError: Torch not compiled with CUDA enabled", ()),
        ("RuntimeError: the package of this batch is empty", (2,)),
    ],
)
def test_what_torch_was_built_without_is_no_ranks_fault(analyzed, last, ranks):
    assert verdict(analyzed({"job.log": traceback(2, last)})) == ("crashed-rank", ranks)


def test_spawns_words_count_with_a_capital_as_well(analyzed):
    log = "Process 2 terminated with exit code 9\n"
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))
