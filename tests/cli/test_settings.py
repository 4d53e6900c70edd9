"""Defaults from a file: found from here upward, checked, and weaker than a command."""

import pytest

from ncclforensics.cli import commands, settings


@pytest.fixture
def run(jobs, tmp_path, monkeypatch, capfdbinary):
    folder = tmp_path / "project" / "run"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    evidence = str(jobs / "torch-missing-rank" / "evidence")

    def call(*args, text="", name="ncclforensics.toml"):
        (folder.parent / name).write_text(text)
        code = commands.main([*args, evidence])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def test_a_file_above_gives_defaults_and_the_command_line_wins(run):
    text = 'no-cache = true\n[analyze]\nformat = "json"\nredact = ["hosts", "ips"]\n'
    code, out, err = run("analyze", text=text)
    assert (code, err) == (0, "")
    assert out.startswith("{")
    assert "gpu0001" not in out
    code, out, _ = run("analyze", "-f", "text", "--redact", "", text=text)
    assert out.startswith("missing-rank: rank 2 on gpu0001")


def test_the_nearest_file_counts_alone(run, tmp_path):
    (tmp_path / "ncclforensics.toml").write_text("quiet = true\n")
    assert len(run("analyze", text="")[1].splitlines()) > 2
    (tmp_path / "project" / "ncclforensics.toml").unlink()
    text = "[tool.other]\nx = 1\n"
    out = run("analyze", text=text, name="pyproject.toml")[1]
    assert len(out.splitlines()) == 2


def test_a_table_of_a_project_file_counts_too(run):
    text = "[tool.ncclforensics.analyze]\nquiet = true\n"
    assert len(run("analyze", text=text, name="pyproject.toml")[1].splitlines()) == 2


def test_another_file_or_none_can_be_named(run, tmp_path):
    (tmp_path / "other.toml").write_text("quiet = true\n")
    other = run("--config", str(tmp_path / "other.toml"), "analyze", text="jobs = 1\n")
    assert len(other[1].splitlines()) == 2
    none = run("--config", "/dev/null", "analyze", text="quiet = true\n")
    assert len(none[1].splitlines()) > 2


def test_what_changes_an_answer_is_said(run):
    text = 'since = 2100-01-01T00:00:00Z\nignore = "straggler"\nno-progress = true\n'
    _, out, err = run("analyze", "-q", text=text)
    assert "missing-rank" not in out.splitlines()[0]
    assert err.startswith("ncclforensics: ignore, since by default as in ")
    assert run("evidence", text=text)[2] == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("formt = 'json'\n", "no option 'formt'; did you mean format?"),
        ("[analyse]\nquiet = true\n", "no command 'analyse'; did you mean analyze?"),
        ("[report]\nrank = '1'\n", "no option 'report.rank'"),
        ("[analyze]\nformat = 'xml'\n", "format for analyze: 'xml' is not one of"),
        ("quiet = 'yes'\n", "quiet for analyze: true or false, not 'yes'"),
        ("jobs = 0\n", "jobs for analyze: 0 is not in the range x>=1."),
        ("select = 'missing-rnk'\n", "did you mean missing-rank or"),
        ("jobs = \n", "Invalid value (at line 1"),
    ],
)
def test_mistakes_are_told_by_file_and_key(run, text, said):
    code, out, err = run("analyze", text=text)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("key", ["yes", "force", "executor", "output", "link"])
def test_a_file_sends_nothing_and_overwrites_nothing(run, key):
    for text in (f"{key} = true\n", f"[attach]\n{key} = true\n"):
        code, _, err = run("analyze", text=text)
        assert code == 2
        assert f"--{key} is only taken on the command line" in err


def test_a_folder_that_is_gone_has_no_settings(tmp_path, monkeypatch, capfd):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert commands.main(["classes"]) == 0
    assert "Traceback" not in capfd.readouterr().err


def test_no_option_that_writes_or_sends_was_forgotten():
    """An option that is new is either harmless, or it is in ASKED."""
    names = {n for c in commands.cli.commands.values() for n in settings.options(c)}
    assert names | {"help"} >= settings.ASKED
    assert names - settings.ASKED == {
        *("format", "quiet", "verbose", "rank", "pg", "exit-code", "color", "jobs"),
        *("world-size", "select", "ignore", "since", "until", "redact", "no-cache"),
        *("no-progress", "as", "port", "all", "once", "for", "patience"),
        *("again", "limit", "nonblocking", "store", "by", "node", "hours"),
        *("node-limit", "parallel", "print", "launcher", "logs"),
    }
