"""Files and folders that the kernel itself refuses, to root without its privilege too."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
COMMAND = [sys.executable, "-m", "ncclforensics", "analyze", "--no-cache", "-f", "json"]
PR_CAPBSET_DROP, READS_ALL = 24, (1, 2)  # of prctl.h and capability.h


def unprivileged() -> None:
    """Give up, for what is executed next, root's right to read whatever there is."""
    if os.getuid() == 0:
        for capability in READS_ALL:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="root's rights are Linux' own")
def test_files_and_folders_without_permission_are_noted(tmp_path):
    shutil.copytree(JOBS / "torch-missing-rank-two-hosts" / "evidence", tmp_path / "e")
    file = sorted((tmp_path / "e" / "fr").iterdir())[1]
    file.chmod(0)
    closed, unentered = tmp_path / "e" / "closed", tmp_path / "e" / "unentered"
    for folder, mode in ((closed, 0), (unentered, 0o644)):
        folder.mkdir()
        (folder / "rank_9.log").write_text("step 1\n")
        folder.chmod(mode)
    try:
        done = subprocess.run(
            [*COMMAND, tmp_path / "e"], capture_output=True, preexec_fn=unprivileged
        )
    finally:
        closed.chmod(0o755)
        unentered.chmod(0o755)
    assert (done.returncode, done.stderr) == (0, b"")
    report = json.loads(done.stdout)
    notes = {note["source"]: note["text"] for note in report["notes"]}
    refused = [name for name, text in notes.items() if "Permission denied" in text]
    assert set(refused) == {f"fr/{file.name}", "closed", "unentered/rank_9.log"}
    assert len(report["sources"]) > len(refused)
