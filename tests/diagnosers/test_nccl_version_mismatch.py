"""nccl-version-mismatch names the rarer release, and no job that merely lies beside."""

import pytest

from nccl_lines import found, info, init, warn

SLUG = "nccl-version-mismatch"
NAMED = "Mismatched NCCL version detected : rank {} version {} rank {} version {}"
TRUNCATED = [
    "Message truncated : received 120 bytes instead of 104",
    "Message truncated : received 120,8 bytes instead of 104,8",
]


def rank(r, version, comm="0xabc", phase="START", size=3):
    host = f"gpu{r + 1}"
    return info(host, f"NCCL version {version}+cuda12.9") + init(
        host, r, size, phase, comm=comm
    )


def job(*versions):
    return {f"rank_{r}.log": rank(r, v) for r, v in enumerate(versions)}


def test_each_rank_names_the_odd_one(analyzed):
    files = {}
    for r, peer in ((0, 1), (1, 0), (2, 1)):
        mine, theirs = (22707 if x == 1 else 22705 for x in (r, peer))
        files[f"rank_{r}.log"] = warn(f"gpu{r}", NAMED.format(peer, theirs, r, mine))
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((1,), ("gpu1",))
    assert "NCCL 2.27.7, the others 2.27.5" in finding.headline


def test_a_tie_names_both_sides(analyzed):
    line = "RuntimeError: " + NAMED.format(1, 22705, 0, 22703) + "\n"
    (finding,) = found(analyzed({"log.txt": line}), SLUG)
    assert finding.ranks == (0, 1)


@pytest.mark.parametrize("text", TRUNCATED)
def test_a_truncated_message_and_two_versions_in_one_communicator(analyzed, text):
    files = job("2.27.5", "2.26.2", "2.27.5")
    files["rank_1.log"] += warn("gpu2", text)
    files["rank_0.log"] += warn(
        "gpu1", "socketProgress: Connection closed by remote peer gpu2.cluster.local<4>"
    )
    analysis = analyzed(files)
    verdict = analysis.ranked.verdict
    assert (verdict.slug, verdict.ranks, verdict.hosts) == (SLUG, (1,), ("gpu2",))


def test_one_version_everywhere_is_cross_talk_of_another_kind(analyzed):
    files = job("2.27.5", "2.27.5", "2.27.5")
    files["rank_1.log"] += warn("gpu2", TRUNCATED[0])
    analysis = analyzed(files)
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "inconclusive"


def test_the_ras_threads_word_counts(analyzed):
    files = job("2.27.5", "2.27.5", "2.26.2")
    files["rank_0.log"] += warn(
        "gpu1",
        "NCCL version mismatch with remote peer 10.0.0.3<41000> (local: 22705, remote "
        "22602)",
    )
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((2,), ("gpu3",))


def test_two_jobs_of_two_versions_in_one_directory_are_healthy(analyzed):
    files = {}
    for name, version, comm in (("a", "2.21.5", "0x1"), ("b", "2.28.9", "0x2")):
        for r in (0, 1):
            files[f"{name}/gpu{r + 1}.{r}.log"] = rank(r, version, comm, size=2) + rank(
                r, version, comm, "COMPLETE", size=2
            )
    analysis = analyzed(files)
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


def test_where_most_logs_are_missing_the_odd_one_is_unknown(analyzed):
    files = {
        "a.log": rank(0, "2.27.5", size=8),
        "b.log": rank(1, "2.26.2", size=8),
    }
    files["b.log"] += warn("gpu2", TRUNCATED[0])
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((), ())
    assert "2.26.2, 2.27.5" in finding.headline


def test_a_line_without_a_name_is_nobodys_where_two_processes_write(analyzed):
    bare = "NCCL version 2.21.5+cuda12.4\n"
    files = job("2.27.5", "2.26.2", "2.27.5")
    files["rank_1.log"] += warn("gpu2", TRUNCATED[0])
    files["rank_0.log"] = (
        bare + files["rank_0.log"] + info("gpu1", "Using network Socket", pid=99)
    )
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu2",)


BUILT = (
    "NCCL library is too old. This application was compiled with NCCL version 2.29.7, "
    "but is running with NCCL library version 2.28.9."
)


def test_a_program_that_loaded_another_release_than_it_was_built_for(analyzed):
    files = {"rank_0.log": rank(0, "2.28.9"), "rank_1.log": rank(1, "2.28.9")}
    files["rank_1.log"] += warn("gpu2", BUILT)
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((1,), ("gpu2",))
    assert "2.29.7 and loaded 2.28.9" in finding.headline
