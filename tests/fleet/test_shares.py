"""What a node sends is not trusted, and two shares never mix."""

import io
import json
import tarfile

import pytest

from ncclforensics.fleet import shares
from ncclforensics.fleet.nodes import Node
from ncclforensics.fleet.shares import Shares


def info(name, kind=tarfile.REGTYPE, data=b"", link=""):
    told = tarfile.TarInfo(name)
    told.type, told.size, told.linkname, told.mtime = kind, len(data), link, 1.7e9
    return told, data


def packed(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for told, data in members:
            archive.addfile(told, io.BytesIO(data))
    return out.getvalue()


def take(into, data, name="node"):
    return Shares(into).take(Node(name), io.BytesIO(data))


def files(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_a_share_lies_under_its_host_with_its_times(tmp_path):
    data = packed(
        info("gpu1/logs/a", data=b"one"), info("gpu1/manifest.json", data=b"{}")
    )
    got = take(tmp_path, data)
    assert (got.host, got.files, got.why) == ("gpu1", 2, "")
    assert files(tmp_path) == {"gpu1/logs/a": b"one", "gpu1/manifest.json": b"{}"}
    assert (tmp_path / "gpu1/logs/a").stat().st_mtime == 1.7e9


@pytest.mark.parametrize(
    "member",
    [
        info("/etc/cron.d/evil", data=b"x"),
        info("gpu1/../../evil", data=b"x"),
        info("../evil", data=b"x"),
        info("gpu1/link", tarfile.SYMTYPE, link="/etc/passwd"),
        info("gpu1/hard", tarfile.LNKTYPE, link="gpu1/a"),
        info("gpu1/pipe", tarfile.FIFOTYPE),
        info("gpu1/device", tarfile.CHRTYPE),
    ],
)
def test_nothing_lands_outside_and_no_link_comes_in(tmp_path, member):
    into = tmp_path / "in" / "all"
    got = take(into, packed(info("gpu1/a", data=b"a"), member))
    assert "refused" in got.why
    assert files(tmp_path) == {"in/all/gpu1/a": b"a"}
    assert not any(f.is_symlink() for f in tmp_path.rglob("*"))


def test_a_link_that_a_share_brings_is_not_followed_by_the_next_member(tmp_path):
    data = packed(
        info("gpu1/out", tarfile.SYMTYPE, link=str(tmp_path)),
        info("gpu1/out/evil", data=b"x"),
    )
    take(tmp_path / "all", data)
    assert files(tmp_path) == {"all/gpu1/out/evil": b"x"}


def test_a_share_without_end_stops_at_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(shares, "SHARE_BYTES", 1 << 20)
    data = packed(info("gpu1/big", data=bytes(3 << 20)), info("gpu1/z", data=b"z"))
    got = take(tmp_path, data)
    assert "without end" in got.why
    assert (tmp_path / "gpu1/big").stat().st_size == 1 << 20


def test_of_a_cut_share_what_came_is_kept(tmp_path):
    data = packed(info("gpu1/a", data=b"a" * 1000), info("gpu1/b", data=b"b" * 9000))
    got = take(tmp_path, data[:3000])
    assert got.why
    assert files(tmp_path)["gpu1/a"] == b"a" * 1000


def test_what_is_no_tar_brings_nothing(tmp_path):
    got = take(tmp_path, b"Welcome to gpu1!\n" * 100)
    assert (got.files, files(tmp_path)) == (0, {})
    assert got.why


def manifest(boot):
    return info("gpu1/manifest.json", data=json.dumps({"machine": boot}).encode())


def test_one_machine_by_two_names_is_taken_once_and_two_of_one_name_twice(tmp_path):
    into = Shares(tmp_path)
    into.take(Node("gpu1"), io.BytesIO(packed(manifest("a"))))
    again = into.take(Node("alias"), io.BytesIO(packed(manifest("a"))))
    other = into.take(Node("other"), io.BytesIO(packed(manifest("b"))))
    into.close()
    assert (again.is_again, again.files, again.why) == (
        True,
        0,
        "is gpu1, which has answered",
    )
    assert (other.is_again, other.files) == (False, 1)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["gpu1", "other"]


def test_the_name_of_a_host_cannot_lead_out(tmp_path):
    data = packed(info(".../a", data=b"a"))
    take(tmp_path / "all", data, name="..")
    assert list(files(tmp_path).values()) == [b"a"]
    assert all(name.startswith("all/_") for name in files(tmp_path))
