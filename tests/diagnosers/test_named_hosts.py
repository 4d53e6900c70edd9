"""Which host is named, where the line of the failure does not name it."""

import pytest

from log_lines import verdict

NODES = """NAME      STATUS     ROLES    AGE   VERSION
gpu0001   Ready      <none>   21m   v1.30.1
gpu0002   {}   <none>   21m   v1.30.1
"""
POD = "llm-worker-3   1/1   Terminating   0   20m   10.42.0.6   gpu0002   <none>   <none>\n"
XID = "[Wed Apr 10 11:29:39 2024] NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
DEAD = (
    "2026-11-20 12:00:00,741 WARNING worker.py:1228 -- The node with node id: {} and ip: "
    "{} has been marked dead because the detector has missed too many heartbeats from it.\n"
)
PRESSURE = (
    "(raylet) [2026-11-20 12:00:00,206 E 293463 293463] (raylet) node_manager.cc:3277: 2 "
    "Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due "
    "to other reasons at{}node (ID: 7789f87b78d161ae, IP: 10.20.0.12) over the last time "
    "period.\n"
)
SRUN = """srun: job 50917 queued and waiting for resources
srun: job 50917 has been allocated resources
slurmstepd: error: Detected 1 oom_kill event in StepId=50917.0. Some of the step tasks have been OOM Killed.
srun: error: gpu0002: task 0: Out Of Memory
srun: Terminating StepId=50917.0
"""


def test_a_node_that_is_not_ready_is_possible_and_likely_with_its_pod(analyzed):
    text = NODES.format("NotReady")
    for pods, confidence in (("", "possible"), (POD, "likely")):
        analysis = analyzed({"kubectl.txt": text + pods})
        assert verdict(analysis)[::2] == ("node-lost", ("gpu0002",))
        assert analysis.ranked.verdict.confidence == confidence


def test_ready_nodes_name_nobody(analyzed):
    analysis = analyzed({"kubectl.txt": NODES.format("Ready   ") + POD})
    assert analysis.ranked.verdict is None


@pytest.mark.parametrize("prompt", ["root@{}:~# ", "[root@{} ~]# "])
def test_a_prompt_names_the_host_of_its_file(analyzed, prompt):
    text = prompt.format("node7") + "dmesg -T\n" + XID
    assert verdict(analyzed({"paste.txt": text}))[2] == ("node7",)


def test_each_prompt_names_the_host_of_its_own_output(analyzed):
    text = "".join(f"root@{host}:~# dmesg -T\n" + XID for host in ("node7", "node8"))
    assert verdict(analyzed({"paste.txt": text}))[2] == ("node7", "node8")


def test_nodes_that_ray_marks_dead_are_named_by_their_address(analyzed):
    text = DEAD.format("1fc1", "10.20.0.12") + DEAD.format("8d2c", "10.20.0.13")
    analysis = analyzed({"driver.log": text})
    assert verdict(analysis)[::2] == ("node-lost", ("10.20.0.12", "10.20.0.13"))


@pytest.mark.parametrize("gap", [" ", " \n", " " * 40 + "\n"])
def test_the_node_of_ray_may_stand_on_the_next_line(analyzed, gap):
    analysis = analyzed({"driver.log": PRESSURE.format(gap)})
    assert verdict(analysis)[::2] == ("host-oom", ("10.20.0.12",))


def test_srun_names_host_and_task(analyzed):
    analysis = analyzed({"srun.out": SRUN})
    assert verdict(analysis)[:3] == ("host-oom", (0,), ("gpu0002",))


def test_the_model_of_a_gpu_is_no_host(analyzed):
    analysis = analyzed({"dmesg_mi300x.txt": XID})
    assert verdict(analysis)[2] == ()


def test_a_suffix_is_no_part_of_a_host(analyzed):
    assert verdict(analyzed({"cn-118.dmesg": XID}))[2] == ("cn-118",)


def test_a_line_that_names_its_host_outranks_the_prompt_above_it(analyzed):
    lost = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    text = (
        "ada@login1:~$ journalctl -k\n"
        f"Aug 20 10:00:00 gpu0001 kernel: {lost}\n"
        f"ada@gpu0002:~$ sudo dmesg\n[ 1843.305512] {lost}\n"
    )
    (finding,) = [
        f
        for _, f in analyzed({"paste.txt": text}).ranked.findings
        if f.slug == "gpu-fault"
    ]
    assert finding.hosts == ("gpu0001", "gpu0002")
