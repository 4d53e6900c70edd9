"""The command line: what goes where, and which exit code it ends with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pytest
from msgspec.structs import replace

from ncclforensics import __version__
from ncclforensics.cli import commands, console
from ncclforensics.diagnosers.domains import Lies
from ncclforensics.engine.pool import Here, Pool
from ncclforensics.model.errors import UsageError
from ncclforensics.model.span import Span
from ncclforensics.report.contract import (
    Culprits,
    Evidence,
    Finding,
    Job,
    Note,
    Report,
    SourceFile,
    Tool,
    Verdict,
)
from ncclforensics.report.formats.as_json import decode, render_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERDICT = Verdict(
    slug="gpu-oom",
    family="dead-rank",
    confidence="certain",
    headline="rank 3 ran out of GPU memory — größe",
    culprits=Culprits((3,), "3", ("n1",), ()),
    collective=None,
    first_seen=None,
    evidence=(Evidence("a.log", 7, "CUDA out of memory"),),
    explanation="It asked for more than there was.",
    remedy=("Use a smaller batch.",),
    references=(),
)
FILE = SourceFile("a.log", "log", "text", 3, None, None, None, None, 10, 1, 1, None)
FAILED = Report(
    schema_version=1,
    tool=Tool("ncclforensics", __version__),
    outcome="failure",
    verdict=VERDICT,
    findings=(
        Finding(
            **{f: getattr(VERDICT, f) for f in Verdict.__struct_fields__}, role="root"
        ),
    ),
    ruled_out=(),
    not_checked=(),
    job=Job(),
    sources=(FILE,),
    notes=(),
)
HEALTHY = replace(FAILED, outcome="no-failure", verdict=None, findings=())
NOTHING = replace(HEALTHY, outcome="inconclusive", sources=())


@dataclass(frozen=True, slots=True)
class Entry:
    """Stands for a diagnoser."""

    slug: str
    family: str = "dead-rank"
    domain: str = "user-code"
    restart: str = "not before the code is changed"
    variants: Mapping[str, Lies] = field(
        default_factory=lambda: {"odd": Lies("launch", "unknown", "it is odd")}
    )
    doc: str = "A class.\n\nWhat it means\nThis.\n"


class Analysis:
    """Stands for `ncclforensics.analysis`: answers with what a test puts here."""

    def __init__(self) -> None:
        self.report: Report = FAILED
        self.error: BaseException | None = None
        self.asked: dict[str, Any] = {}
        self.interrupted = False

    def analyze(self, paths: tuple[str, ...], **options: Any) -> SimpleNamespace:
        self.asked = {"paths": paths, **options}
        if self.error is not None:
            raise self.error
        return SimpleNamespace(
            report=self.report,
            interrupted=self.interrupted,
            cached=None,
            sources=(),
        )


@pytest.fixture
def analysis(monkeypatch: pytest.MonkeyPatch) -> Analysis:
    fake = Analysis()
    module = ModuleType("ncclforensics.analysis")
    module.analyze = fake.analyze  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    classes = {slug: Entry(slug) for slug in ("gpu-oom", "missing-rank")}
    monkeypatch.setattr("ncclforensics.diagnosers.CLASSES", classes, raising=False)
    return fake


@pytest.fixture
def run(analysis: Analysis, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    def call(*args: str) -> tuple[int, str, str]:
        code = commands.main(args)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def test_analyze_answers_on_stdout_only(run: Any) -> None:
    code, out, err = run("analyze", "logs")
    assert code == 0
    assert out.startswith("gpu-oom: rank 3 on n1 ")
    assert "a.log:7  CUDA out of memory" in out
    assert err == ""


@pytest.mark.parametrize(
    ("report", "plain", "asked"),
    [(FAILED, 0, 1), (HEALTHY, 0, 0), (NOTHING, 3, 3)],
)
def test_exit_codes_of_the_outcomes(
    run: Any, analysis: Analysis, report: Report, plain: int, asked: int
) -> None:
    analysis.report = report
    assert run("analyze", "logs")[0] == plain
    assert run("analyze", "--exit-code", "logs")[0] == asked


def test_an_inconclusive_verdict_is_no_failure_named(
    run: Any, analysis: Analysis
) -> None:
    analysis.report = replace(FAILED, outcome="inconclusive")
    assert run("analyze", "--exit-code", "logs")[0] == 0


@pytest.mark.parametrize("form", commands.FORMATS)
def test_every_format_answers_even_to_nothing(
    run: Any, analysis: Analysis, form: str
) -> None:
    analysis.report = NOTHING
    code, out, err = run("analyze", "-f", form, "logs")
    assert code == 3
    assert out.endswith("\n")
    assert "inconclusive" in out
    assert err == ""


def test_options_reach_the_analysis(run: Any, analysis: Analysis) -> None:
    code, _, _ = run(
        *("analyze", "a", "b", "--jobs", "1", "--no-cache", "--world-size", "8"),
        *("--select", "gpu-oom,missing-rank", "--ignore", "gpu-oom"),
        *("--since", "2026-01-02T04:04:05+01:00"),
    )
    assert code == 0
    assert isinstance(analysis.asked.pop("executor"), Here)
    assert analysis.asked == {
        "paths": ("a", "b"),
        "world_size": 8,
        "select": frozenset({"gpu-oom", "missing-rank"}),
        "ignore": frozenset({"gpu-oom"}),
        "span": Span(since=1_767_323_045_000_000_000),
        "progress": None,
        "kept": None,
        "quote": False,
    }


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (("--since", "yesterday"), "--since: 'yesterday' is not a time"),
        (("--since", "2026-01-03", "--until", "2026-01-02"), "later than --until"),
    ],
)
def test_what_is_no_span_of_time_is_a_mistake(run: Any, told: Any, says: str) -> None:
    code, _, err = run("analyze", "a", *told)
    assert code == 2
    assert says in err


def test_jobs_are_processes(run: Any, analysis: Analysis) -> None:
    assert run("analyze", "a", "--jobs", "2")[0] == 0
    assert isinstance(analysis.asked["executor"], Pool)
    with pytest.raises(RuntimeError, match="after shutdown"):
        analysis.asked["executor"].submit(print)


def test_rank_narrows_and_a_bad_one_is_usage(run: Any) -> None:
    code, out, _ = run("analyze", "-f", "json", "--rank", "0-2", "logs")
    assert code == 0
    assert json.loads(out)["sources"] == []
    code, out, err = run("analyze", "--rank", "2-0", "logs")
    assert (code, out) == (2, "")
    assert err == "ncclforensics: error: --rank: not a run of ranks: '2-0'\n"


def test_colour_is_asked_for_or_absent(run: Any) -> None:
    assert "\x1b[" not in run("analyze", "logs")[1]
    assert "\x1b[1;31m" in run("analyze", "--color", "always", "logs")[1]
    assert "\x1b[" not in run("analyze", "--color", "always", "-f", "json", "logs")[1]


def test_a_saved_report_is_rendered_again(run: Any, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    saved.write_text(render_json(HEALTHY))
    code, out, _ = run("analyze", "-f", "json", str(saved))
    assert code == 0
    assert decode(out.encode()) == HEALTHY


def test_a_user_s_mistake_is_one_line(run: Any, analysis: Analysis) -> None:
    analysis.error = UsageError("no such path: x\x1b[2J\ny")
    assert run("analyze", "x") == (2, "", "ncclforensics: error: no such path: x y\n")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("analyze",), "Missing argument"),
        (("analyse", "x"), "No such command"),
        (("analyze", "x", "-f", "yaml"), "is not one of"),
        (("analyze", "x", "--jobs", "0"), "--jobs"),
    ],
)
def test_usage_errors_are_one_line_that_says_where_help_is(
    run: Any, args: tuple[str, ...], told: str
) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("ncclforensics: error: ")
    assert err.count("\n") == 1
    assert told in err
    assert "--help)" in err


def test_no_arguments_show_the_help_on_stderr(run: Any) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ncclforensics")


class Panic(BaseException):
    """As polars raises it: no Exception."""


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), Panic("oops")])
def test_a_bug_has_its_traceback(
    run: Any, analysis: Analysis, error: BaseException
) -> None:
    analysis.error = error
    code, out, err = run("analyze", "x")
    assert (code, out) == (70, "")
    assert "Traceback" in err
    assert f"{type(error).__name__}: oops" in err
    assert "ncclforensics: error: this is a bug" in err
    assert f"ncclforensics {__version__}, polars " in err


def test_an_interrupt_is_130(run: Any, analysis: Analysis) -> None:
    analysis.error = KeyboardInterrupt()
    code, out, err = run("analyze", "x")
    assert (code, out) == (130, "")
    assert err.strip() == "ncclforensics: error: interrupted"


@pytest.mark.parametrize("command", ["analyze", "evidence"])
def test_an_interrupted_reading_still_answers(
    run: Any, analysis: Analysis, command: str
) -> None:
    told = "reading was interrupted: 3 of 9 files were read"
    analysis.interrupted = True
    analysis.report = replace(FAILED, notes=(Note("interrupted", told, None, None),))
    code, out, err = run(command, "logs")
    assert code == 130
    assert "a.log" in out
    assert told in out
    assert err == f"ncclforensics: warning: {told}\n"


def test_evidence_lists_the_files(run: Any, analysis: Analysis) -> None:
    code, out, _ = run("evidence", "logs")
    assert code == 0
    assert out.splitlines()[1].split() == ["a.log", "log", "3", *"-1--", "text"]
    analysis.report = NOTHING
    assert run("evidence", "logs")[:2] == (3, "0 files\n")


def test_explain_and_classes(run: Any) -> None:
    code, out, _ = run("explain", "gpu-oom")
    assert code == 0
    assert out == (
        "gpu-oom (dead-rank)\nA class.\n"
        "domain: user-code · restart: not before the code is changed\n"
        "  launch · unknown: if it is odd\n"
        "\nWhat it means\n  This.\n"
    )
    assert run("classes")[1].splitlines() == [
        "gpu-oom       dead-rank  A class.",
        "missing-rank  dead-rank  A class.",
    ]


@pytest.mark.parametrize(
    "args", [("explain", "mising-rank"), ("analyze", "--select", "mising-rank", "x")]
)
def test_an_unknown_class_names_the_nearest(run: Any, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert "no class 'mising-rank'; did you mean missing-rank?" in err


def test_grammars_check_shows_problems_and_matches(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good, bad, log = (tmp_path / name for name in ("good.toml", "bad.toml", "a.log"))
    for file in (good, bad, log):
        file.touch()
    problems = {good: [], bad: ["x.y: sample 1 does not match"]}
    checker = "ncclforensics.parsers.logs.grammar_check"
    monkeypatch.setattr(f"{checker}.check_file", problems.get)
    found = [(3, "nccl.version", "NCCL version 2.27")]
    monkeypatch.setattr(f"{checker}.matches", lambda _: found)
    assert run("grammars", "check", str(good))[:2] == (0, "good.toml: ok\n")
    code, out, _ = run("grammars", "check", str(bad), str(log))
    assert code == 2
    assert out.splitlines() == [
        "bad.toml: x.y: sample 1 does not match",
        "a.log:3  nccl.version  NCCL version 2.27",
    ]
    assert run("grammars", "check", str(tmp_path / "none.toml"))[0] == 2


def spawn(code: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, env=env, check=False)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["analyze", "--help"]])
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    done = spawn(
        "import sys; from ncclforensics.cli.commands import main\n"
        f"assert main({args}) == 0\n"
        "heavy = {'polars', 'textual', 'rich', 'torch', 'pyparsing'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    assert done.stderr == b""
    assert done.returncode == 0
    assert b"ncclforensics" in done.stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    code = (
        "import sys; from ncclforensics.cli import stdout\n"
        "sys.stdin.read()\n"
        "stdout.write('x' * 1_000_000)\n"
    )
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, stderr=subprocess.PIPE, **pipes) as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        child.stdout.close()
        child.stdin.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


def test_a_full_disk_is_said_in_one_line() -> None:
    code = "import sys; from ncclforensics.cli.commands import main; sys.exit(main(['--version']))"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"ncclforensics: error: stdout cannot be written: No")


def test_a_poor_encoding_loses_letters_and_not_the_answer() -> None:
    code = "from ncclforensics.cli import stdout\nstdout.write('1 · 2\\n', utf8={})"
    latin = {"PYTHONIOENCODING": "ascii"}
    assert spawn(code.format(False), **latin).stdout == b"1 ? 2\n"
    assert spawn(code.format(True), **latin).stdout == "1 · 2\n".encode()


def test_progress_is_for_terminals_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert console.progress() is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert console.progress(enabled=False) is None
    show = console.progress()
    assert show is not None
    show(1, 2000)
    show(2, 2000)
    show(2000, 2000)
    with console.doing("writing a.html"):
        pass
    drawn = capfd.readouterr().err.split("\r\x1b[K")
    assert drawn == [
        "",
        "reading [....................] 1 of 2,000 files …",
        "looking for the cause …",
        "writing a.html …",
        "",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["ex"], {"explain", "export"}),
        (["explain", "missing-r"], {"missing-rank"}),
        (["analyze", "--select", "gpu-oom,missing-r"], {"gpu-oom,missing-rank"}),
        (["analyze", "--forma"], {"--format"}),
    ],
)
def test_bash_completes_commands_options_and_classes(
    typed: list[str], offered: set[str], tmp_path: Path
) -> None:
    main = "from ncclforensics.cli.commands import main\nmain()\n"
    script = tmp_path / "ncclforensics"
    script.write_text(f"#!{sys.executable}\n{main}")
    script.chmod(0o755)
    words = " ".join(["ncclforensics", *typed])
    shell = (
        'eval "$(_NCCLFORENSICS_COMPLETE=bash_source ncclforensics)"\n'
        f"COMP_WORDS=({words}) COMP_CWORD={len(typed)}\n"
        '_ncclforensics_completion ncclforensics; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    place = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", shell],
        env={**os.environ, "PATH": place},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize(
    "name", [*commands.cli.commands, "grammars check", "cache clear"]
)
def test_every_command_s_help_has_examples_that_parse(run: Any, name: str) -> None:
    code, out, _ = run(*name.split(), "--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 88
    if name in ("grammars", "cache"):
        return
    lines = out.partition("Examples:\n")[2].splitlines()
    typed = [shlex.split(line, comments=True) for line in lines]
    assert any("ncclforensics" in words for words in typed)
    for words in typed:
        start = words.index("ncclforensics") if "ncclforensics" in words else len(words)
        words = words[start + 1 :]
        end = next((i for i, w in enumerate(words) if w in ("|", "||", ">")), None)
        words = words[:end]
        command: Any = commands.cli if words else click.Command(name)
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        command.make_context(name, words)


@pytest.mark.parametrize("outcome", ["inconclusive", "no-failure"])
def test_an_outcome_without_a_verdict_is_explained(run: Any, outcome: str) -> None:
    code, out, _ = run("explain", outcome)
    assert code == 0
    assert out.startswith(f"{outcome} (outcome)")


def test_a_class_stays_on_one_line_in_a_pipe(run: Any) -> None:
    from ncclforensics.diagnosers import CLASSES

    lines = run("classes")[1].splitlines()
    assert [line.split()[0] for line in lines] == [*CLASSES]
