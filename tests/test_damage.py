"""Evidence that was spoiled on its way: nothing raises, and nobody innocent is named.

Each way of spoiling is what happens to real logs: lines lost, the end cut off, a
terminal that wraps, a mail that quotes, two jobs in one stream, files not collected.
"""

import random
import tomllib

import pytest

from ncclforensics.analysis import analyze

pytestmark = pytest.mark.usefixtures("trusted")

# jobs whose truth hangs on few lines, each in another way
SLUGS = (
    "nccl-coll-shape",
    "nccl-killed-rank",
    "torch-call-order-deadlock",
    "torch-chain-logs-only",
    "torch-collective-mismatch-detail",
    "torch-crashed-rank",
    "torch-healthy",
    "torch-missing-rank-logs-only",
    "torch-missing-rank-py-spy",
    "torch-monitored-barrier-two-absent",
    "torch-rank-conditional-barrier",
    "torch-segfault-rank",
    "torch-shape-mismatch-detail",
    "torch-sigkill-rank",
    "torch-unmatched-p2p",
)
WIDTH = 80


def lost(share):
    return lambda lines, rng: [line for line in lines if rng.random() > share]


def wrapped(lines, rng):
    pieces = []
    for line in lines:
        text = line.rstrip(b"\n")
        pieces += [text[i : i + WIDTH] + b"\n" for i in range(0, len(text) or 1, WIDTH)]
    return pieces


def quoted(lines, rng):
    return [b"> " + line for line in lines]


def cut(lines, rng):
    whole = b"".join(lines)
    return [whole[: int(len(whole) * rng.uniform(0.3, 1))]]


def not_collected(lines, rng):
    return lines if rng.random() > 0.34 else []


WAYS = {
    "a third of the lines lost": lost(0.3),
    "half of the lines lost": lost(0.5),
    "wrapped at 80 columns": wrapped,
    "quoted": quoted,
    "cut": cut,
    "files not collected": not_collected,
}


def is_text(data):
    return data[:1] not in (b"\x80", b"{") and b"\0" not in data[:4096]


def spoiled(source, target, way, rng):
    for file in sorted(f for f in source.rglob("*") if f.is_file()):
        data = file.read_bytes()
        if is_text(data) or way in (cut, not_collected):
            data = b"".join(way(data.splitlines(keepends=True), rng))
        out = target / file.relative_to(source)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(data)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("slug", SLUGS)
def test_nobody_innocent_is_named_of_spoiled_evidence(jobs, tmp_path, slug, way):
    truth = tomllib.loads((jobs / slug / "truth.toml").read_text("utf-8"))
    rng = random.Random(f"{slug} {way}")
    spoiled(jobs / slug / "evidence", tmp_path, WAYS[way], rng)
    ranked = analyze([str(tmp_path)]).ranked
    if ranked.outcome == "failure":
        assert truth["outcome"] == "failure"
        assert set(ranked.verdict.ranks) <= set(truth["ranks"])


@pytest.mark.parametrize("slug", SLUGS)
def test_lines_of_a_healthy_job_in_between_accuse_nobody_else(jobs, tmp_path, slug):
    truth = tomllib.loads((jobs / slug / "truth.toml").read_text("utf-8"))
    rng = random.Random(slug)
    healthy = (jobs / "nccl-healthy-single-node" / "evidence").rglob("*.out")
    strange = [s for file in healthy for s in file.read_bytes().splitlines(True)]

    def mixed(lines, rng):
        lines = list(lines)
        for line in rng.sample(strange, min(len(strange), 20)):
            lines.insert(rng.randrange(len(lines) + 1), line)
        return lines

    spoiled(jobs / slug / "evidence", tmp_path, mixed, rng)
    ranked = analyze([str(tmp_path)]).ranked
    if ranked.outcome == "failure":
        assert truth["outcome"] == "failure"
        assert set(ranked.verdict.ranks) <= set(truth["ranks"])


@pytest.mark.parametrize(
    ("slug", "lost_rank"),
    [
        ("torch-call-order-deadlock", 3),
        ("torch-rank-conditional-barrier", 3),
        ("torch-unmatched-p2p", 1),
    ],
)
def test_of_whom_no_file_was_collected_silence_proves_nothing(
    jobs, tmp_path, slug, lost_rank
):
    def collected(lines, rng):
        return list(lines)

    truth = tomllib.loads((jobs / slug / "truth.toml").read_text("utf-8"))
    spoiled(jobs / slug / "evidence", tmp_path, collected, random.Random(slug))
    gone = [
        *tmp_path.glob(f"logs/*/attempt_0/{lost_rank}/*"),
        *tmp_path.glob("fr/nccl_trace_rank_[03]"),
    ]
    assert gone
    for file in gone:
        file.unlink()
    verdict = analyze([str(tmp_path)]).ranked.verdict
    assert set(verdict.ranks) <= set(truth["ranks"])


def test_of_few_that_came_and_many_unseen_nobody_is_missing(jobs, tmp_path):
    truth = tomllib.loads((jobs / "torch-rank-conditional/truth.toml").read_text())
    evidence = jobs / "torch-rank-conditional" / "evidence"
    spoiled(evidence, tmp_path, lambda lines, rng: list(lines), random.Random(0))
    for rank in (1, 3):
        (tmp_path / f"fr/nccl_trace_rank_{rank}").unlink()
    ranked = analyze([str(tmp_path)]).ranked
    named = ranked.verdict.ranks if ranked.verdict else ()
    assert set(named) <= set(truth["ranks"])


WATCHDOG = "[rank{0}]:[E227 23:07:54.322713545 ProcessGroupNCCL.cpp:2168] {1}\n"
STATUS = (
    "[PG ID 0 PG GUID 0(default_pg) Rank {0}]  failure detected by watchdog at work "
    "sequence id: {1} PG status: last enqueued work: {2}, last completed work: {3}"
)


def test_a_group_of_which_no_line_is_left_has_no_members(tmp_path):
    alone = (
        "[Rank 118] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90, "
        "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for 1800068 "
        "milliseconds before timing out."
    )
    said = {0: STATUS.format(0, 5, 9, 4), 3: STATUS.format(3, 7, 8, 6), 118: alone}
    lines = [WATCHDOG.format(rank, text) for rank, text in said.items()]
    (tmp_path / "job.log").write_text("".join(lines))
    assert analyze([str(tmp_path)]).ranked.outcome != "no-failure"
