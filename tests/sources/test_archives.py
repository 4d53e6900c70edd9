"""Archives by content: members in, nothing out of place, nothing without end."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib

import pytest
import zstandard

from ncclforensics.sources import discover, limits

LINES = {"a/rank_0.log": b"line 0\n" * 50, "a/rank_1.log": b"line 1\n" * 50}
PACKERS = {
    "none": lambda data: data,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": zstandard.compress,
}


def _tar(members, form=tarfile.PAX_FORMAT):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                (info.type,), info.linkname = content, "/etc/passwd"
                tar.addfile(info)
    return packed.getvalue()


def _zip(members, method=zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def found(tmp_path):
    def find(content, name="logs.bin"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
        return discover([str(tmp_path / "in")], tmp_path / "scratch")

    return find


def _read(discovery):
    return {
        s.name.removeprefix("logs.bin!"): s.open().read() for s in discovery.sources
    }


@pytest.mark.parametrize("packer", PACKERS)
def test_a_tar_is_opened_whatever_its_name(found, packer):
    discovery = found(PACKERS[packer](_tar(LINES)))
    assert _read(discovery) == LINES
    assert [s.rank for s in discovery.sources] == [0, 1]
    assert not discovery.notes


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_is_opened(found, method):
    discovery = found(_zip(LINES, method))
    assert _read(discovery) == LINES
    assert not discovery.notes


def test_one_archive_in_another_is_opened_a_third_only_listed(found):
    third = _zip({"deep.log": b"x\n"})
    second = gzip.compress(_tar({"in.log": b"y\n", "third.zip": third}))
    discovery = found(_zip({"second.tgz": second}))
    kinds = {s.name.removeprefix("logs.bin!"): s.kind for s in discovery.sources}
    assert kinds == {"second.tgz!in.log": "log", "second.tgz!third.zip": "archive"}
    assert "not opened" in discovery.notes[0].text


def test_compressed_members_are_read_through(found):
    discovery = found(_tar({"rank_5.log.gz": gzip.compress(b"line\n")}))
    (source,) = discovery.sources
    assert (source.rank, source.compression) == (5, "gzip")
    assert source.open().read() == b"line\n"


def test_members_that_would_land_elsewhere_are_refused(found, tmp_path):
    evil = {"../up.log": b"x", "/abs.log": b"x", "a/../../b.log": b"x", "ok.log": b"y"}
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    for content in (_tar(evil), _zip(evil)):
        discovery = found(content)
        assert _read(discovery) == {"ok.log": b"y"}
        assert len(discovery.notes) == 3
        assert all("refused" in note.text for note in discovery.notes)
    written = {p for p in tmp_path.rglob("*") if p.is_file()} - before
    assert {p.name for p in written} <= {"logs.bin", "000001"}


def test_links_and_devices_in_a_tar_are_refused(found):
    odd = {"l": [tarfile.SYMTYPE], "h": [tarfile.LNKTYPE], "d": [tarfile.CHRTYPE]}
    discovery = found(_tar({**odd, "p": [tarfile.FIFOTYPE], "ok.log": b"y"}))
    assert _read(discovery) == {"ok.log": b"y"}
    assert sorted(note.source for note in discovery.notes) == [
        f"logs.bin!{name}" for name in "dhlp"
    ]


def test_links_and_encrypted_members_of_a_zip_are_refused(found):
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("secret", "x")
        archive.writestr("ok.log", "y")
    content = bytearray(packed.getvalue())
    content[content.rfind(b"PK\x01\x02", 0, content.rfind(b"secret")) + 8] |= 1
    discovery = found(bytes(content))
    assert _read(discovery) == {"ok.log": b"y"}
    assert sorted(note.text for note in discovery.notes) == [
        "refused: it is a link",
        "refused: it is encrypted",
    ]


@pytest.mark.parametrize("packer", PACKERS)
def test_a_cut_tar_keeps_what_lies_before_the_cut(found, packer):
    members = {
        f"{n}.log": bytes(zlib.crc32(b"%d" % (n * i)) % 90 + 32 for i in range(3000))
        for n in range(1, 9)
    }
    packed = PACKERS[packer](_tar(members))
    discovery = found(packed[: len(packed) * 2 // 3])
    kept = _read(discovery)
    assert discovery.notes
    if packer in ("none", "gzip", "xz"):  # the others' blocks hold the whole archive
        assert kept["1.log"] == members["1.log"]
    assert all(
        members[name].startswith(part) for name, part in kept.items() if name in members
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_cut_zip_keeps_what_lies_before_the_cut(found, method):
    members = {"1.log": b"one\n" * 99, "../x": b"no\n", "2.log": b"two\n" * 99}
    packed = _zip({**members, "3.log": bytes(range(32, 127)) * 99}, method)
    discovery = found(packed[: packed.find(b"3.log") + 30])
    kept = _read(discovery)
    assert kept["1.log"] == members["1.log"]
    assert kept["2.log"] == members["2.log"]
    assert "../x" not in kept
    assert discovery.notes


def test_a_streamed_zip_that_is_cut_is_read_as_well(found):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def tell(self):
            raise OSError

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in LINES.items():
            archive.writestr(name, content)
    packed = pipe.getvalue()
    assert _read(found(packed[: packed.rfind(b"PK\x01\x02") - 60])) == LINES


def test_an_archive_without_end_is_left(found, monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNPACKED_BYTES", 10_000)
    bomb = {"first.log": b"line\n" * 100, "bomb": bytes(10**6), "late.log": b"x\n"}
    for content in (gzip.compress(_tar(bomb)), _zip(bomb)):
        discovery = found(content)
        kept = _read(discovery)
        assert kept["first.log"] == bomb["first.log"]
        assert sum(map(len, kept.values())) <= 10_000
        assert "late.log" not in kept
        assert any("unpacks without end" in note.text for note in discovery.notes)


def test_too_many_members_are_left(found, monkeypatch):
    monkeypatch.setattr(limits, "MAX_MEMBERS", 5)
    many = {f"{n}.log": b"x\n" for n in range(9)}
    for content in (_tar(many), _zip(many)):
        discovery = found(content)
        assert len(discovery.sources) == 5
        assert "unpacks without end" in discovery.notes[0].text


def test_a_ratio_beyond_reason_is_a_bomb(found, monkeypatch):
    monkeypatch.setattr(limits, "RATIO_FREE_BYTES", 10_000)
    monkeypatch.setattr(limits, "MAX_RATIO", 50)
    (source,) = found(gzip.compress(bytes(10**6))).sources
    reader = source.open()
    assert len(reader.read()) < 10**6
    assert reader.damage == "gzip: it unpacks without end"
    discovery = found(_zip({"bomb": bytes(10**6)}))
    assert any("unpacks without end" in note.text for note in discovery.notes)


def test_a_huge_tar_header_is_not_read_into_memory(found):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 10**11
    header = info.tobuf(tarfile.GNU_FORMAT)
    discovery = found(_tar({"a.log": b"x\n"})[:1024] + header + bytes(5000))
    assert _read(discovery) == {"a.log": b"x\n"}
    assert "cut or damaged" in discovery.notes[0].text


def test_the_later_of_two_members_of_one_name_is_kept(found):
    first, second = _tar({"a.log": b"old\n"}), _tar({"./a.log": b"new\n"})
    discovery = found(first[:1024] + second)
    assert _read(discovery) == {"a.log": b"new\n"}
    assert "twice" in discovery.notes[0].text


def test_a_zip_of_another_program_is_no_evidence(found):
    discovery = found(
        _zip({"archive/data.pkl": b"\x80\x02}.", "archive/version": b"3"})
    )
    (source,) = discovery.sources
    assert (source.kind, source.why) == ("unknown", "zip archive: a torch checkpoint")


def test_an_archive_that_gives_nothing_is_listed(found):
    (source,) = found(_zip({})).sources
    assert source.kind == "archive"
