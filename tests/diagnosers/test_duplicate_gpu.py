"""duplicate-gpu names the ranks on one GPU, by NCCL's word or by their bus ids."""

import pytest

from nccl_lines import found, info, init, warn

SLUG = "duplicate-gpu"
NAMED = "Duplicate GPU detected : rank {} and rank {} both on CUDA device {}"
UNNAMED = [
    "Multiple ranks detected using the same GPU on this node. Set "
    "NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration.",
    "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 "
    "to "
    "enable this configuration.",
]


def job(text, buses, hosts=None):
    """A job that NCCL refuses on every rank; `buses` by rank."""
    hosts = hosts or ["gpu1"] * len(buses)
    return {
        f"rank_{r}.log": init(hosts[r], r, len(buses), "START", pid=40 + r, bus=bus)
        + warn(hosts[r], text, pid=40 + r)
        for r, bus in enumerate(buses)
    }


def test_the_ranks_that_the_line_names_are_named(analyzed):
    line = NAMED.format(2, 3, "47000")
    (finding,) = found(analyzed({"a.log": warn("gpu1", line)}), SLUG)
    assert (finding.ranks, finding.hosts) == ((2, 3), ("gpu1",))
    assert "47000" in finding.headline


def test_a_rank_with_another_number_prints_those_of_a_smaller_communicator(analyzed):
    line = f"[rank6]: {NAMED.format(0, 1, '47000')}\n"
    (finding,) = found(analyzed({"log.txt": line}), SLUG)
    assert finding.ranks == (6,)


def test_torchs_last_error_names_them_as_well_and_each_gpu_gets_its_ranks(analyzed):
    text = "".join(
        "torch.distributed.DistBackendError: NCCL error in: /p/x.cpp:1275, internal "
        "error, "
        "NCCL version 2.14.3\nncclInternalError: Internal check failed.\nLast error:\n"
        + NAMED.format(*pair)
        + "\n"
        for pair in ((0, 4, "7000"), (7, 3, "c7000"))
    )
    (finding,) = found(analyzed({"log.txt": text}), SLUG)
    assert (finding.ranks, finding.hosts) == ((0, 3, 4, 7), ())
    assert "GPU 7000 (0, 4), GPU c7000 (3, 7)" in finding.headline


@pytest.mark.parametrize("text", UNNAMED)
def test_where_nobody_is_named_the_bus_ids_tell(analyzed, text):
    (finding,) = found(analyzed(job(text, ["7000", "f000", "47000", "47000"])), SLUG)
    assert (finding.ranks, finding.hosts) == ((2, 3), ("gpu1",))


@pytest.mark.parametrize("text", UNNAMED)
def test_one_bus_id_on_two_hosts_is_no_sharing(analyzed, text):
    hosts = ["gpu1", "gpu1", "gpu2", "gpu2"]
    files = job(text, ["7000", "7000", "7000", "f000"], hosts)
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((0, 1), ("gpu1",))


@pytest.mark.parametrize("text", UNNAMED)
def test_without_init_lines_nobody_can_be_named(analyzed, text):
    files = {f"rank_{r}.log": warn(f"gpu{r}", text) for r in (0, 1)}
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((), ())


def test_ranks_of_a_smaller_communicator_are_translated(analyzed):
    whole = {
        r: init("gpu1", r, 4, "COMPLETE", pid=40 + r, bus=f"{r}000") for r in range(4)
    }
    for inner, rank in enumerate((2, 3)):
        pid = 40 + rank
        whole[rank] += init("gpu1", inner, 2, "START", pid=pid, comm="0xdef")
        whole[rank] += warn("gpu1", NAMED.format(inner, 1 - inner, "7000"), pid=pid)
    files = {f"rank_{r}.log": text for r, text in whole.items()}
    (finding,) = found(analyzed(files), SLUG)
    assert finding.ranks == (2, 3)


def test_sharing_on_purpose_is_healthy(analyzed):
    files = {
        f"rank_{r}.log": init("gpu1", r, 2, phase, pid=40 + r)
        for r in (0, 1)
        for phase in ("START", "COMPLETE")
    }
    analysis = analyzed(files)
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


def aborted(host, rank, bus, pid, nranks=2):
    return info(
        host,
        f"comm 0x55{pid} rank {rank} nranks {nranks} cudaDev 0 busId {bus} - Abort COMPLETE",
        pid=pid,
    )


def test_ranks_that_aborted_on_one_gpu_are_named_without_nccls_line(analyzed):
    text = aborted("gpu1", 0, "86000", 41) + aborted("gpu1", 1, "86000", 42)
    (finding,) = found(analyzed({"job.log": text}), SLUG)
    assert (finding.ranks, finding.hosts) == ((0, 1), ("gpu1",))
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    "text",
    [
        aborted("gpu1", 0, "86000", 41) + aborted("gpu1", 1, "c6000", 42),
        aborted("gpu1", 0, "86000", 41) + aborted("gpu2", 1, "86000", 42),
        aborted("gpu1", 0, "86000", 41) + aborted("gpu1", 0, "86000", 42),
        aborted("gpu1", 0, "86000", 41) + aborted("gpu1", 1, "86000", 42, nranks=4),
        init("gpu1", 0, 2, pid=41, bus="86000")
        + init("gpu1", 1, 2, pid=42, bus="86000")
        + aborted("gpu1", 0, "86000", 41)
        + aborted("gpu1", 1, "86000", 42),
    ],
    ids=["two GPUs", "two hosts", "one rank twice", "two sizes", "complete"],
)
def test_aborts_that_show_no_sharing_name_nobody(analyzed, text):
    assert not found(analyzed({"job.log": text}), SLUG)
