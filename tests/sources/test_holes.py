"""Files of which next to nothing was written, and those that were made larger."""

import errno
import os

import pytest

from ncclforensics.sources import compression, limits


def test_a_file_of_holes_is_refused_and_one_with_some_is_read(tmp_path, monkeypatch):
    hollow = tmp_path / "rank_0.log"
    hollow.write_text("a line\n")
    os.truncate(hollow, 1 << 40)
    with pytest.raises(OSError, match="next to nothing"):
        compression.open_file(hollow, None)
    # what was set aside for a log to grow into
    partly = tmp_path / "rank_1.log"
    partly.write_text("a line\n" * 50_000)
    os.truncate(partly, 2 * 350_000)
    monkeypatch.setattr(limits, "RATIO_FREE_BYTES", 1000)
    with compression.open_file(partly, None) as stream:
        assert stream.read(6) == b"a line"


def test_where_a_file_system_does_not_tell_of_holes_its_files_are_read(
    tmp_path, monkeypatch
):
    file = tmp_path / "rank_0.log"
    file.write_text("a line\n" * 1000)
    seek = os.lseek

    def refused(descriptor, offset, whence):
        if whence == os.SEEK_DATA:
            raise OSError(errno.EINVAL, "not supported")
        return seek(descriptor, offset, whence)

    monkeypatch.setattr(limits, "RATIO_FREE_BYTES", 1000)
    monkeypatch.setattr(os, "lseek", refused)
    with compression.open_file(file, None) as stream:
        assert stream.read(6) == b"a line"
