"""host-fault needs an error that nothing corrected, on the host of who was lost."""

import shutil
from pathlib import Path

import pytest

from log_lines import found, init, kernel, timeout, traceback, verdict
from ncclforensics.analysis import analyze

JOB = init(0, 2, pid=500) + init(1, 2, "gpu0002", pid=501)
# rendered from the format strings of Linux: panic, print_mce, edac_mc_handle_error, …
PANIC = "Kernel panic - not syncing: Fatal machine check"
KILLED = "Memory failure: 0x3f1a2b0: Sending SIGBUS to python:{pid} due to hardware memory corruption"
BROKE = {
    "mce": "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be0000",
    "edac": "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    "bank": "EDAC skx MC1: CPU 4: Machine Check Event: 0 Bank 7: bd80000000100094",
    "ghes": "{1}[Hardware Error]: event severity: fatal",
    "lockup": "watchdog: Watchdog detected hard LOCKUP on cpu 12",
    "disk": "EXT4-fs (nvme0n1p2): Remounting filesystem read-only",
    "amd": "[Hardware Error]: Uncorrected, software restartable error.",
    "journal": "Aborting journal on device nvme0n1p2-8.",
    "nvme": "nvme nvme0: Disabling device after reset failure: -19",
    "xfs": "XFS (nvme1n1): Log I/O Error (0x2) detected at a+0x66/0x70 [xfs] (a.c:1).  "
    "Shutting down filesystem.",
    "oops": "BUG: kernel NULL pointer dereference, address: 0000000000000008",
}
CORRECTED = {
    "mce": "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 9: 8c00004000010090",
    "edac": "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    "bank": "EDAC skx MC1: CPU 4: Machine Check Event: 0 Bank 7: cc00104000010090",
    "ghes": "{1}[Hardware Error]: event severity: corrected",
    "recovered": "{1}[Hardware Error]: event severity: recoverable",
    "amd": "[Hardware Error]: Deferred error, no action required.",
    "xfs": "XFS (nvme1n1): User initiated shutdown received. Shutting down filesystem",
    "soft": "watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:501]",
    "stall": "rcu: INFO: rcu_sched self-detected stall on CPU",
    "trap": "traps: python[501] general protection fault ip:7f00 sp:7f01 error:0",
}


def test_a_panic_names_the_host_and_its_ranks(analyzed):
    files = {"job.log": JOB + timeout(0), "console.log": kernel(PANIC, "gpu0002")}
    analysis = analyzed(files)
    assert verdict(analysis) == ("host-fault", (1,), ("gpu0002",))
    assert analysis.ranked.verdict.confidence == "certain"


def test_a_process_with_broken_memory_names_its_rank(analyzed):
    log = kernel(KILLED.format(pid=501), "gpu0002")
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log})
    assert verdict(analysis) == ("host-fault", (1,), ("gpu0002",))


@pytest.mark.parametrize("form", BROKE)
def test_an_error_on_the_awaited_ranks_host_is_the_cause(analyzed, form):
    log = kernel(BROKE[form], "gpu0002")
    files = {"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log}
    assert verdict(analyzed(files)) == ("host-fault", (1,), ("gpu0002",))


@pytest.mark.parametrize("form", BROKE)
def test_an_error_on_another_host_changes_no_verdict(analyzed, form):
    own = traceback(1, "ValueError: loss is nan")
    log = kernel(BROKE[form], "gpu0001")
    analysis = analyzed({"job.log": JOB + own + timeout(0), "dmesg-gpu0001.log": log})
    assert verdict(analysis) == ("crashed-rank", (1,), ("gpu0002",))


@pytest.mark.parametrize("form", CORRECTED)
def test_what_was_corrected_is_no_fault(analyzed, form):
    log = kernel(CORRECTED[form], "gpu0002")
    files = {"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log}
    assert not found(analyzed(files), "host-fault")


def test_a_panic_of_another_day_is_not_this_jobs(analyzed):
    log = kernel(PANIC, "gpu0002").replace("Aug 20", "Aug 12")
    analysis = analyzed({"job.log": JOB + timeout(0), "console.log": log})
    assert not found(analysis, "host-fault")


SEL = "  1a | 08/{day}/2026 | 10:08:00 | Memory #0x53 | {event} | Asserted\n"


@pytest.mark.parametrize(
    ("day", "event", "named"),
    [("20", "Uncorrectable ECC", 1), ("20", "Correctable ECC", 0), ("02", "IERR", 0)],
)
def test_the_event_log_counts_at_the_time_of_the_failure(analyzed, day, event, named):
    log = SEL.format(day=day, event=event)
    stamped = "2026-08-20 10:00:00,000 rank 0 of 2 is ready\n"
    files = {"job.log": stamped + JOB + timeout(0), "sel-gpu0002.txt": log}
    assert len(found(analyzed(files), "host-fault")) == named


FIXTURES = Path(__file__).parents[1] / "fixtures" / "jobs"


def test_a_job_that_took_no_harm_stays_healthy(tmp_path):
    shutil.copytree(FIXTURES / "torch-healthy" / "evidence", tmp_path / "e")
    (tmp_path / "e" / "dmesg-gpu0001.txt").write_text(
        f"[ 1843.305512] {BROKE['edac']}\n"
    )
    assert analyze([str(tmp_path / "e")]).ranked.outcome == "no-failure"


def test_a_kernel_log_alone_is_of_the_host_in_question(analyzed):
    line = "[ 1843.305512] " + BROKE["edac"] + "\n"
    analysis = analyzed({"dmesg.txt": line})
    assert verdict(analysis)[:2] == ("host-fault", ())
    assert analysis.ranked.verdict.confidence == "likely"
    corrected = "[ 1843.305512] " + CORRECTED["edac"] + "\n"
    assert analyzed({"dmesg.txt": corrected}).ranked.verdict is None


def test_an_event_log_alone_is_of_the_host_in_question(analyzed):
    bad = SEL.format(day="20", event="Bus Uncorrectable error")
    told = analyzed({"sel.txt": bad}).ranked.verdict
    assert (told.slug, told.confidence) == ("host-fault", "likely")
    good = SEL.format(day="20", event="Correctable ECC")
    assert analyzed({"sel.txt": good}).ranked.verdict is None


DECODED = {
    "mcelog": "STATUS {} MCGSTATUS 5\n",
    "rasdaemon": "  <...>-12 [012] 0.000029: mce_record: bank=7, status= {}, {} error\n",
}


@pytest.mark.parametrize("form", DECODED)
def test_what_a_daemon_decoded_counts_as_the_kernels_own_words(analyzed, form):
    bad = DECODED[form].format("be00000000010090", "Uncorrected")
    good = DECODED[form].format("8c00004000010090", "Corrected")
    job = {"job.log": JOB + timeout(0)}
    named = analyzed(job | {"ras-gpu0002.txt": bad})
    assert verdict(named) == ("host-fault", (1,), ("gpu0002",))
    assert not found(analyzed(job | {"ras-gpu0002.txt": good}), "host-fault")


def test_a_stalled_processor_alone_is_no_clean_bill_of_health(analyzed):
    line = "[ 1843.305512] " + CORRECTED["stall"] + "\n"
    assert analyzed({"dmesg.txt": line}).ranked.outcome == "inconclusive"
