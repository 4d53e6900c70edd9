"""The launch classes: the processes did not meet, or were not told who they are."""

import pytest

from log_lines import agent, found, init, table, timeout, traceback, verdict

DIED = "torch.distributed.elastic.rendezvous.api."
WAITED = {
    "clients": "torch.distributed.DistStoreError: Timed out after 301 seconds "
    "waiting for "
    "clients. 1/2 clients joined.",
    "connect": "torch.distributed.DistNetworkError: The client socket has timed out "
    "after "
    "600s while trying to connect to (gpu0001, 29500).",
    "connect 1.11": "RuntimeError: connect() timed out. Original timeout was "
    "1800000 ms.",
    "agents": f"{DIED}RendezvousTimeoutError",
    "name 1.8": "ValueError: host not found: Name or service not known",
    "no way": "torch.distributed.DistNetworkError: The client socket has failed to "
    "connect to any network address of (gpu0001, 29500). The client socket has failed "
    "to connect to 10.0.0.1:29500 (errno: 113 - No route to host).",
    "store 1.13": "RuntimeError: Socket Timeout",
    "horovodrun, cut": "    timeout.check_time_out_for('tasks to start')",
    "workers": "torch.distributed.DistStoreError: Timed out after 6 seconds waiting "
    "for workers. 1/2 workers joined.",
    "horovodrun": "Exception: Timed out waiting for tasks to start. Please check "
    "connectivity between servers. You may need to increase the --start-timeout "
    "parameter if you have too many servers.",
    "json": '    "message": "RendezvousTimeoutError: ",',
    "one address": "[W socket.cpp:601] [c10d] The client socket has failed to connect "
    "to [gpu0001]:29500 (errno: 113 - No route to host).",
    "barrier 1.13": "RuntimeError: Timed out initializing process group in store based "
    "barrier on rank: 1, for key: store_based_barrier_key:1 (world_size=4, "
    "worker_count=3, "
    "timeout=0:30:00)",
}


@pytest.mark.parametrize("form", WAITED)
def test_a_rendezvous_that_nobody_came_to_accuses_nobody(analyzed, form):
    analysis = analyzed({"torchrun.log": traceback(None, WAITED[form])})
    assert verdict(analysis) == ("rendezvous-failed", (), ())


STORE_OF_1_8 = """\
-- Process 0 terminated with the following error:
Traceback (most recent call last):
  File "/home/u/train.py", line 31, in run
    dist.init_process_group("nccl")
  File "/venv/lib/python3.7/site-packages/torch/distributed/rendezvous.py", line 143, in _env_rendezvous_handler
    store = TCPStore(master_addr, master_port, world_size, start_daemon)
RuntimeError: {}
"""


@pytest.mark.parametrize("last", ["Connection timed out", "No route to host"])
def test_a_store_that_says_only_the_errno_was_not_reached(analyzed, last):
    analysis = analyzed({"job.log": STORE_OF_1_8.format(last)})
    assert verdict(analysis) == ("rendezvous-failed", (), ())


def test_how_many_came_is_said(analyzed):
    analysis = analyzed({"torchrun.log": traceback(None, WAITED["clients"])})
    assert "1 of 2 joined" in analysis.ranked.verdict.headline


@pytest.mark.parametrize(
    "line",
    [
        "ssh: connect to host gpu0002 port 22: Connection refused\n",
        "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no "
        "gpu0002 hostname' returned non-zero exit status 255.\n",
    ],
)
def test_a_node_that_the_launcher_cannot_log_in_to_is_named(analyzed, line):
    analysis = analyzed({"job.log": line})
    assert verdict(analysis) == ("rendezvous-failed", (), ("gpu0002",))
    assert "ssh gpu0002 hostname" in analysis.ranked.verdict.remedy


def test_the_port_that_the_launcher_tried_is_tried_again(analyzed):
    line = "ssh: connect to host gpu0002 port 50000: Connection refused\n"
    told = analyzed({"job.log": line}).ranked.verdict
    assert "ssh -p 50000 gpu0002 hostname" in told.remedy


def test_mpirun_that_cannot_start_its_daemons_names_nobody(analyzed):
    line = "ORTE was unable to reliably start one or more daemons.\n"
    assert verdict(analyzed({"job.log": line})) == ("rendezvous-failed", (), ())


WAITS = (
    "INFO:root:Waiting in store based barrier to initialize process group for rank: {}, "
    "key: store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)\n"
)
PASSED = (
    "INFO:torch.distributed.distributed_c10d:Rank {}: Completed store-based barrier for "
    "key:store_based_barrier_key:1 with 4 nodes.\n"
)


def test_a_barrier_of_the_store_that_waits_to_the_end_was_not_passed(analyzed):
    log = "".join(WAITS.format(rank) for rank in (0, 1, 3))
    assert verdict(analyzed({"job.log": log})) == ("rendezvous-failed", (2,), ())
    passed = log + "".join(PASSED.format(rank) for rank in (0, 1, 3))
    assert verdict(analyzed({"job.log": passed})) == "no-failure"


def test_an_address_without_a_way_is_nothing_where_training_went_on(analyzed):
    log = WAITED["one address"] + "\nstep 120 loss 2.1\n"
    assert verdict(analyzed({"job.log": log})) == "no-failure"


CLAIMED = (
    "gpu1:7:9 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has "
    "already checked in\n"
)


def test_a_rank_that_two_processes_claim_was_told_twice(analyzed):
    assert verdict(analyzed({"job.log": CLAIMED})) == ("missing-env", (), ())
    again = (
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. "
        "2/3 attempts left; will restart worker group\n"
    )
    # the old job's process may still be there
    assert verdict(analyzed({"job.log": again + CLAIMED}))[0] != "missing-env"


def test_ranks_that_met_did_not_fail_to_meet(analyzed):
    log = init(0, 2) + init(1, 2) + traceback(1, WAITED["connect"])
    assert not found(analyzed({"job.log": log}), "rendezvous-failed")


def test_a_store_lost_after_a_child_died_is_an_echo(analyzed):
    log = traceback(1, "ValueError: loss is nan") + traceback(
        None,
        f"{DIED}RendezvousConnectionError: The connection to the C10d store has "
        "failed.",
    )
    analysis = analyzed({"job.log": log + table((1, 1, 501))})
    assert verdict(analysis)[:2] == ("crashed-rank", (1,))


IN_USE = {
    "accelerate": "ConnectionError: Tried to launch distributed communication on port "
    "`29500`, but another process is utilizing it. Please specify a different port",
    "libuv": "torch.distributed.DistNetworkError: The server socket has failed to "
    "listen on "
    "any local network address. port: 29500, useIpv6: false, code: -98, name: "
    "EADDRINUSE, "
    "message: address already in use",
    "legacy": "RuntimeError: The server socket has failed to listen on any local "
    "network "
    "address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address "
    "already in use).",
    "1.9": "RuntimeError: Address already in use",
    "python": "OSError: [Errno 98] Address already in use",
    "grpc": 'E1120 10:12:31.123450  40441 server_chttp2.cc:40] {"description":"No address '
    'added out of total 1 resolved","referenced_errors":[{"description":"Address already '
    'in use","errno":98,"os_error":"Address already in use","syscall":"bind"}]}',
}


@pytest.mark.parametrize("form", IN_USE)
def test_a_port_that_is_taken_is_named_in_every_wording(analyzed, form):
    analysis = analyzed({"torchrun.log": traceback(None, IN_USE[form])})
    assert verdict(analysis) == ("port-in-use", (), ())
    assert all(role == "echo" for role, _ in found(analysis, "crashed-rank"))


@pytest.mark.parametrize(
    ("address", "hosts"),
    [("[login-3]", ("login-3",)), ("[::]", ()), ("0.0.0.0", ()), ("localhost", ())],
)
def test_a_name_to_which_the_store_was_bound_is_that_of_its_host(
    analyzed, address, hosts
):
    text = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on "
        f"any local network address. The server socket has failed to bind to {address}"
        ":29500 (errno: 98 - Address already in use).\n"
    )
    assert verdict(analyzed({"job.log": text})) == ("port-in-use", (), hosts)


@pytest.mark.parametrize(
    ("addresses", "slugs"),
    [(("[::]", "0.0.0.0"), ["port-in-use"]), (("[::]",), []), (("[::]", "[::]"), [])],
)
def test_a_server_that_can_bind_in_no_family_listens_nowhere(
    analyzed, addresses, slugs
):
    line = (
        "[W socket.cpp:426] [c10d] The server socket has failed to bind to {}:25641 "
        "(errno: 98 - Address already in use).\n"
    )
    text = "".join(line.format(address) for address in addresses)
    told = found(analyzed({"torchrun.log": text}), "port-in-use")
    assert [f.slug for _, f in told] == slugs


@pytest.mark.parametrize(
    "line",
    [
        "gpu0001:4121:4302 [0] NCCL INFO RAS failed to establish a client listening "
        "socket "
        "at 127.0.0.1<28028>\n",
        "[2026-08-20 10:00:00] gpu0001:4121:4302 [0] misc/socket.cc:420 NCCL WARN "
        "Call to "
        "bind failed: Address already in use\n",
    ],
)
def test_ras_that_cannot_bind_is_harmless(analyzed, line):
    assert not found(analyzed({"job.log": init(0, 1) + line}), "port-in-use")


def test_srun_tells_on_which_hosts(analyzed):
    log = traceback(None, IN_USE["legacy"]) + (
        "srun: error: gpu0002: task 1: Exited with exit code 1\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "srun: error: gpu0003: task 2: Exited with exit code 1\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("port-in-use", (1,), ("gpu0002",))


@pytest.mark.parametrize(
    ("last", "variable"),
    [
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable MASTER_ADDR expected, but not set",
            "MASTER_ADDR",
        ),
        (
            "ValueError: Error initializing torch.distributed using tcp:// "
            "rendezvous: rank "
            "parameter missing",
            "rank",
        ),
        ("ValueError: env:// rendezvous: WORLD_SIZE not set", "WORLD_SIZE"),
        ("KeyError: 'LOCAL_RANK'", "LOCAL_RANK"),
    ],
)
def test_a_variable_that_is_not_set_is_named(analyzed, last, variable):
    analysis = analyzed({"job.log": traceback(None, last)})
    assert verdict(analysis) == ("missing-env", (), ())
    assert variable in analysis.ranked.verdict.headline


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'MASTER_ADDR'\n",
        '    store, rank = next(it)\n    raise _env_error("MASTER_ADDR")\n',
    ],
)
def test_the_end_of_a_traceback_tells_the_variable(analyzed, line):
    analysis = analyzed({"job.log": line})
    assert verdict(analysis)[0] == "missing-env"
    assert "MASTER_ADDR" in analysis.ranked.verdict.headline


def test_another_key_that_is_missing_is_a_crash(analyzed):
    analysis = analyzed({"job.log": traceback(2, "KeyError: 'input_ids'")})
    assert verdict(analysis)[:2] == ("crashed-rank", (2,))
    assert not found(analysis, "missing-env")


def test_several_worlds_of_one_are_a_lost_world_size(analyzed):
    inits = "".join(init(0, 1, pid=pid, comm=f"0x{pid}") for pid in (41, 42, 43))
    analysis = analyzed(
        {"job.log": inits + traceback(None, "ValueError: world too small")}
    )
    assert verdict(analysis) == ("missing-env", (), ())
    assert verdict(analyzed({"job.log": inits})) == "no-failure"


WARN = (
    "[2026-08-20 11:35:37] gpu0001:400{0}:400{0} [0] graph/rings.cc:44 NCCL WARN "
    "Error : "
    "ring 0 does not loop back to start (1 != 0)\n"
)


def env(rank, variable, value):
    head = f"gpu0001:400{rank}:400{rank} [0] NCCL INFO"
    return f"{head} {variable} set by environment to {value}.\n"


def job_with(lines, broken=True):
    files = {}
    for rank in range(4):
        text = init(rank, 4, bus=f"{rank + 1}000") + lines.get(rank, "")
        files[f"rank_{rank}.log"] = text + (WARN.format(rank) if broken else "")
    return files


def test_the_rank_whose_variable_differs_is_named(analyzed):
    lines = {r: env(r, "NCCL_PROTO", "LL" if r == 2 else "Simple") for r in range(4)}
    assert verdict(analyzed(job_with(lines))) == (
        "inconsistent-env",
        (2,),
        ("gpu0001",),
    )


def test_a_variable_that_only_one_rank_has_names_it(analyzed):
    lines = {1: env(1, "NCCL_SHM_DISABLE", "1")}
    assert verdict(analyzed(job_with(lines))) == (
        "inconsistent-env",
        (1,),
        ("gpu0001",),
    )


@pytest.mark.parametrize(
    "variable", ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_DEBUG_FILE"]
)
def test_what_each_node_may_have_for_itself_is_no_fault(analyzed, variable):
    lines = {r: env(r, variable, f"eth{r}") for r in range(4)}
    assert not found(analyzed(job_with(lines)), "inconsistent-env")


@pytest.mark.parametrize(("others", "named"), [(True, True), (False, False)])
def test_a_host_alone_has_a_variable_if_the_others_print_theirs(
    analyzed, others, named
):
    files = {}
    for rank in range(3):
        host, variables = f"gpu000{rank}", {"NCCL_IB_DISABLE": "1"} if others else {}
        variables |= {"NCCL_PROTO": "Simple"} if rank == 2 else {}
        text = "".join(env(rank, *pair) for pair in variables.items())
        text += init(rank, 3) + WARN.format(rank)
        files[f"rank_{rank}.log"] = text.replace("gpu0001", host)
    found = {f.slug: f.ranks for _, f in analyzed(files).ranked.findings}
    assert found.get("inconsistent-env") == ((2,) if named else None)


def test_a_job_that_runs_has_no_inconsistent_environment(analyzed):
    lines = {1: env(1, "NCCL_SHM_DISABLE", "1")}
    assert verdict(analyzed(job_with(lines, broken=False))) == "no-failure"


def test_two_against_two_name_nobody(analyzed):
    lines = {r: env(r, "NCCL_PROTO", "LL" if r < 2 else "Simple") for r in range(4)}
    assert not found(analyzed(job_with(lines)), "inconsistent-env")


def test_agents_of_one_run_that_each_met_themselves_are_split(analyzed):
    files = {f"gpu000{n}.log": agent(n) for n in (1, 2)}
    assert verdict(analyzed(files))[:2] == ("split-rendezvous", ())


def test_two_jobs_in_one_directory_are_not_split(analyzed):
    files = {f"gpu000{n}.log": agent(n, run=f"job{n}") for n in (1, 2)}
    assert not found(analyzed(files), "split-rendezvous")


def test_agents_that_met_are_not_split(analyzed):
    files = {f"gpu000{n}.log": agent(n, nodes=2, node=n - 1) for n in (1, 2)}
    assert not found(analyzed(files), "split-rendezvous")


def test_two_whole_worlds_in_one_failed_log_are_split(analyzed):
    worlds = "".join(
        init(r, 2, host=host, pid=50 + r, comm=comm)
        for host, comm in (("gpu0001", "0xaa"), ("gpu0002", "0xbb"))
        for r in (0, 1)
    )
    spanning = "".join(
        init(r, 4, host=f"gpu000{r // 2 + 1}", pid=50 + r) for r in range(4)
    )
    bad = traceback(None, "ValueError: expected a world of 4")
    assert verdict(analyzed({"job.log": worlds + bad}))[0] == "split-rendezvous"
    assert not found(analyzed({"job.log": worlds}), "split-rendezvous")
    analysis = analyzed({"job.log": worlds + spanning + bad})
    assert not found(analysis, "split-rendezvous")


def worlds_of_their_own(command="+ torchrun --nnodes=2 train.py\n", begun=""):
    """Two nodes, started by one command, that each hold a world of two ranks."""
    return {
        f"gpu000{n}.log": command
        + "".join(
            init(r, 2, host=f"gpu000{n}", pid=50 + r, comm=f"0x{n}a") for r in (0, 1)
        )
        + begun
        for n in (1, 2)
    }


def test_nodes_that_were_to_meet_and_each_formed_a_world_may_be_split(analyzed):
    analysis = analyzed(worlds_of_their_own())
    told = analysis.ranked.verdict
    assert (told.slug, told.confidence) == ("split-rendezvous", "possible")


@pytest.mark.parametrize(
    "files",
    [
        worlds_of_their_own(command=""),
        worlds_of_their_own(command="+ torchrun --nnodes=1 train.py\n"),
        # each node's group comes before that of all ranks
        worlds_of_their_own(begun=init(0, 4, comm="0xff", phase="START")),
    ],
    ids=["no command", "for one node", "a wider one is begun"],
)
def test_a_group_within_each_node_is_no_split(analyzed, files):
    assert not found(analyzed(files), "split-rendezvous")


def test_elastic_horovod_that_gives_up_names_the_hosts_it_lost(analyzed):
    log = (
        "WARNING:root:blacklist failing host: gpu0002\n"
        "horovod.runner.common.util.timeout.TimeoutException: Timed out waiting for "
        "minimum "
        "number of slots to be available. Please check that you have enough "
        "resources to run "
        "at least 6 Horovod processes.\n"
    )
    analysis = analyzed({"horovodrun.log": log})
    assert verdict(analysis) == ("elastic-below-min", (), ("gpu0002",))


def test_a_blacklisted_host_alone_is_not_below_the_minimum(analyzed):
    log = "WARNING:root:blacklist failing host: gpu0002\n" + timeout(0)
    assert not found(analyzed({"horovodrun.log": log}), "elastic-below-min")


RESTART = (
    "I0820 11:09:12.278000 41007 torch/distributed/elastic/agent/server/api.py:900] "
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
)


def steps(first, last):
    return "".join(f"step {n} loss 1.25\n" for n in range(first, last + 1))


def test_a_restart_that_counts_from_the_start_lost_its_state(analyzed):
    analysis = analyzed({"job.log": steps(0, 40) + RESTART + steps(0, 10)})
    assert verdict(analysis) == ("restart-lost-state", (), ())
    assert "after step 40" in analysis.ranked.verdict.headline


FAILED = (
    "E1128 15:12:10.072000 16100 torch/distributed/elastic/multiprocessing/api.py:1002] "
    "failed (exitcode: 1) local_rank: 1 (pid: 16112) of binary: /usr/bin/python\n"
)


@pytest.mark.parametrize(("again", "lost"), [((0, 30), True), ((40, 60), False)])
def test_steps_behind_a_failure_that_an_agent_logs_are_of_a_restart(
    analyzed, again, lost
):
    """At its usual level it does not say that it restarts."""
    log = steps(0, 40) + FAILED + steps(*again)
    assert bool(found(analyzed({"job.log": log}), "restart-lost-state")) == lost


DATED = "2026-11-20 1{}:{:02}:00 step {} loss 1.25\n"


def by_the_clock(hour, first, last):
    return "".join(DATED.format(hour, n, n) for n in range(first, last + 1))


@pytest.mark.parametrize(("hour", "lost"), [(2, True), (0, False)])
def test_the_node_that_counts_anew_may_have_joined_with_the_restart(
    analyzed, hour, lost
):
    """Its own agent logs no restart; before that of another it is a second count."""
    restart = "W1120 11:30:00.000000 700 torch/distributed/elastic/agent/server/api.py:952] [default] Detected 1 new nodes from group_rank=0; will restart worker group\n"
    logs = {
        "n0.log": by_the_clock(1, 0, 20) + restart,
        "n1.log": by_the_clock(hour, 0, 20),
    }
    assert bool(found(analyzed(logs), "restart-lost-state")) == lost


def attempts(again, more=""):
    folder = "none_a/attempt_{}/0/stdout.log"
    second = steps(*again) + more
    return {
        "torchrun.log": RESTART,
        folder.format(0): steps(0, 40) + traceback(1, "ValueError: the first"),
        folder.format(1): second,
    }


def test_steps_of_an_attempt_in_its_own_folder_count_as_well(analyzed):
    analysis = analyzed(attempts((0, 30)))
    assert verdict(analysis) == ("restart-lost-state", (), ())
    cited = {cite.source for cite in analysis.ranked.verdict.evidence}
    assert {s for s in cited if "attempt_0" in s}


@pytest.mark.parametrize(
    ("again", "more"), [((30, 60), ""), ((0, 30), traceback(1, "ValueError: again"))]
)
def test_an_attempt_that_resumed_or_failed_has_lost_nothing(analyzed, again, more):
    assert not found(analyzed(attempts(again, more)), "restart-lost-state")


@pytest.mark.parametrize(
    "log",
    [
        steps(0, 40) + RESTART + steps(30, 60),
        steps(0, 40) + steps(0, 10),
        steps(0, 40) + RESTART + steps(0, 10) + traceback(1, "ValueError: again"),
    ],
    ids=["resumed", "two epochs", "failed again"],
)
def test_a_counter_that_means_something_else_is_no_lost_state(analyzed, log):
    assert not found(analyzed({"job.log": log}), "restart-lost-state")


FURTHER = (
    "(Worker pid=41007, ip=10.0.0.2) [E socket.cpp:922] [c10d] The client socket has "
    "timed out after 1800s while trying to connect to (172.17.0.2, 44737).\n"
)


def test_the_store_of_a_further_group_that_nobody_reached_accuses_nobody(analyzed):
    top = verdict(analyzed({"job.log": FURTHER + timeout(3)}))
    assert top == ("rendezvous-failed", (), ())


def test_a_store_that_is_gone_after_the_timeout_is_no_cause(analyzed):
    analysis = analyzed({"job.log": timeout(3) + FURTHER})
    assert not found(analysis, "rendezvous-failed")


AGENT_RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/venv/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/launcher/api.py", '
    "line 268, in launch_agent\n    result = agent.run()\n"
)
UNRESOLVED = "nslookup: can't resolve '{}': Name does not resolve\nwaiting for master\n"


def test_a_master_without_an_address_is_possible_if_the_launcher_failed(analyzed):
    text = UNRESOLVED.format("train-a-master-0") + AGENT_RAISED
    top = analyzed({"worker.log": text}).ranked.verdict
    assert (top.slug, top.confidence) == ("rendezvous-failed", "possible")
    assert "train-a-master-0" in top.headline


def test_a_script_that_waits_for_its_master_is_healthy(analyzed):
    text = UNRESOLVED.format("train-a-master-0") + "step 1 loss 3.2\nstep 2 loss 3.1\n"
    assert verdict(analyzed({"worker.log": text})) == "no-failure"


def test_a_lookup_that_failed_before_a_child_did_is_no_finding(analyzed):
    text = UNRESOLVED.format("train-a-master-0") + table((0, 1, 4000))
    assert not found(analyzed({"worker.log": text}), "rendezvous-failed")


NOT_FOUND = "/var/spool/slurmd/job77/slurm_script: line 24: exec: torchrun: not found\n"
AGENT = (
    "Traceback (most recent call last):\n"
    '  File "/opt/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 663, '
    "in run\n    raise RendezvousTimeoutError\n"
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
)


def test_a_launcher_that_is_not_found_starts_nothing(analyzed):
    found = analyzed({"gpu0003.log": NOT_FOUND}).ranked.verdict
    assert (found.slug, found.confidence) == ("rendezvous-failed", "likely")
    assert "did not find torchrun" in found.headline


def test_whose_launcher_is_not_found_is_whom_the_others_wait_for(analyzed):
    waiting = {f"gpu000{n}.log": AGENT for n in (1, 2)}
    found = analyzed({**waiting, "gpu0003.log": NOT_FOUND}).ranked.verdict
    assert (found.slug, found.confidence) == ("rendezvous-failed", "certain")
    assert (found.hosts, "torchrun" in found.headline) == (("gpu0003",), True)


def test_where_the_agent_started_in_spite_of_it_nobody_is_named(analyzed):
    waiting = {f"gpu000{n}.log": AGENT for n in (1, 2)}
    found = analyzed({**waiting, "gpu0002.log": NOT_FOUND + AGENT}).ranked.verdict
    assert "torchrun" not in found.headline


def test_in_a_job_that_made_steps_it_says_nothing(analyzed):
    log = NOT_FOUND + "".join(f"step {n} loss 1.5\n" for n in range(9))
    found = analyzed({"job.log": log}).ranked.verdict
    assert found is None or found.slug != "rendezvous-failed"


SERVER = (
    "torch.distributed.DistStoreError: Timed out after 121 seconds waiting for clients. "
    "{}/{} clients joined.\n"
)
IN_VAIN = (
    "[E419 13:27:42.301344821 socket.cpp:1011] [c10d] The client socket has timed out "
    "after 120000ms while trying to connect to (gpu0001, 29500).\n"
)


@pytest.mark.parametrize(("size", "ranks"), [(4, (3,)), (2, ())])
def test_who_did_not_reach_a_store_is_named_where_others_did(analyzed, size, ranks):
    """Of two, either end of the way between them may be the one that is blocked."""
    last = f"rank_{size - 1}.log"
    files = {"rank_0.log": SERVER.format(size - 1, size), last: IN_VAIN}
    assert verdict(analyzed(files)) == ("rendezvous-failed", ranks, ())


ASKED = (
    "[W311 09:31:15.738941174 socket.cpp:487] [c10d] waitForInput: socket SocketImpl("
    "fd=11, addr=[gpu0002]:41202, remote=[::ffff:10.0.0.7]:23456) timed out after "
    "900000ms\n"
)
LAUNCHER = (
    "Traceback (most recent call last):\n"
    '  File "/opt/lib/python3.11/site-packages/torch/distributed/run.py", line 910, in '
    "run\n    elastic_launch(\n"
)


def test_a_store_that_does_not_answer_a_launcher_is_possible(analyzed):
    found = analyzed({"job.log": ASKED + LAUNCHER}).ranked.verdict
    assert (found.slug, found.confidence) == ("rendezvous-failed", "possible")
    assert (found.hosts, "10.0.0.7:23456" in found.headline) == ((), True)


def test_an_answer_of_the_store_that_is_late_says_nothing(analyzed):
    assert analyzed({"job.log": ASKED}).ranked.verdict is None
    steps = "".join(f"step {n} loss 1.5\n" for n in range(9))
    found = analyzed({"job.log": steps + ASKED + LAUNCHER}).ranked.verdict
    assert found is None or found.slug != "rendezvous-failed"


@pytest.mark.parametrize(
    ("line", "confidence"),
    [
        ("RuntimeError: No route to host\n", "likely"),
        ("with two nodes I get `RuntimeError: No route to host` here\n", "possible"),
        (
            "2026:11:20-17:20:51:( 2399) |CCL_ERROR| internal_kvs.cpp:529 kvs_init: "
            "connection error: timeout limit (121 > 120)\n",
            "certain",
        ),
        (
            "  what():  [/x/gloo/gloo/rendezvous/file_store.cc:112] Wait timeout for "
            "key(s): [rank_3]\n",
            "certain",
        ),
    ],
)
def test_other_words_for_a_store_that_was_not_reached(analyzed, line, confidence):
    found = analyzed({"job.log": line}).ranked.verdict
    assert (found.slug, found.confidence) == ("rendezvous-failed", confidence)
    assert (found.hosts, found.ranks) == ((), ())


def test_an_error_of_another_program_is_no_store_that_was_not_reached(analyzed):
    for line in ("curl: No route to host\n", "RuntimeError: Timed out\n"):
        found = analyzed({"job.log": line}).ranked.verdict
        assert found is None or found.slug != "rendezvous-failed"


GRPC = "E1120 10:12:31.123450       1 add_port.cc:83] Failed to add port to server:{}\n"
UNBOUND = " No address added out of total 1 resolved for '[::]:8476'"


def test_a_server_of_grpc_that_got_no_address_found_its_port_taken(analyzed):
    told = analyzed({"task0.log": GRPC.format(UNBOUND)}).ranked.verdict
    assert (told.slug, told.confidence) == ("port-in-use", "likely")
    assert "8476" in told.headline
    other = GRPC.format(UNBOUND + " errors: [listen EPERM: not permitted]")
    assert not found(analyzed({"task0.log": other}), "port-in-use")
