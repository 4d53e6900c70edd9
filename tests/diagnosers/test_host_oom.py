"""host-oom needs somebody who says that memory ran out; SIGKILL alone does not."""

import pytest

from log_lines import found, init, kernel, table, timeout, verdict

JOB = init(0, 2, pid=500) + init(1, 2, pid=501)
KILL = (
    "Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:201326592kB, "
    "anon-rss:104857600kB, file-rss:1024kB, shmem-rss:0kB, UID:1000"
)
KERNEL = {
    "cgroup": KILL,
    "global": "Out of memory: Killed process {pid} ({name}) total-vm:2kB, anon-rss:1kB",
    "old": "Out of memory: Kill process {pid} ({name}) score 900 or sacrifice child",
    "old, second line": "Killed process {pid} ({name}), UID 7, total-vm:2kB, anon-rss:1kB",
    "reaper": "oom_reaper: reaped process {pid} ({name}), now anon-rss:0kB, file-rss:0kB",
    "target": "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_5,"
    "mems_allowed=0,oom_memcg=/slurm/job_5,task_memcg=/slurm/job_5,task={name},pid={pid},uid=0",
}


@pytest.mark.parametrize("form", KERNEL)
def test_the_kernels_pid_names_the_rank(analyzed, form):
    log = kernel(KERNEL[form].format(pid=501, name="python"))
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert verdict(analysis) == ("host-oom", (1,), ("gpu0001",))
    assert analysis.ranked.verdict.confidence == "certain"


@pytest.mark.parametrize(
    ("constraint", "words"),
    [("CONSTRAINT_MEMCG", "at the memory limit"), ("CONSTRAINT_NONE", "out of host")],
)
def test_a_limit_that_was_reached_is_no_full_host(analyzed, constraint, words):
    line = KERNEL["target"].format(pid=501, name="python")
    log = kernel(line.replace("CONSTRAINT_MEMCG", constraint))
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    ((_, finding),) = found(analysis, "host-oom")
    assert words in finding.headline
    asks_first = "limits.memory" in finding.remedy[0]
    assert asks_first == (constraint == "CONSTRAINT_MEMCG")


def test_a_pid_of_another_namespace_is_joined_by_the_only_sigkill(analyzed):
    log = kernel(KILL.format(pid=2187734, name="pt_main_thread"))
    files = {"job.log": JOB + table((1, -9, 501)), "dmesg.log": log}
    analysis = analyzed(files)
    assert verdict(analysis) == ("host-oom", (1,), ("gpu0001",))
    assert analysis.ranked.verdict.confidence == "likely"
    assert [role for role, _ in found(analysis, "crashed-rank")] == ["echo"]


def test_of_two_that_were_killed_neither_is_picked(analyzed):
    log = kernel(KILL.format(pid=2187734, name="python"))
    files = {"job.log": JOB + table((1, -9, 501), (0, -9, 500)), "dmesg.log": log}
    assert verdict(analyzed(files)) == ("host-oom", (), ("gpu0001",))


def test_sigkill_alone_is_a_crash_of_unknown_origin(analyzed):
    analysis = analyzed({"job.log": JOB + table((1, -9, 501))})
    assert verdict(analysis) == ("crashed-rank", (1,), ("gpu0001",))
    assert not found(analysis, "host-oom")


def test_a_program_that_is_not_the_jobs_says_nothing(analyzed):
    log = kernel(KILL.format(pid=77, name="node_exporter"))
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert not found(analysis, "host-oom")


ASKED = "{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0"


@pytest.mark.parametrize(
    ("name", "fires"), [("python", True), ("node_exporter", False)]
)
def test_a_kernel_log_that_ends_before_the_kill_shows_who_asked(analyzed, name, fires):
    log = kernel(ASKED.format(name=name))
    told = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert bool(found(told, "host-oom")) == fires
    assert not fires or told.ranked.verdict.confidence == "likely"


KEEPERS = {
    "slurm": "slurmstepd: error: Detected 1 oom_kill event in StepId=50917.0. Some "
    "of the "
    "step tasks have been OOM Killed.\n",
    "slurm 19": "slurmstepd: error: Detected 1 oom-kill event(s) in step 50917.0 "
    "cgroup. "
    "Some of your processes may have been killed by the cgroup out-of-memory "
    "handler.\n",
    "kubernetes": "    Last State:     Terminated\n      Reason:       OOMKilled\n",
    "ray": "ray.exceptions.OutOfMemoryError: Task was killed due to the node "
    "running low "
    "on memory.\n",
    "raylet": "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), "
    "0 Workers crashed due to other reasons\n",
}


@pytest.mark.parametrize("keeper", KEEPERS)
def test_other_keepers_of_memory_are_believed(analyzed, keeper):
    analysis = analyzed({"job.log": KEEPERS[keeper]})
    assert verdict(analysis) == ("host-oom", (), ())


def test_srun_names_the_task_where_each_task_is_a_rank(analyzed):
    log = JOB + "srun: error: gpu0001: task 1: Out Of Memory\n"
    assert verdict(analyzed({"job.log": log})) == ("host-oom", (1,), ("gpu0001",))


def test_a_container_that_was_not_killed_is_no_failure(analyzed):
    text = '            "OOMKilled": false,\n'
    assert verdict(analyzed({"job.log": JOB, "inspect.txt": text})) == "no-failure"


CUT = "oom-kill:constraint={},nodemask=(null),cpuset=3f2a,mems_allowed=0-1,o"


@pytest.mark.parametrize(
    ("constraint", "slugs"),
    [("CONSTRAINT_MEMCG", ["host-oom"]), ("CONSTRAINT_NONE", [])],
)
def test_a_cut_line_counts_where_a_group_was_limited(analyzed, constraint, slugs):
    analysis = analyzed({"dmesg.log": kernel(CUT.format(constraint), "gpu0002")})
    told = found(analysis, "host-oom")
    assert [f.slug for _, f in told] == slugs
    assert all((f.ranks, f.hosts) == ((), ("gpu0002",)) for _, f in told)


NODE = "Name:  llm-worker-0\nNode:      gpu0001.cluster.local/10.12.44.9\n"


@pytest.mark.parametrize(("node", "ranks"), [("gpu0001", (1,)), ("gpu0009", ())])
def test_a_pod_is_the_host_of_its_ranks_and_ran_on_a_node(analyzed, node, ranks):
    log = kernel(KILL.format(pid=2187734, name="pt_main_thread"), host=node)
    files = {
        "worker-0.log": table((1, -9, 45443), host="llm-worker-0"),
        "describe-worker-0.txt": NODE,
        f"dmesg-{node}.log": log,
    }
    assert verdict(analyzed(files)) == ("host-oom", ranks, (node,))


@pytest.mark.parametrize(
    "behind",
    [
        ", ID: e5d953) where the task (task ID: 43534ce9, name=tra",
        ", ID: e5d953) where the lease (lease ID: 43534ce9, name=train, pid=41011, memory "
        "used=50.10GB) was running was 60.24GB / 62.00GB (0.97)",
        ") was 60.24GB / 62.00GB (0.97)",
    ],
)
def test_rays_monitor_names_the_node_in_all_its_words(analyzed, behind):
    log = f"Memory on the node (IP: 10.20.0.12{behind}\n"
    told = analyzed({"ray.log": log}).ranked.verdict
    assert (told.slug, told.hosts) == ("host-oom", ("10.20.0.12",))
