"""The command: what it refuses before it draws, and what it does not import."""

import subprocess
import sys

import pytest

from ncclforensics.cli.commands import main
from ncclforensics.model.errors import ExitCode


@pytest.mark.parametrize("verb", ["timeline", "tui"])
def test_without_a_terminal_it_says_so_in_one_line(verb, tmp_path, capsys):
    assert main([verb, str(tmp_path)]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert "needs a terminal" in told.err
    assert told.err.count("\n") == 1


def test_evidence_on_stdin_is_refused_because_keys_come_from_there(capsys):
    assert main(["timeline", "-"]) == ExitCode.USAGE
    assert "stdin" in capsys.readouterr().err


def test_a_path_that_is_not_there_is_refused_before_anything_is_drawn(tmp_path, capsys):
    assert main(["timeline", str(tmp_path / "nothing")]) == ExitCode.USAGE
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["timeline", "--help"], ["classes"]])
def test_no_other_command_imports_textual(arguments):
    code = (
        "import sys; from ncclforensics.cli.commands import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: sys.stderr.write('textual' if 'textual' in sys.modules else '')\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_the_model_needs_no_textual():
    code = "import sys, ncclforensics.report.timeline.build, ncclforensics.tui.model.view\n"
    code += "import ncclforensics.tui.load\n"
    code += "sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
