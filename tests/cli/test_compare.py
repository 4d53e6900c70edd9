"""`diff` as a person runs it."""

import json
import sys


def test_json_is_the_whole_and_hides_what_is_asked(run, jobs):
    sides = [
        str(jobs / n / "evidence") for n in ("torch-healthy", "torch-missing-rank")
    ]
    code, out, err = run("diff", *sides, "-f", "json", "--redact", "hosts")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["b"]["verdict"]["class"] == "missing-rank"
    assert {d["topic"] for d in told["differences"]} >= {"progress", "lines"}
    assert "gpu0001" not in out
    assert "host1" in out


def test_mistakes_are_one_line(run, tmp_path):
    assert run("diff", "a", "b", "c")[::2] == (
        2,
        "ncclforensics: error: diff takes two sides, A and B\n",
    )
    assert run("diff", str(tmp_path / "no"), str(tmp_path))[0] == 2


def test_nothing_of_the_terminal_application_is_imported():
    import subprocess

    code = "import sys, ncclforensics.diff.sides, ncclforensics.diff.compare\n"
    code += "from ncclforensics.tui import exported\n"
    code += "sys.exit('textual' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
