"""Packs a package of ours into one Python script that a node reads from stdin.

The script holds a zip, keeps it in a file of memory alone, and imports from there: on
the node nothing is installed or left behind, and it ends when nobody reads any more.
Packages that are sent import nothing but Python's standard library and themselves.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

OLDEST = (3, 9)
TOP = "ncclforensics"
START = """\
import sys
if sys.version_info < {oldest}:
    sys.exit("python3 is %d.%d here, {least} is needed" % sys.version_info[:2])
import base64, os, select, signal, threading
def watch():
    # nobody reads any more: the command that started this has ended
    reader = select.poll()
    reader.register(1, 0)
    reader.poll()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
held = os.memfd_create("ncclforensics")
with open(held, "wb", closefd=False) as memory:
    memory.write(base64.b85decode("{packed}"))
sys.path.insert(0, "/proc/self/fd/%d" % held)
from {entry} import main
sys.exit(main(sys.argv[1:]))
"""


def script(entry: str, *packages: str) -> bytes:
    """Return a script that runs `main(arguments)` of the module `entry` on a node.

    `packages` are those that it consists of.
    """
    least = ".".join(map(str, OLDEST))
    packed = base64.b85encode(_zipped(packages)).decode("ascii")
    text = START.format(oldest=OLDEST, least=least, packed=packed, entry=entry)
    return text.encode("ascii")


def _zipped(packages: Iterable[str]) -> bytes:
    """Return a zip of the Python files of packages; the same files, the same bytes."""
    files: dict[str, bytes] = {}
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        (place,) = spec.submodule_search_locations
        root = package.replace(".", "/")
        for file in sorted(Path(place).rglob("*.py")):
            files[f"{root}/{file.relative_to(place).as_posix()}"] = file.read_bytes()
        for above in list(Path(root).parents)[:-1]:
            # a package above is only a place: it would import what is not sent
            head = f'__version__ = "{__version__}"\n' if above.name == TOP else ""
            files.setdefault(f"{above}/__init__.py", head.encode())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


if __name__ == "__main__":
    sys.stdout.buffer.write(script(*sys.argv[1:]))
