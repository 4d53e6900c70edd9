"""The GitHub Action: its script runs here as a runner would run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


@pytest.fixture
def step(tmp_path):
    """Run the last step with inputs; return its exit code, stdout, outputs, summary."""
    tool = tmp_path / "ncclforensics" / "bin" / "ncclforensics"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ncclforensics "$@"\n')
    tool.chmod(0o755)
    last = ACTION["runs"]["steps"][-1]
    script = tmp_path / "step.sh"
    script.write_text(last["run"])

    def run(paths, options="", fail="false"):
        files = {n: tmp_path / n for n in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(tmp_path),
            **{name: str(file) for name, file in files.items()},
            "PATHS": paths,
            "OPTIONS": options,
            "FAIL": fail,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", script]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        told = files["GITHUB_OUTPUT"].read_text().splitlines()
        outputs = dict(line.split("=", 1) for line in told)
        return done, outputs, files["GITHUB_STEP_SUMMARY"].read_text()

    return run


def evidence(jobs, name):
    return str(jobs / name / "evidence")


def test_a_failure_is_annotated_summed_up_and_put_out(step, jobs):
    done, outputs, summary = step(f"\n{evidence(jobs, 'torch-missing-rank')}\n\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::error file=")
    assert summary.startswith("**`missing-rank`")
    assert (outputs["outcome"], outputs["class"]) == ("failure", "missing-rank")
    assert json.loads(Path(outputs["report"]).read_text())["outcome"] == "failure"


def test_it_fails_where_it_is_asked_to(step, jobs):
    assert step(evidence(jobs, "torch-missing-rank"), fail="true")[0].returncode == 1
    done, outputs, _ = step(evidence(jobs, "torch-healthy"), fail="true")
    assert (done.returncode, outputs["class"]) == (0, "")
    assert done.stdout.startswith("::notice ")


def test_options_and_several_paths_reach_the_tool(step, jobs):
    both = [evidence(jobs, "torch-missing-rank"), evidence(jobs, "torch-healthy")]
    _, outputs, _ = step("\n".join(both), options="--ignore missing-rank --no-cache")
    files = json.loads(Path(outputs["report"]).read_text())["sources"]
    assert len({file["source"].split("/")[0] for file in files}) > 1
    assert outputs["class"] != "missing-rank"


def test_mistakes_and_empty_evidence_end_the_step(step, tmp_path):
    assert step(str(tmp_path / "nowhere"))[0].returncode == 2
    (tmp_path / "empty").mkdir()
    done, outputs, _ = step(str(tmp_path / "empty"))
    assert (done.returncode, outputs["outcome"]) == (3, "inconclusive")


def test_no_input_is_pasted_into_a_script():
    for each in ACTION["runs"]["steps"]:
        assert "${{" not in each.get("run", "")


def test_what_the_container_is_built_from_is_not_ignored():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    needed = {"ncclforensics", "grammars", "schemas", "hatch_build.py"}
    assert needed | {"pyproject.toml", "README.md", "LICENSE"} == kept
