"""The count of NCCL's warnings that are read as such counts what it says."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "warn_coverage.py"
FORMATS = [
    ("init.cc", "Call to connect returned Connection refused"),
    ("transport/net_ib/p2p.cc", "NET/IB: Got completion from peer 10.20.0.12<41000>"),
    ("misc/strongstream.cc", "Cuda failure 'invalid argument'"),
]


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("warn_coverage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_form_of_the_prefix_is_read_behind_every_launcher(coverage):
    read = coverage.framed(FORMATS)
    assert read.height == 3 * len(coverage.PREFIXES) * len(coverage.DECORATIONS)
    assert read.filter(~read["right"])["raw"].to_list() == []


def test_a_line_that_hides_its_host_is_counted_as_misread(coverage, monkeypatch):
    hidden = {"hidden": "[{device}] {file}:300 NCCL WARN {text}"}
    monkeypatch.setattr(coverage, "PREFIXES", hidden)
    assert not coverage.framed(FORMATS)["right"].any()


def test_a_message_of_the_grammars_is_recognised_and_a_bare_warning_is_not(coverage):
    known = coverage.recognised(FORMATS)
    assert set(known) == {FORMATS[2][1]}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Rank %d of %ld has %s failed\\n", "Rank 12 of 12 has ncclThing failed"),
        ("connect to %s failed : %s", "connect to 10.20.0.12<41000> failed : "),
        ("%s: 100%% of %#lx", "ncclCommInitRank: 100% of 7f3a"),
    ],
)
def test_a_printf_format_is_filled_with_values(coverage, template, text):
    assert coverage.rendered(template).startswith(text)
