"""Leads the CUDA runtime inside a loaded libnccl to the stub's functions.

NCCL carries the CUDA runtime within itself, so no library put before it can stand in
for the runtime. The wheel keeps its symbol table, though: each runtime function that
the stub defines gets a jump to the stub's at its entry. NCCL's own code is untouched.
"""

import ctypes
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, FUNCTION = 2, 2
PAGE = mmap.PAGESIZE


def runtime_functions(library: Path) -> Iterator[tuple[str, int]]:
    """Name and offset of each ``cuda…`` function in the ELF file's symbol table."""
    with library.open("rb") as file:
        elf = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        (table_at,) = struct.unpack_from("<Q", elf, 40)
        entry_size, count = struct.unpack_from("<HH", elf, 58)
        headers = [
            SECTION_HEADER.unpack_from(elf, table_at + entry_size * i)
            for i in range(count)
        ]
        for _, kind, _, _, offset, size, link, *_ in headers:
            if kind != SYMTAB:
                continue
            names_at = headers[link][4]
            symbols = elf[offset : offset + size]
            for name, info, _, _, value, _ in SYMBOL.iter_unpack(symbols):
                if info & 15 != FUNCTION or not value:
                    continue
                start = names_at + name
                if elf[start : start + 4] == b"cuda":
                    yield elf[start : elf.find(b"\0", start)].decode(), value


def load_address(library: Path) -> int:
    """Where the process has mapped the first byte of the file."""
    for mapping in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, _, _, *path = mapping.split(None, 5)
        if path == [str(library)] and int(offset, 16) == 0:
            return int(span.split("-")[0], 16)
    raise LookupError(library)


def lead_to_stub(library: Path, stub: ctypes.CDLL) -> int:
    """Patch every runtime function that the stub defines; how many there were."""
    libc = ctypes.CDLL(None)
    base = load_address(library)
    patched = 0
    for name, offset in runtime_functions(library):
        replacement = getattr(stub, name, None)
        if replacement is None:
            continue
        target = ctypes.cast(replacement, ctypes.c_void_p).value or 0
        entry = base + offset
        page = entry & -PAGE
        everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(2 * PAGE), everything)
        jump = b"\xff\x25\0\0\0\0" + struct.pack("<Q", target)
        ctypes.memmove(entry, jump, len(jump))
        patched += 1
    return patched
