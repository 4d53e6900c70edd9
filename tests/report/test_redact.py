"""Redaction: one name has one pseudonym, in every output, and no name is left."""

from __future__ import annotations

import io
import re
import zipfile

import polars as pl
import pytest

from ncclforensics.analysis import analyze
from ncclforensics.diagnosers import CLASSES
from ncclforensics.model.errors import UsageError
from ncclforensics.report.bundle import SUFFIXES, paper
from ncclforensics.report.redact import KINDS, Redactor, kinds


@pytest.fixture
def redactor():
    made = Redactor(KINDS)
    made.learn_hosts(
        ["gpu0001", "gpu0002", "ip-10-1-2-3", "head.cluster.acme.internal", "10.0.0.9"]
    )
    made.learn_users(["alice", "root"])
    return made


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("gpu0002:41:42 [0] NCCL INFO", "host2:41:42 [0] NCCL INFO"),
        ("gpu[0001-0002] use docker0", "host[1-2] use docker0"),
        ("gpu[0002,…", "host2…"),
        ("a gpu0001.log of gpu0001_0", "a host1.log of host1_0"),
        ("head and head.cluster.acme.internal", "host3 and host3"),
        ("Using eth0:10.0.0.9<0>", "Using eth0:ip1<0>"),
        ("::ffff:10.0.0.9 and fe80::1%eth0", "ip1 and ip2%eth0"),
        (
            "127.0.0.1 0.0.0.0 [::1]:29500 12:07:31",
            "127.0.0.1 0.0.0.0 [::1]:29500 12:07:31",
        ),
        ("c10d::Work 0000:3b:00.0 2.27.5", "c10d::Work 0000:3b:00.0 2.27.5"),
        ("alice@head: run by alice", "user1@host3: run by user1"),
        ('File "/home/alice/x/train.py", line 3', 'File "/dir1/train.py", line 3'),
        ("/usr/lib/a.py and /dev/shm/x", "/usr/lib/a.py and /dev/shm/x"),
        (
            "/data/v/lib/python3.11/site-packages/torch/x.py",
            "/dir1/site-packages/torch/x.py",
        ),
        ("see https://pytorch.org/docs/stable", "see https://pytorch.org/docs/stable"),
        ("localhost rank 3 root", "localhost rank 3 root"),
    ],
)
def test_what_is_replaced_and_what_stays(redactor, text, wanted):
    assert redactor.text(text) == wanted


def test_a_word_like_a_host_is_one(redactor):
    assert redactor.text("gpu0077.cluster.acme.com:29500") == "host5:29500"
    assert redactor.text("peer gpu0077") == "peer host5"


def test_only_what_is_asked_for_is_replaced():
    made = Redactor({"ips"})
    made.learn_hosts(["gpu0001"])
    made.learn_users(["alice"])
    text = "gpu0001 alice /home/alice/x 10.1.2.3 ip-10-1-2-3"
    assert made.text(text) == "gpu0001 alice /home/alice/x ip1 ip1"


def test_folders_of_the_layout_stay(redactor):
    name = "acme-secret/attempt_0/3/gpu0001/stderr.log"
    assert redactor.source(name) == "dir1/attempt_0/3/host1/stderr.log"


def test_kinds_are_read_and_a_stranger_is_usage():
    assert kinds(None) == frozenset()
    assert kinds("hosts, ips") == {"hosts", "ips"}
    assert kinds("all") == set(KINDS)
    with pytest.raises(UsageError, match="no 'host'; it takes hosts, ips"):
        kinds("host")


SECRETS = re.compile(r"gpu\d|gpu\[|172\.17\.0\.1|10\.0\.0\.\d|/opt/venv|alice|acme")


def texts(data: bytes) -> str:
    """Everything readable in an output, frames of a zip included."""
    if not data.startswith(b"PK"):
        return data.decode()
    parts = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            member = archive.read(name)
            if name.endswith(".parquet"):
                frame = pl.read_parquet(io.BytesIO(member))
                parts.append(repr(frame.to_dicts()))
            else:
                parts.append(member.decode())
    return "\n".join(parts)


@pytest.fixture
def evidence(jobs, tmp_path):
    """A job with addresses, and a user's own folders put into its logs."""
    folder = tmp_path / "acme-run"
    for file in (jobs / "nccl-docker0" / "evidence").rglob("*.log"):
        copy = folder / file.parent.name / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = "cwd /home/alice/acme/run3\n" + file.read_text()
        copy.write_text(text + "run by alice@gpu0099.acme.com\n")
    return folder


def test_no_output_keeps_a_name_and_all_agree(evidence):
    found = analyze([str(evidence)], quote=True)
    args = (found.report, found.frames, found.excerpts, CLASSES)
    open_, hidden = paper(*args), paper(*args, frozenset(KINDS))
    for suffix in SUFFIXES:
        assert SECRETS.search(texts(open_.render(suffix)[0]))
        assert not SECRETS.search(texts(hidden.render(suffix)[0]))
    verdict = hidden.report.verdict
    assert verdict.culprits.hosts == ("host2",)
    assert verdict.headline == "host2 uses docker0, the others eth0"
    ranks = hidden.frames["ranks"].sort("rank")
    assert ranks["host"].to_list() == ["host1", "host1", "host2", "host2"]
    assert verdict.evidence[0].source == "host2/rank_2.log"


def test_the_same_evidence_gives_the_same_bytes(evidence):
    def rendered():
        found = analyze([str(evidence)], quote=True)
        args = (found.report, found.frames, found.excerpts, CLASSES)
        return [
            paper(*args, redact).render(suffix)
            for redact in (frozenset(), frozenset(KINDS))
            for suffix in SUFFIXES
        ]

    assert rendered() == rendered()
