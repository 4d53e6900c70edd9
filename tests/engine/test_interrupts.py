"""Ctrl-C where Python ignores it, and where a library makes another error of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from ncclforensics.cli import commands
from ncclforensics.engine import interrupts
from ncclforensics.model.errors import UsageError


def pressed() -> None:
    # to this thread: another one, that masks nothing, would take it some time later
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    for _ in range(1000):  # Python looks for signals between its steps
        pass


class Dying:
    def __del__(self) -> None:
        pressed()


class Doing:
    """A library's own step, which fails with an error of its own."""

    def __set_name__(self, owner: type, name: str) -> None:
        pressed()


def dies_and_goes_on() -> None:
    Dying()
    busy()


def busy() -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.01)


def pressed_before(done: list[str]) -> None:
    pressed()
    done.append("whole")


def starts(spec: SimpleNamespace, done: list[str]) -> None:
    """Import for a while, and go on."""
    pressed()
    done.append("started")
    spec._initializing = False
    busy()


def test_an_interrupt_in_a_destructor_strikes_again(capfd) -> None:
    with interrupts.noticed() as interrupted, pytest.raises(KeyboardInterrupt):
        dies_and_goes_on()
    assert interrupted()
    assert capfd.readouterr().err == ""


def test_the_start_of_polars_is_not_interrupted(monkeypatch) -> None:
    spec = SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(__spec__=spec))
    done: list[str] = []
    with interrupts.noticed() as interrupted, pytest.raises(KeyboardInterrupt):
        starts(spec, done)
    assert interrupted()
    assert done


def test_what_was_there_before_is_there_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts.noticed() as interrupted:
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert not interrupted()


def test_another_thread_gets_no_signals_and_asks_for_none() -> None:
    said: list[bool] = []

    def run() -> None:
        with interrupts.noticed() as interrupted:
            said.append(interrupted())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert said == [False]


def test_what_a_library_makes_of_an_interrupt_is_no_bug(monkeypatch, capsys) -> None:
    def fails(*_: object, **__: object) -> None:
        type("Owner", (), {"doing": Doing()})

    monkeypatch.setattr(commands.cli, "main", fails)
    assert commands.main(["explain"]) == 130
    assert capsys.readouterr().err == "ncclforensics: error: interrupted\n"


def test_an_error_of_ours_is_told_after_an_interrupt_too(monkeypatch, capsys) -> None:
    def fails(*_: object, **__: object) -> None:
        try:
            pressed()
        except KeyboardInterrupt:
            raise UsageError("the disk is full") from None

    monkeypatch.setattr(commands.cli, "main", fails)
    assert commands.main(["explain"]) == 2
    assert capsys.readouterr().err == "ncclforensics: error: the disk is full\n"


def test_what_must_be_whole_is_not_interrupted_but_what_follows_is() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), interrupts.put_off():
        pressed_before(done)
    assert done == ["whole"]


IMPORTED = """
import os, signal, sys
class Pressing:
    def find_spec(self, name, *_):
        if name == "ncclforensics.cli.commands":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressing())
from ncclforensics.__main__ import run
run()
"""


def test_an_interrupt_while_the_program_is_imported_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, "--help"], capture_output=True, text=True
    )
    assert done.returncode == 130
    assert done.stderr == "\nncclforensics: error: interrupted\n"


def test_an_interrupt_while_another_is_made_to_strike_again_is_the_same(capfd) -> None:
    with interrupts.noticed() as came:
        with interrupts._striking:
            pressed()
        assert came()
    assert capfd.readouterr().err == ""
