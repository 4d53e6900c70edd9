"""Fakes of srun, kubectl and ssh on PATH: they run the command here, as a node would.

They follow the documented behaviour: exit codes, what goes to stderr, how arguments are
joined. A node that FAKE_DOWN names does not answer.
"""

import os
import sys
import textwrap

import pytest

# `host` is what uname says there: Python reads its script, and a line of it sets that
HEAD = f"""\
#!{sys.executable} -I
import json, os, shlex, subprocess, sys, time
arguments = sys.argv[1:]
down = os.environ.get("FAKE_DOWN", "").split(",")
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), *arguments]) + "\\n")
def start(host, command):
    first = "import os; R = os.uname_result; U = os.uname; "
    first += "os.uname = lambda: R((U()[0], " + repr(host) + ", *U()[2:]))\\n"
    script = first.encode() + sys.stdin.buffer.read()
    done = subprocess.run(command, input=script, env=dict(os.environ, NODE=host))
    return done.returncode
"""
FAKES = {
    # ssh joins its arguments with blanks, and the login shell reads them
    "ssh": """
    host, *rest = arguments[arguments.index("--") + 1 :]
    host = host.rpartition("@")[2]
    if host in down:
        sys.exit(f"ssh: connect to host {host} port 22: No route to host")
    if host == "locked":
        print(f"root@{host}: Permission denied (publickey).", file=sys.stderr)
        sys.exit(255)
    sys.exit(start(host, ["sh", "-c", " ".join(rest)]))
    """,
    "squeue": """
    job = arguments[arguments.index("--jobs") + 1]
    rows = {"7": "7 RUNNING gpu[0001-0003]", "8": "8 PENDING "}
    if job not in rows:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print(rows[job])
    """,
    "scontrol": """
    assert arguments[:2] == ["show", "hostnames"], arguments
    print("gpu0001\\ngpu0002\\ngpu0003")
    """,
    "srun": """
    at = next(n for n, word in enumerate(arguments) if not word.startswith("-"))
    (host,) = [a.partition("=")[2] for a in arguments if a.startswith("--nodelist=")]
    if host in down:
        time.sleep(60)
    sys.exit(start(host, arguments[at:]))
    """,
    "kubectl": """
    if arguments[:2] == ["get", "pods"]:
        print(open(os.environ["FAKE_PODS"]).read())
        sys.exit()
    assert arguments[:2] == ["exec", "--stdin"], arguments
    at = arguments.index("--")
    pod = arguments[at - 1]
    if pod in down:
        sys.exit("Error from server: error dialing backend: dial tcp 10.0.0.5:10250: "
                 "connect: connection refused")
    code = start(pod, arguments[at + 1 :])
    if code:
        print(f"command terminated with exit code {code}", file=sys.stderr)
    sys.exit(code)
    """,
}  # fmt: skip


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """Put the fakes first on PATH; return a function that lists their calls."""
    folder, log = tmp_path / "bin", tmp_path / "calls.txt"
    folder.mkdir()
    for name, text in FAKES.items():
        file = folder / name
        file.write_text(HEAD + textwrap.dedent(text))
        file.chmod(0o755)
    # a Python that is quick to start; -I keeps it from the coverage of this one
    (folder / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LOG", str(log))

    def calls():
        import json

        return [json.loads(line) for line in log.read_text().splitlines()]

    return calls
