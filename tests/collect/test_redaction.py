"""The same name, the same pseudonym, on every node that has the key."""

from ncclforensics.collect.redaction import KINDS, Redactor


def redactor(*kinds, key=b"key"):
    return Redactor(frozenset(kinds), key, {"gpu0001"}, {"alice"})


def test_each_kind_is_replaced_and_no_other():
    line = b"gpu0001 10.0.0.7 alice /home/alice/job/train.py"
    told = redactor("hosts").text(line)
    assert told.startswith(b"host-")
    assert told.endswith(line.partition(b" ")[2])
    assert b"10.0.0.7" not in redactor("ips").text(line)
    assert b"alice" not in redactor("users").text(line)
    assert redactor("paths").text(line).endswith(b"/train.py")
    everything = redactor(*KINDS).text(line)
    for name in (b"gpu0001", b"10.0.0.7", b"alice"):
        assert name not in everything


def test_a_host_that_differs_in_its_number_is_a_host():
    told = redactor("hosts").text(b"gpu0001 talks to gpu0002").split()
    assert told[0] != told[-1]
    assert told[-1].startswith(b"host-")


def test_the_key_decides():
    text = b"10.0.0.7"
    assert redactor("ips").text(text) == redactor("ips").text(text)
    assert redactor("ips").text(text) != redactor("ips", key=b"other").text(text)


def test_what_reveals_nobody_stays():
    line = b"/usr/lib/libnccl.so.2 127.0.0.1 12:34:56 2.27.5 fe80 root"
    assert redactor(*KINDS).text(line) == line
