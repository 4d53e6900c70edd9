"""Prints the table of variables in the form of each launcher."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from ncclforensics.preflight.variables import IN_CODE, VARIABLES, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH = 88
# the folder of logs where none is given; a shell expands the variables
LOGS = {
    "torchrun": "$PWD/logs",
    "slurm": "$SLURM_SUBMIT_DIR/logs/$SLURM_JOB_ID",
    "kubernetes": "/logs",
    "ray": "/tmp/job-logs",
}
LAUNCHERS = tuple(LOGS)


def render(launcher: str, logs: str | None = None) -> str:
    """Return what to put into the job's script, pod or runtime environment.

    `logs` is the folder for logs and dumps; the default is one of the launcher's.
    """
    folder = logs or LOGS[launcher]
    return "\n".join(FORMS[launcher](folder)) + "\n"


def _of(*, hunting: bool = False) -> list[Variable]:
    return [variable for variable in VARIABLES if variable.hunting is hunting]


def _reasons(variable: Variable, indent: str = "") -> list[str]:
    """Return comment lines: why, what it costs, and what it is without."""
    told = [
        variable.why,
        f"costs: {variable.cost}",
        f"default: {variable.default}",
        f"in older releases: {variable.also}" if variable.also else "",
    ]
    return [line for text in filter(None, told) for line in _comment(text, indent)]


def _comment(text: str, indent: str = "") -> list[str]:
    mark = f"{indent}# "
    return textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent=mark)


def _exports(folder: str) -> Iterator[str]:
    """Yield `export` lines with their reasons."""
    yield f'LOGS="{folder}"'
    for variable in _of():
        value = variable.value.replace("{logs}", "$LOGS")
        quoted = f'"{value}"' if "$" in value else value
        yield from ("", *_reasons(variable), f"export {variable.name}={quoted}")
    yield ""
    yield from _hunting("# export {}={}")
    yield from _in_code()
    yield ""


def _hunting(form: str, indent: str = "") -> Iterator[str]:
    yield f"{indent}# only while you hunt for a hang:"
    for variable in _of(hunting=True):
        yield indent + form.format(variable.name, variable.value)
        yield from _comment(f"  {variable.why}; costs: {variable.cost}", indent)


def _in_code(indent: str = "") -> Iterator[str]:
    yield f"{indent}# what no variable sets, but the program:"
    for call, default, why in IN_CODE:
        yield f"{indent}# {call}"
        yield from _comment(f"  {why}; default: {default}", indent)


def _torchrun(folder: str) -> Iterator[str]:
    yield "# for torchrun: put this into the script that starts it on every node"
    yield from _exports(folder)
    yield 'mkdir -p "$LOGS/fr"'
    yield from _comment("a log for each rank; --tee keeps them on the terminal as well")
    yield 'torchrun --log-dir "$LOGS" --redirects 3 --tee 3 "$@"'


def _slurm(folder: str) -> Iterator[str]:
    yield "#!/bin/bash"
    yield "# for Slurm: put this into the batch script, below your own #SBATCH lines"
    yield "#SBATCH --output=%x-%j.out"
    yield from _exports(folder)
    yield "# on every node, should the folder not be shared"
    yield 'srun --ntasks-per-node=1 --ntasks="$SLURM_NNODES" mkdir -p "$LOGS/fr"'
    yield "# before the start: the exit code is 1 if a check fails"
    yield '# ncclforensics preflight --slurm "$SLURM_JOB_ID" || exit 1'
    yield "# a log for each task; a rank is a task with one task a GPU"
    yield 'srun --output="$LOGS/%N.%t.log" "$@"'


def _kubernetes(folder: str) -> Iterator[str]:
    yield "# for Kubernetes: the container's part of the pod template"
    yield "env:"
    for variable in _of():
        yield from _reasons(variable, "  ")
        yield f"  - name: {variable.name}"
        yield f"    value: {json.dumps(variable.value.replace('{logs}', folder))}"
    yield from _hunting("# - {{name: {}, value: {}}}", "  ")
    yield from _in_code("  ")
    yield "volumeMounts:"
    yield from _comment(
        "logs and dumps have to outlive the pod: a claim or a hostPath as the volume; "
        "an init container runs mkdir -p " + f"{folder}/fr",
        "  ",
    )
    yield f"  - {{name: logs, mountPath: {json.dumps(folder)}}}"
    yield from _comment("the default /dev/shm of 64 MiB is too small", "  ")
    yield "  - {name: shm, mountPath: /dev/shm}"


def _ray(folder: str) -> Iterator[str]:
    yield "# for Ray: ray job submit --runtime-env FILE -- python train.py"
    yield from _comment(f"on every node, before: mkdir -p {folder}/fr")
    yield "env_vars:"
    for variable in _of():
        yield from _reasons(variable, "  ")
        value = variable.value.replace("{logs}", folder)
        yield f"  {variable.name}: {json.dumps(value)}"
    yield from _hunting("# {}: {}", "  ")
    yield from _in_code("  ")


FORMS: dict[str, Callable[[str], Iterator[str]]] = {
    "torchrun": _torchrun,
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "ray": _ray,
}
