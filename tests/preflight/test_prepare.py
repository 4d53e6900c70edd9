"""The table of variables: names and defaults are torch's, and every form is valid."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ncclforensics.cli import before, main
from ncclforensics.preflight import prepare
from ncclforensics.preflight.variables import VARIABLES

EVERY_DAY = {v.name: v.value for v in VARIABLES if not v.hunting}
TORCH = Path(importlib.util.find_spec("torch").origin).parent


@pytest.fixture(scope="module")
def torch_text():
    """All that torch says of its variables: headers, Python and the library."""
    found = [TORCH / "distributed/distributed_c10d.py"]
    found += (TORCH / "include/torch/csrc/distributed/c10d").glob("*.hpp")
    found += [TORCH / "lib/libtorch_cpu.so"]
    return b"".join(file.read_bytes() for file in found)


def is_said(word, text):
    """Whether a word stands in the text; a pattern takes a hundred times as long."""
    at, word = -1, word.encode()
    while (at := text.find(word, at + 1)) >= 0:
        ends = text[at - 1 : at] + text[at + len(word) : at + len(word) + 1]
        if not re.search(rb"\w", ends):
            return True
    return False


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.name)
def test_torch_knows_the_variable(variable, torch_text):
    for name in filter(None, (variable.name, variable.also)):
        if name.startswith("TORCH"):
            assert is_said(name, torch_text)


def test_defaults_are_those_of_torch(torch_text):
    found = re.search(rb'"TORCH_NCCL_TRACE_BUFFER_SIZE"\},\s*(\d+)', torch_text)
    of = {v.name: v.default for v in VARIABLES}
    assert of["TORCH_FR_BUFFER_SIZE"].startswith(found[1].decode())
    # the compiler keeps the rest of the name elsewhere
    assert b"comm_lib_trace_r" in torch_text
    assert "comm_lib_trace_rank_" in of["TORCH_FR_DUMP_TEMP_FILE"]
    minutes = re.search(rb"kProcessGroupNCCLDefaultTimeout =\s*std::chrono::milliseconds\((\d+) \* 60", torch_text)  # fmt: skip
    assert f"{minutes[1].decode()} minutes with NCCL" in prepare.IN_CODE[0][1]


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.name)
def test_each_has_its_reason_cost_and_default(variable):
    assert all((variable.why, variable.cost, variable.default))


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_a_shell_sets_what_the_table_says(launcher, tmp_path):
    text = prepare.render(launcher, str(tmp_path / "a b"))
    exports = "\n".join(
        line for line in text.splitlines() if line.startswith(("export ", "LOGS="))
    )
    subprocess.run(["bash", "-n"], input=text.encode(), check=True)
    done = subprocess.run(
        ["bash", "-euc", f"{exports}\nenv -0"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = dict(part.partition("=")[::2] for part in done.stdout.split("\0"))
    expected = {n: v.replace("{logs}", f"{tmp_path}/a b") for n, v in EVERY_DAY.items()}
    assert {name: told.get(name) for name in EVERY_DAY} == expected


def test_kubernetes_takes_it_as_a_part_of_a_container():
    told = yaml.safe_load(prepare.render("kubernetes", "/mnt/logs"))
    values = {e["name"]: e["value"] for e in told["env"]}
    assert values == {n: v.replace("{logs}", "/mnt/logs") for n, v in EVERY_DAY.items()}
    assert {m["name"] for m in told["volumeMounts"]} == {"logs", "shm"}


def test_ray_takes_it_as_a_runtime_environment():
    told = yaml.safe_load(prepare.render("ray"))
    assert set(told) == {"env_vars"}
    assert all(isinstance(value, str) for value in told["env_vars"].values())
    assert set(told["env_vars"]) == set(EVERY_DAY)


@pytest.mark.parametrize("launcher", prepare.LAUNCHERS)
def test_what_costs_too_much_is_only_a_comment(launcher, capsys):
    assert main(["prepare", "--launcher", launcher]) == 0
    text = capsys.readouterr().out
    for variable in VARIABLES:
        lines = [line for line in text.splitlines() if variable.name in line]
        assert lines
        assert all(line.lstrip()[0] == "#" for line in lines) is variable.hunting
        assert max(map(len, text.splitlines())) <= 100


def test_the_command_lists_the_launchers_of_the_table():
    assert before.LAUNCHERS == prepare.LAUNCHERS
