"""`collect` on all nodes, by fakes of the site's tools: one folder, and who answered."""

import json
import os
import subprocess
import sys
import time

import pytest

from ncclforensics.cli import main
from ncclforensics.fleet import ssh
from ncclforensics.model.errors import UsageError


def pod(name, phase="Running", **status):
    spec = {
        "nodeName": f"node-{name}",
        "containers": [
            {"name": "sidecar"},
            {"name": "train", "env": [
                {"name": "RANK", "value": name[-1]},
                {"name": "DB_PASSWORD", "value": "hunter22hunter22"},
            ]},
        ],
    }  # fmt: skip
    notes = {
        "kubectl.kubernetes.io/default-container": "train",
        "kubectl.kubernetes.io/last-applied-configuration": "hunter22hunter22",
    }
    meta = {"name": name, "namespace": "ml", "annotations": notes}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, **status}}


@pytest.fixture
def pods(tmp_path, monkeypatch):
    waits = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
    items = [
        pod("train-0"),
        pod("train-1"),
        pod("train-2", "Pending", containerStatuses=[waits]),
    ]
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}))
    monkeypatch.setenv("FAKE_PODS", str(file))


@pytest.fixture
def hosts(tmp_path):
    file = tmp_path / "hosts.txt"
    file.write_text("gpu[0001-0002] slots=8\n# gpu0009\nme@gpu0003\ngpu0001\n")
    return str(file)


def collected(into, *options):
    code = main(["collect", "-o", str(into), "--match", "no-such-process", *options])
    manifest = into / "fleet.json"
    told = json.loads(manifest.read_text()) if manifest.exists() else {"nodes": []}
    kinds = {node["node"]: node["kind"] for node in told["nodes"]}
    return code, kinds, sorted(f.parent.name for f in into.glob("*/manifest.json"))


def test_ssh_brings_each_host_once_and_names_those_that_do_not_answer(
    tmp_path, fakes, hosts, monkeypatch, capsys
):
    monkeypatch.setenv("FAKE_DOWN", "gpu0002")
    code, kinds, folders = collected(tmp_path / "out", "--ssh", hosts)
    assert code == 0
    assert kinds == {"gpu0001": "share", "gpu0002": "silent", "gpu0003": "share"}
    assert folders == ["gpu0001", "gpu0003"]
    said = capsys.readouterr().err
    assert "gpu0002: ssh: connect to host gpu0002 port 22: No route to host" in said
    assert "2 of 3 nodes answered" in said
    assert not list((tmp_path / "out").glob(".*"))
    # again: only the missing one is asked
    before = len(fakes())
    monkeypatch.setenv("FAKE_DOWN", "")
    code, kinds, folders = collected(tmp_path / "out", "--ssh", hosts)
    assert set(kinds.values()) == {"share"}
    assert [call[0] for call in fakes()[before:]] == ["ssh"]


def test_slurm_runs_one_step_a_node_and_a_late_one_is_silent(
    tmp_path, fakes, monkeypatch
):
    monkeypatch.setenv("FAKE_DOWN", "gpu0003")
    limit = ("--node-limit", "6")
    code, kinds, _ = collected(tmp_path / "out", "--slurm", "7", *limit)
    assert code == 0
    assert kinds == {"gpu0001": "share", "gpu0002": "share", "gpu0003": "silent"}
    steps = [call for call in fakes() if call[0] == "srun"]
    assert len(steps) == 3
    for step in steps:
        assert {"--overlap", "--jobid=7", "--nodes=1", "--ntasks=1"} <= set(step)


def test_a_job_that_does_not_run_is_a_mistake_in_the_call(tmp_path, fakes, capsys):
    assert main(["collect", "-o", str(tmp_path / "a"), "--slurm", "8"]) == 2
    assert "is PENDING" in capsys.readouterr().err
    assert main(["collect", "-o", str(tmp_path / "a"), "--slurm", "9"]) == 2
    assert "Invalid job id" in capsys.readouterr().err
    assert main(["collect", "-o", str(tmp_path / "a"), "--slurm", "$(id)"]) == 2
    assert "not the id" in capsys.readouterr().err


def test_pods_are_asked_in_their_container_and_no_secret_comes_along(
    tmp_path, fakes, pods
):
    into = tmp_path / "out"
    code, kinds, folders = collected(into, "--k8s", "app=train", "-n", "ml")
    assert code == 0
    assert kinds == {"train-0": "share", "train-1": "share", "train-2": "silent"}
    assert folders == ["train-0", "train-1"]
    nodes = json.loads((into / "fleet.json").read_text())["nodes"]
    assert nodes[2]["why"] == "Pending, ImagePullBackOff"
    first, _ = sorted(call for call in fakes() if call[1] == "exec")
    assert first[1:8] == [
        *("exec", "--stdin", "--namespace", "ml", "--container", "train", "train-0")
    ]
    for file in filter(os.path.isfile, into.rglob("*")):
        assert b"hunter22" not in file.read_bytes(), file
    (kept,) = {row["metadata"]["name"]: row for row in json.loads(
        (into / "pods.json").read_text()
    )["items"]}["train-0"]["spec"]["containers"][1]["env"]  # fmt: skip
    assert kept == {"name": "RANK", "value": "0"}


def test_a_node_whose_daemon_is_gone_is_silent(tmp_path, fakes, pods, monkeypatch):
    monkeypatch.setenv("FAKE_DOWN", "train-1")
    _, kinds, _ = collected(tmp_path / "out", "--k8s", "app=train")
    assert kinds["train-1"] == "silent"


def test_one_that_refuses_is_not_taken_for_one_that_is_gone(tmp_path, fakes):
    hosts = tmp_path / "hosts"
    hosts.write_text("locked\n")
    code, kinds, _ = collected(tmp_path / "out", "--ssh", str(hosts))
    assert (code, kinds) == (3, {"locked": "refused"})


def test_the_printed_commands_do_what_the_command_does(tmp_path, fakes, hosts, capsys):
    into = tmp_path / "a b"
    tool = ("--ssh", hosts, "--print", "--match", "it's $HOME; no-such")
    assert main(["collect", "-o", str(into), *tool]) == 0
    assert not into.exists()
    lines = capsys.readouterr().out
    done = subprocess.run(["bash", "-e"], input=lines, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(f.name for f in into.iterdir()) == [
        *("gpu0001.tar", "gpu0002.tar", "gpu0003.tar")
    ]
    import tarfile

    with tarfile.open(into / "gpu0002.tar") as share:
        assert "gpu0002/manifest.json" in share.getnames()


def test_names_are_pseudonyms_in_all_that_is_written(
    tmp_path, fakes, hosts, monkeypatch
):
    monkeypatch.setenv("FAKE_DOWN", "gpu0002")
    into = tmp_path / "out"
    code, kinds, folders = collected(into, "--ssh", hosts, "--redact", "hosts")
    assert (code, len(folders)) == (0, 2)
    assert set(folders) < set(kinds)
    for file in into.rglob("*"):
        assert "gpu000" not in file.name
        assert not file.is_file() or b"gpu000" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-oProxyCommand=id", "not a host"),
        ("a;id", "not a host"),
        ("# none", "no host"),
    ],
)
def test_a_host_file_cannot_give_ssh_options(tmp_path, line, said):
    file = tmp_path / "hosts"
    file.write_text(f"{line}\n")
    with pytest.raises(UsageError, match=said):
        ssh.nodes(str(file))


@pytest.mark.parametrize(
    "options",
    [
        ("--ssh", "a", "--ray"),
        ("-n", "ml"),
        ("--print",),
        ("--parallel", "3"),
        ("--ssh", "/no/such/file"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, capsys):
    assert main(["collect", "-o", str(tmp_path / "x"), *options]) == 2
    assert "error" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_script_ends_and_leaves_nothing_when_nobody_reads(tmp_path):
    packer = [sys.executable, "-m", "ncclforensics.fleet.script"]
    packed = subprocess.run(
        [*packer, "ncclforensics.collect.node", "ncclforensics.collect"],
        capture_output=True,
        check=True,
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    running = subprocess.Popen(
        [sys.executable, "-I", "-", "--tar", "--again", "60", "--match", "no-such"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    running.stdin.write(packed.stdout)
    running.stdin.close()
    while not list(tmp_path.glob("ncclforensics-*")):
        assert running.poll() is None
        time.sleep(0.01)
    running.stdout.close()
    assert running.wait(60) == 143
    running.stderr.close()
    assert list(tmp_path.iterdir()) == []
