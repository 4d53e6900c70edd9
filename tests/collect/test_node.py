"""A node is collected whatever hangs on it, and nothing of it that is secret."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import ncclforensics
from ncclforensics.analysis import analyze
from ncclforensics.collect import dumps, looks, mounts, node, processes

from .conftest import SECRET

ROOT = Path(ncclforensics.__file__).parents[1]


def missed(manifest):
    return {
        row["asked"]: row["why_not"] for row in manifest["asked"] if "why_not" in row
    }


def everything(folder):
    return b"".join(f.read_bytes() for f in folder.rglob("*") if f.is_file())


def test_a_node_tells_of_its_ranks_and_is_readable_by_nobody_else(rank, collected):
    folder, manifest = collected([rank(0), rank(1)])
    assert manifest["ranks"] == [0, 1]
    assert (folder / "stacks/rank_1.txt").read_text().endswith("save (train.py:9)\n")
    assert "step 1 loss" in (folder / "logs/rank_0.log").read_text()
    assert "NCCL_DEBUG=INFO" in (folder / "processes/rank_0.env").read_text()
    told = json.loads((folder / "processes.json").read_text())
    assert [p["state"] for p in told["processes"]] == ["S", "S"]
    modes = {f.stat().st_mode & 0o077 for f in [folder, *folder.rglob("*")]}
    assert modes == {0}


def test_no_secret_is_in_it(rank, collected):
    names = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "TORCH_PASSWORD")
    folder, _ = collected([rank(0, **dict.fromkeys(names, SECRET))], "--again", "0")
    assert (folder / "logs/rank_0.log").read_text().count("<secret>") == 1
    told = everything(folder)
    assert SECRET.encode() not in told
    assert b"TORCH_PASSWORD" not in told


def test_a_mount_that_hangs_is_named_and_holds_nobody_up(
    rank, collected, unkillable, monkeypatch
):
    mount = ("/ckpt", "nfs4", "storage1:/ckpt")
    monkeypatch.setattr(mounts, "listed", lambda: [mount])
    monkeypatch.setattr(mounts, "LIMIT_S", 1)
    monkeypatch.setattr(mounts, "_size", lambda path: time.sleep(60))
    begun = time.monotonic()
    folder, manifest = collected([rank(0)])
    assert time.monotonic() - begun < 30
    line = "mount /ckpt (nfs4 from storage1:/ckpt) does not answer within 1 s\n"
    assert (folder / "commands/mounts.txt").read_text() == line
    assert "left behind" in missed(manifest)["/ckpt (nfs4 from storage1:/ckpt)"]
    assert unkillable
    assert analyze([str(folder)]).frames.message("collect.mount_silent").height == 1


def test_a_log_and_a_search_path_on_a_mount_that_hangs_hold_nobody_up(
    rank, collected, unkillable, monkeypatch, few
):
    monkeypatch.setattr(looks.stacks, "program", lambda _: time.sleep(60))
    monkeypatch.setattr(looks, "SEARCH_S", 0.5)
    monkeypatch.setattr(node.files, "log", lambda _: time.sleep(60))
    monkeypatch.setattr(node.files, "LIMIT_S", 0.5)
    process = rank(0)
    begun = time.monotonic()
    folder, manifest = collected([process])
    assert time.monotonic() - begun < 30
    why = missed(manifest)
    assert "left behind" in why["py-spy"]
    assert any("left behind" in why[name] for name in why if name.startswith("log "))
    assert not (folder / "logs").exists()


def test_an_output_whose_mount_does_not_tell_its_attributes_holds_nobody_up(
    rank, collected, unkillable, few, monkeypatch
):
    # so does a log on NFS or FUSE once what the kernel remembers of it is stale
    look = os.stat

    def stat(path, *args, **how):
        if str(path).endswith("/fd/1"):
            time.sleep(60)
        return look(path, *args, **how)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(node.files, "OPENED_S", 0.5)
    process = rank(0)
    begun = time.monotonic()
    folder, manifest = collected([process])
    assert time.monotonic() - begun < 30
    why = missed(manifest)["rank_0.stdout"]
    assert "rank_0.out: no answer" in why
    assert "left behind" in why
    assert [f.name for f in (folder / "logs").iterdir()] == ["rank_0.stderr.log"]


def test_a_process_whose_files_in_proc_do_not_answer_is_passed_over(
    rank, monkeypatch, unkillable
):
    first, second = sorted((rank(0).pid, rank(1).pid))
    read = processes._row
    monkeypatch.setattr(
        processes, "_row", lambda pid: time.sleep(60) if pid == first else read(pid)
    )
    monkeypatch.setattr(processes, "SCAN_S", 1.0)
    found = processes.find({first, second}, None, time.monotonic() + 30)
    assert [p.pid for p in found.processes] == [second]
    assert found.why_not[0] == f"/proc of process {first} does not answer"


def test_a_node_without_gpu_tools_says_so(rank, collected, monkeypatch):
    exists = os.path.exists
    gpus = ("nvidia", "nvswitch")
    monkeypatch.setattr(
        node.commands.os.path, "exists", lambda p: "nvidia" not in p and exists(p)
    )
    _, manifest = collected([rank(0)])
    why = missed(manifest)
    assert why["nvidia-smi -q -x"] == "this node has no NVIDIA driver"
    assert not any(row.get("file", "").startswith(gpus) for row in manifest["asked"])


def test_two_looks_lie_side_by_side(rank, collected, few):
    folder, manifest = collected([rank(0)], "--again", "1.5")
    assert [look["folder"] for look in manifest["looks"]] == ["look-1/", "look-2/"]
    for name in ("look-1", "look-2"):
        assert (folder / name / "stacks/rank_0.txt").exists()
        assert (folder / name / "processes.json").exists()
    assert (folder / "logs/rank_0.log").exists()


def test_a_dump_is_asked_for_by_the_pipe_and_keeps_its_time(
    rank, collected, tmp_path, few
):
    stem, prefix = tmp_path / "pipe_", tmp_path / "trace_"
    process = rank(
        3,
        PIPE=f"{stem}3.pipe",
        DUMP=f"{prefix}3",
        TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(stem),
        TORCH_FR_DUMP_TEMP_FILE=str(prefix),
    )
    folder, _ = collected([process])
    copy = folder / "dumps/comm_lib_trace_rank_3"
    assert copy.read_bytes() == b"a dump"
    assert copy.stat().st_mtime_ns == (tmp_path / "trace_3").stat().st_mtime_ns


def test_a_dump_that_nobody_writes_is_said(rank, collected, tmp_path, few, monkeypatch):
    monkeypatch.setattr(dumps, "WRITTEN_S", 0.5)
    stem = tmp_path / "pipe_"
    os.mkfifo(f"{stem}1.pipe")
    variables = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(stem)}
    prefix = {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "none_")}
    _, manifest = collected([rank(0, **prefix), rank(1, **variables, **prefix)])
    why = missed(manifest)
    assert "no TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in why["Flight Recorder dump of rank 0"]
    assert "nobody reads it" in why["Flight Recorder dump of rank 1"]


def test_a_log_keeps_its_time_and_a_long_one_its_ends(
    rank, collected, tmp_path, few, monkeypatch
):
    monkeypatch.setattr(node.files, "HEAD", 1000)
    monkeypatch.setattr(node.files, "TAIL", 1000)
    log = tmp_path / "long.out"
    log.write_text("first\n" + "middle\n" * 2000 + "last\n")
    process = rank(0, log=log)
    os.utime(log, (1_700_000_000, 1_700_000_000))
    folder, _ = collected([process])
    (copy,) = (folder / "logs").iterdir()
    text = copy.read_text()
    assert text.startswith("first\n")
    assert text.endswith("ready\n")
    assert "bytes left out]" in text
    assert len(text) < 2500
    assert copy.stat().st_mtime == 1_700_000_000


def test_an_output_that_is_no_file_is_said(rank, collected, few):
    _, manifest = collected([rank(0, log=subprocess.DEVNULL)])
    assert missed(manifest)["rank_0.stdout"].startswith("/dev/null")


def test_the_ranks_are_found_by_their_environment(rank):
    mine = rank(0, MASTER_PORT="1").pid
    other = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"]})
    found = processes.find(set(), None, time.monotonic() + 30).processes
    other.kill()
    other.wait()
    assert mine in {p.pid for p in found if p.rank == 0 and p.is_main}
    assert other.pid not in {p.pid for p in found}


def test_of_processes_with_one_rank_the_topmost_python_is_the_rank():
    told = {"WORLD_SIZE": "2", "MASTER_ADDR": "a"}
    slurm = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}
    rows = [
        (10, 1, "slurmstepd", {}),
        (11, 10, "torchrun", slurm),
        (12, 11, "python", {**slurm, **told, "RANK": "0"}),
        (13, 12, "python", {**slurm, **told, "RANK": "0"}),
        (14, 11, "bash", {**slurm, **told, "RANK": "1"}),
        (15, 14, "pt_main_thread", {**slurm, **told, "RANK": "1"}),
    ]
    listed = [processes.Process(p, up, name, name, 0, env) for p, up, name, env in rows]
    found = processes._chosen(listed, set(), None)
    assert {p.pid: p.rank for p in found if p.is_main} == {12: 0, 15: 1}
    assert {p.pid for p in found if not p.is_main} == {13, 14}


TWO_JOBS = [
    processes.Process(
        *(pid, 1, "python", "python train.py", 0),
        {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port}
        | {"SLURM_JOB_ID": port[-1]},
    )
    for pid, rank, port in ((10, 0, "29501"), (11, 1, "29501"), (12, 0, "29502"))
]


def test_two_jobs_on_a_node_do_not_overwrite_each_other_and_one_can_be_chosen():
    found = processes._chosen([*map(replace, TWO_JOBS)], set(), None)
    labels = ["rank_0.pid_10", "rank_1", "rank_0.pid_12"]
    assert [p.label for p in found] == labels
    found = processes._chosen([*map(replace, TWO_JOBS)], set(), "MASTER_PORT=29501")
    assert [p.label for p in found] == ["rank_0", "rank_1"]


def test_within_a_job_of_slurm_another_job_on_the_node_is_not_meant(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "2")
    found = processes._chosen([*map(replace, TWO_JOBS)], set(), None)
    assert [p.pid for p in found] == [12]


def test_a_launcher_with_the_same_words_in_its_command_is_no_rank():
    agent = processes.Process(9, 1, "torchrun", "torchrun train.py", 0)
    rank = replace(TWO_JOBS[0], parent=9)
    found = processes._chosen([agent, rank], set(), r"train\.py")
    assert [p.label for p in found] == ["rank_0"]


def test_a_tar_stream_leaves_nothing_behind(rank, tmp_path):
    process = rank(0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "ncclforensics.collect", "--tar", "-q"]
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}
    made = subprocess.run(
        [*command, "--pid", str(process.pid)], env=environment, capture_output=True
    )
    assert made.returncode == 0
    assert list(scratch.iterdir()) == []
    (tmp_path / "node.tar").write_bytes(made.stdout)
    found = analyze([str(tmp_path / "node.tar")])
    assert found.frames["ranks"]["rank"].to_list() == [0]


def test_redacted_no_name_is_in_it(rank, collected, few):
    process = rank(0, MASTER_ADDR="gpu-head-01")
    folder, manifest = collected([process], "--redact", "all")
    told = everything(folder)
    host = os.uname().nodename
    assert folder.name.startswith("host-")
    assert b"gpu-head-01" not in told
    assert len(host) < 3 or f'"{host}"'.encode() not in told
    assert "left out" in missed(manifest)["Flight Recorder dumps"]


def test_a_mistake_in_the_call_writes_nothing(tmp_path, capsys):
    there = tmp_path / "there"
    assert node.main([]) == 2
    assert node.main(["-o", str(there), "--redact", "names"]) == 2
    assert node.main(["-o", str(there), "--match", "("]) == 2
    assert not there.exists()
    (there / os.uname().nodename).mkdir(parents=True)
    assert node.main(["-o", str(there)]) == 2
    assert "give another DIR" in capsys.readouterr().err


def test_it_runs_from_a_zip_with_nothing_but_python(tmp_path):
    import zipfile

    package = ROOT / "ncclforensics"
    with zipfile.ZipFile(tmp_path / "node.zip", "w") as packed:
        for file in [package / "__init__.py", *(package / "collect").glob("*.py")]:
            packed.write(file, file.relative_to(ROOT))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from ncclforensics.collect import node\n"
        "own = {n for n in sys.modules if n.startswith('ncclforensics')}\n"
        "assert all(n.startswith('ncclforensics.collect') for n in own - {'ncclforensics'})\n"
        "alien = {m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names\n"
        "alien -= {'ncclforensics', '__main__'}\n"
        "sys.exit(str(alien) if any(not a.startswith('_') for a in alien) else 0)"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "node.zip")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stopped_process_is_told_with_its_state(rank, collected, few):
    process = rank(0)
    os.kill(process.pid, signal.SIGSTOP)
    folder, _ = collected([process])
    (told,) = json.loads((folder / "processes.json").read_text())["processes"]
    assert told["state"] == "T"


@pytest.mark.parametrize(
    ("told", "sizes"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (8, 1, None)),
        (
            {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
            | {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            (4, 1, 2),
        ),
        (
            {"SLURM_PROCID": "3", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}
            | {"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"},
            (4, 1, 2),
        ),
        # nodes with different numbers of ranks
        (
            {"SLURM_PROCID": "3", "SLURM_JOB_ID": "7"}
            | {"SLURM_STEP_TASKS_PER_NODE": "2,1"},
            (None, None, None),
        ),
        # torchrun under srun: the tasks of Slurm are its agents
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_NTASKS": "2"}, (8, None, None)),
    ],
)
def test_the_size_of_a_job_is_that_of_the_launcher_that_gave_the_rank(told, sizes):
    process = processes.Process(1, 0, "python", "python train.py", 0, told)
    processes._seat(process)
    names = ("world_size", "local_rank", "local_world_size")
    assert tuple(map(process.sizes.get, names)) == sizes


def test_a_stopped_rank_is_not_asked_for_a_dump_nor_a_silent_one_again():
    ranks = [processes.Process(n, 0, "python", "", 0, rank=n) for n in range(3)]
    states = {0: {"state": "T"}, 1: {"state": "S"}, 2: {"state": "S"}}
    dump = "Flight Recorder dump of rank {}".format
    asked, why_not = dumps.questions(ranks, states, {dump(1): False, dump(2): True})
    assert [question.name for question in asked] == [dump(2)]
    assert [*why_not] == [dump(0)]


@pytest.mark.parametrize(("before", "kept"), [("SIG_IGN", True), ("SIG_DFL", False)])
def test_a_hangup_that_nohup_ignores_stays_ignored(tmp_path, before, kept):
    code = (
        "import signal, sys; from ncclforensics.collect import node\n"
        f"signal.signal(signal.SIGHUP, signal.{before})\n"
        "node.main(['-q', '-o', sys.argv[1], '--pid', '0'])\n"
        "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout == f"{kept}\n"
