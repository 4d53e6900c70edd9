"""What `collect` wrote, and the same taken by hand: the environment of a process."""

import json

import pytest

from ncclforensics.parsers import parse
from ncclforensics.sources import discover

ENVIRONMENT = "PATH=/bin\nRANK=3\nLOCAL_RANK=1\nWORLD_SIZE=8\nNCCL_ALGO=Ring\n"
STACK = ["[<0>] request_wait_answer+0xd6/0x290", "[<0>] fuse_file_read_iter+0x1/0x2"]
PROCESS = {"pid": 41011, "rank": 3, "local_rank": 1, "is_main": True, "state": "S"}


def look(*processes, **more):
    rows = ",\n".join(json.dumps(p) for p in processes)
    told = {"host": "gpu0001", "taken": "2026-11-20T10:00:00.000Z", **more}
    head = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in told.items())
    return f'{{"collected_processes": 1,\n{head},\n"processes": [\n{rows}\n]}}\n'


def manifest(host, *asked):
    told = {"collected_by": "ncclforensics 0.1.0", "host": host, "asked": [*asked]}
    return json.dumps(told, indent=1)


@pytest.fixture
def read(tmp_path):
    def run(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return discover([str(tmp_path)], tmp_path).sources

    return run


@pytest.mark.parametrize(
    "text", [ENVIRONMENT, ENVIRONMENT.replace("\n", "\0"), ENVIRONMENT + " more\n" * 0]
)
def test_an_environment_tells_its_rank_and_variables(read, text):
    (source,) = read({"env.txt": text})
    assert source.kind == "environment"
    frames = parse(source)
    told = frames.message("environment.variable")
    assert dict(told.select("variable", "value").rows()) == {
        "WORLD_SIZE": "8",
        "NCCL_ALGO": "Ring",
    }
    assert set(told["rank"]) == {3}
    assert told.filter(told["variable"] == "NCCL_ALGO")["line"].item() == 5
    assert frames["ranks"].select("rank", "local_rank").rows() == [(3, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_DEBUG=INFO torchrun train.py\nstep 1 loss 2.0\nstep 2\nstep 3\n",
        "PATH=/bin\nHOME=/root\nSHELL=/bin/sh\nTERM=xterm\nLANG=C\n",
        "JobId=7 JobName=train\n   UserId=alice(1000)\n   RANK=1\n   Priority=1\n",
        "RANK=1\n",
    ],
)
def test_what_only_has_a_variable_in_it_is_a_log(read, text):
    (source,) = read({"file.txt": text})
    assert source.kind == "log"


def test_a_process_is_told_with_its_line_its_state_and_where_it_waits(read):
    stuck = PROCESS | {"kernel_stack": STACK, "wchan": "request_wait_answer"}
    (source,) = read({"p.json": look(PROCESS | {"pid": 7, "rank": 2}, stuck)})
    assert source.kind == "collected_json"
    frames = parse(source)
    told = frames.message("collect.process")
    assert told["rank"].to_list() == [2, 3]
    first = told["line"][0]
    assert told["line"].to_list() == [first, first + 1]
    listed = frames.message("system.ps")
    assert listed.select("pid", "rank", "file_system").rows() == [(41011, 3, "FUSE")]
    assert frames["events"]["t"].null_count() == frames["events"].height


@pytest.mark.parametrize(
    ("state", "stack"),
    [
        ("S", ["[<0>] futex_do_wait+0x46/0x90"]),
        ("R", STACK),
        ("S", ["[<0>] fuse_dev_do_read+0x1/0x2", "[<0>] fuse_dev_read+0x1/0x2"]),
    ],
)
def test_a_process_that_waits_elsewhere_or_serves_files_is_not_in_storage(
    read, state, stack
):
    (source,) = read(
        {"p.json": look(PROCESS | {"state": state, "kernel_stack": stack})}
    )
    assert parse(source).message("system.ps").is_empty()


@pytest.mark.parametrize(
    "text",
    [
        look(PROCESS)[:-40],
        look(PROCESS | {"rank": -5}),
        look(PROCESS | {"cpu_s": "often"}),
        look({"rank": 3}),
        '{"collected_processes": 1}',
        '{"collected_by": "x", "asked": 3}',
    ],
)
def test_a_damaged_document_is_a_note(read, text):
    (source,) = read({"p.json": text})
    frames = parse(source)
    assert frames["notes"].height == 1
    assert frames["events"].is_empty()


def test_the_manifest_gives_its_host_to_the_files_beside_it(read):
    nccl = "gpu0009:41:41 [0] NCCL INFO NET/IB : No device found.\n"
    found = read(
        {
            "a/manifest.json": manifest("login-a", {"asked": "x", "why_not": "no"}),
            "a/logs/rank_0.log": "step 1\n",
            "a/logs/shared.log": nccl,
            "b/logs/rank_1.log": "step 1\n",
        }
    )
    hosts = {source.name: source.host for source in found}
    assert hosts["a/logs/rank_0.log"] == "login-a"
    assert hosts["a/logs/shared.log"] is None
    assert hosts["b/logs/rank_1.log"] is None
    told = parse(next(s for s in found if s.name.endswith("manifest.json")))
    assert told.message("collect.manifest")["why_not"].to_list() == ["no"]


def test_a_share_in_a_share_has_its_own_host(read):
    found = read(
        {"manifest.json": manifest("head"), "n/manifest.json": manifest("node")}
        | {"n/x.log": "step\n", "x.log": "step\n"}
    )
    assert {s.name: s.host for s in found if s.kind == "log"} == {
        "n/x.log": "node",
        "x.log": "head",
    }
