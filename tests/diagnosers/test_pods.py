"""Pods as JSON, YAML, tables and descriptions: each names the pod, node and rank."""

import json

import pytest

from log_lines import found, timeout, verdict

POD = "train-worker-1"
WAITS = (
    "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. "
    "1/2 clients joined.\n"
)


def pod(status, node="gpu0007", **meta):
    # core/v1 Pod, as `kubectl get pod -o json` prints it
    container = {
        "name": "pytorch",
        "env": [{"name": "RANK", "value": "1"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "namespace": "ml", **meta},
        "spec": {"containers": [container], "nodeName": node},
        "status": status,
    }


def ended(reason, code):
    at = "2026-08-20T10:00:00Z"
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}
    status = {"name": "pytorch", "state": state, "ready": False}
    return {"phase": "Failed", "containerStatuses": [status]}


def waiting(reason):
    state = {"waiting": {"reason": reason, "message": "not found"}}
    return {
        "phase": "Pending",
        "containerStatuses": [{"name": "pytorch", "state": state}],
    }


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
            "lastTransitionTime": "2026-08-20T09:00:00Z",
        }
    ],
}
EVICTED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: memory. Threshold quantity: 100Mi.",
}
PREEMPTED = {
    "phase": "Failed",
    "conditions": [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "preempting to accommodate a higher priority pod",
        }
    ],
}


def event(reason, message, kind="Pod", name=POD, level="Warning"):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": level,
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": "2026-08-20T10:00:00Z",
    }


def listed(*items):
    return {"apiVersion": "v1", "items": list(items), "kind": "List"}


def yaml_of(value, indent=0):
    """Write plain maps, lists and strings as block YAML, in order."""
    pad = "  " * indent
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            nested = isinstance(item, dict | list)
            inner = (
                f"\n{yaml_of(item, indent + 1)}" if nested else f" {json.dumps(item)}\n"
            )
            lines.append(f"{pad}{key}:{inner}")
        return "".join(lines)
    first = (yaml_of(item, indent + 1) for item in value)
    return "".join(f"{pad}- {text[len(pad) + 2 :]}" for text in first)


FORMS = {
    "json": lambda value: ("pod.json", json.dumps(value, indent=4)),
    "yaml": lambda value: (
        "pod.yaml",
        yaml_of(value).replace('"v1"', "v1", 1).replace('kind: "Pod"', "kind: Pod", 1),
    ),
    "list": lambda value: ("pods.json", json.dumps(listed(value), indent=4)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("status", "slug", "ranks"),
    [
        (ended("OOMKilled", 137), "host-oom", (1,)),
        (EVICTED, "host-oom", ()),
        (PREEMPTED, "preempted", (1,)),
        (UNSCHEDULABLE, "rendezvous-failed", ()),
        (waiting("ImagePullBackOff"), "rendezvous-failed", ()),
    ],
)
def test_a_pods_object_names_the_pod(analyzed, form, status, slug, ranks):
    name, text = FORMS[form](pod(status))
    analysis = analyzed({name: text})
    assert verdict(analysis)[0] == slug
    assert POD in analysis.ranked.verdict.hosts
    if ranks:
        assert analysis.ranked.verdict.ranks == ranks


def test_the_node_of_a_killed_pod_is_told(analyzed):
    analysis = analyzed({"pod.json": json.dumps(pod(ended("OOMKilled", 137)))})
    assert f"{POD} on node gpu0007" in analysis.ranked.verdict.explanation


@pytest.mark.parametrize(
    ("one", "slug"),
    [
        (event("FailedScheduling", "0/5 nodes are available."), "rendezvous-failed"),
        (
            event("Failed", 'Failed to pull image "a/b:1": not found'),
            "rendezvous-failed",
        ),
        (event("Evicted", "The node was low on resource: memory."), "host-oom"),
        (event("Preempted", "Preempted by a pod on node gpu0007"), "preempted"),
        (event("NodeNotReady", "Node is not ready"), "node-lost"),
    ],
)
def test_an_events_object_and_its_table_agree(analyzed, one, slug):
    table = (
        "LAST SEEN   TYPE      REASON   OBJECT   MESSAGE\n"
        f"2m          Warning   {one['reason']}   pod/{POD}   {one['message']}\n"
    )
    by_object = analyzed({"events.json": json.dumps(listed(one))})
    by_table = analyzed({"events.txt": table})
    assert verdict(by_object)[0] == verdict(by_table)[0] == slug


def test_a_pod_that_started_in_the_end_is_no_failure(analyzed):
    events = (
        event("FailedScheduling", "0/5 nodes are available."),
        event("Started", "Started container pytorch", level="Normal"),
    )
    analysis = analyzed({"events.json": json.dumps(listed(*events))})
    assert not found(analysis, "rendezvous-failed")


def test_a_pod_that_never_started_is_why_the_others_wait(analyzed):
    table = (
        f"2m   Warning   FailedScheduling   pod/{POD}   0/5 nodes are available.\n"
        "3m   Normal   Started   pod/train-worker-0   Started container pytorch\n"
    )
    analysis = analyzed({"job.log": WAITS, "events.txt": table})
    assert verdict(analysis) == ("rendezvous-failed", (), (POD,))


def test_a_described_pod_is_the_one_that_never_started(analyzed):
    text = (
        f"Name:             {POD}\nNamespace:        ml\nNode:             <none>\n"
        "Status:           Pending\nEvents:\n"
        "  Type     Reason            Age   From               Message\n"
        "  Warning  FailedScheduling  2m    default-scheduler  0/5 nodes are available: "
        "5 Insufficient nvidia.com/gpu.\n"
    )
    analysis = analyzed({"describe.txt": text})
    assert verdict(analysis) == ("rendezvous-failed", (), (POD,))


def test_the_command_that_describe_prints_is_no_word_of_the_pod(analyzed):
    text = (
        f"Name:             {POD}\nNode:             gpu0007/10.0.0.7\n"
        "Args:\n      torchrun --nnodes=8 --nproc_per_node=8 train.py\nEvents:\n"
        "  Warning  FailedMount  2m (x9 over 14m)   kubelet  MountVolume.SetUp failed "
        'for volume "corpus" : mount failed: exit status 32\n'
    )
    analysis = analyzed({f"describe_{POD}.txt": text})
    assert verdict(analysis) == ("rendezvous-failed", (), (POD,))


def test_a_pod_that_is_deleted_while_it_runs_is_cancelled(analyzed):
    state = {"running": {"startedAt": "2026-08-20T09:00:00Z"}}
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "pytorch", "state": state}],
    }
    told = pod(status, deletionTimestamp="2026-08-20T10:00:30Z")
    analysis = analyzed({"pod.json": json.dumps(told)})
    assert verdict(analysis)[0] == "cancelled"
    assert analysis.ranked.verdict.confidence == "likely"


def test_a_pod_that_runs_is_no_failure(analyzed):
    state = {"running": {"startedAt": "2026-08-20T09:00:00Z"}}
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "pytorch", "state": state}],
    }
    analysis = analyzed({"pod.json": json.dumps(pod(status))})
    assert analysis.ranked.verdict is None


def test_a_pod_on_a_lost_node_is_named_with_the_node(analyzed):
    status = {"phase": "Failed", "reason": "NodeLost", "message": "unresponsive"}
    analysis = analyzed({"pod.json": json.dumps(pod(status))})
    assert analysis.report.verdict.restart == "after draining gpu0007"
    found = analysis.ranked.verdict
    assert (found.slug, found.hosts) == ("node-lost", (POD,))
    assert found.headline.startswith("node gpu0007 was lost")
    assert "kubectl describe node gpu0007" in found.remedy[0]


NOT_READY = (
    "12m  Normal   NodeNotReady  node/gke-7f21    Node gke-7f21 status is now: "
    "NodeNotReady\n12m  Warning  NodeNotReady  pod/{}  Node is not ready\n"
)


@pytest.mark.parametrize(
    ("name", "host"), [("llm-worker-2", "llm-worker-2"), ("dns-x1", "gke-7f21")]
)
def test_a_lost_pod_has_the_name_of_its_kind_of_hosts(analyzed, name, host):
    """A pod of another name is not the job's."""
    init = "{}:7:7 [0] NCCL INFO comm 0x1 rank {} nranks 3 - Init START\n"
    logs = {
        f"llm-worker-{n}.log": init.format(f"llm-worker-{n}", n) + timeout(n)
        for n in (0, 1)
    }
    found = analyzed({**logs, "events.txt": NOT_READY.format(name)}).ranked.verdict
    assert (found.slug, found.hosts) == ("node-lost", (host,))


def test_a_damaged_object_is_read_as_text(analyzed):
    text = json.dumps(pod(ended("OOMKilled", 137)), indent=4)
    cut = text[: text.index("finishedAt")]
    assert verdict(analyzed({"pod.json": cut}))[0] == "host-oom"


DESCRIBED = "Name:             {}\nNode:             gpu0009/10.0.0.9\n"
FULL = "The node was low on resource: ephemeral-storage. Threshold quantity: 5, available: 4"
LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi."
LOST = (
    "  Ready            Unknown   Mon, 10 Aug 2026 10:57:55 +0000   Mon, 10 Aug 2026 "
    "10:58:45 +0000   NodeStatusUnknown   Kubelet stopped posting node status.\n"
)


@pytest.mark.parametrize("why", [FULL, LIMIT])
def test_a_pod_that_is_evicted_for_its_disk_is_named_with_its_node(analyzed, why):
    text = (
        DESCRIBED.format(POD) + f"Status:  Failed\nReason:  Evicted\nMessage: {why}\n"
    )
    analysis = analyzed({"describe.txt": text})
    assert verdict(analysis) == ("disk-full", (), (POD,))
    assert "on node gpu0009" in analysis.ranked.verdict.explanation


def test_the_node_whose_kernel_killed_a_process_is_that_of_the_command_above(analyzed):
    text = DESCRIBED.format(POD) + (
        "Status:           Running\n\n$ kubectl describe node gpu0009 | tail\n"
        "  Warning  SystemOOM  4m  kubelet  System OOM encountered, victim process: "
        "python, pid: 40122\n"
    )
    assert verdict(analyzed({"all.txt": text})) == ("host-oom", (), ("gpu0009",))


def test_a_lost_node_holds_no_rank_between_those_of_another_one(analyzed):
    node = {"node.txt": "Name:             gpu0009\n" + LOST}
    log = {"train-master-0.log": timeout(0) + timeout(3)}
    analysis = analyzed(node | log)
    assert verdict(analysis) == ("node-lost", (), ("gpu0009",))


# laid out as `kubectl describe pod` does
ENDED_POD = """Name:             {name}
Namespace:        ml
Node:             gpu0007/10.0.0.7
Status:           Failed
Containers:
  pytorch:
    State:          Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Thu, 20 Aug 2026 09:40:00 +0000
      Finished:     Thu, 20 Aug 2026 10:00:00 +0000
    Ready:          False
"""


def described(analyzed, reason, code):
    """Rank 1 alone prints on its pod, which a file describes; the other times out."""
    lines = {
        "train-worker-0.log": timeout(0),
        f"{POD}.log": "2026-08-20 09:59:59,000 [rank 1] INFO train: step 7 loss 1.5\n",
        "pod.txt": ENDED_POD.format(name=POD, reason=reason, code=code),
    }
    return analyzed(lines)


def test_the_exit_code_of_a_described_container_is_that_of_its_rank(analyzed):
    analysis = described(analyzed, "Error", 139)
    assert [f.ranks for _, f in found(analysis, "crashed-rank")] == [(1,)]
    (exit_,) = analysis.frames["exits"].rows(named=True)
    assert (exit_["code"], str(exit_["t"])) == (139, "2026-08-20 10:00:00+00:00")


def test_a_container_that_ended_well_is_no_exit(analyzed):
    analysis = described(analyzed, "Completed", 0)
    assert found(analysis, "crashed-rank") == []
    assert analysis.frames["exits"]["code"].drop_nulls().is_empty()
