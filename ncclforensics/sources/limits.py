"""How much of the evidence is looked at, and where unpacking ends.

Every number that guards against evidence that is huge by accident or by malice stands
here. They are far above what real jobs leave behind, and far below a full disk.
"""

from __future__ import annotations

# what a file's kind is decided from: its first bytes and, where useful, its last
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 4 * 1024

# bytes written to scratch for all archives and stdin of one analysis together
MAX_UNPACKED_BYTES = 16 * 1024**3

# bytes that one compressed file gives before it counts as endless
MAX_STREAM_BYTES = 16 * 1024**3

# members taken out of all archives of one analysis together
MAX_MEMBERS = 100_000

# unpacked bytes per packed byte; deflate cannot pass 1032, real logs stay below 200
MAX_RATIO = 1000

# below this many unpacked bytes the ratio is not asked: some blanks are no bomb
RATIO_FREE_BYTES = 64 * 1024**2

# characters of a member's path: no longer one can be opened on Linux
MAX_PATH = 4096

# digits of a number in a path, all of which are ranks, pids or counts of restarts
MAX_DIGITS = 9

# archives inside archives: one inside another is opened, a third is only listed
MAX_DEPTH = 2

# a tar header's own payload (a long name, pax records), which tarfile holds in memory
MAX_HEADER_BYTES = 1024**2

# packed bytes fed to a decoder at once: at most about 128 MiB come back (zstd)
FEED_BYTES = 4 * 1024

# bytes moved at once when a member is written to scratch
COPY_BYTES = 1024**2

# memory that a compressed file may demand for its dictionary
MAX_WINDOW_BYTES = 512 * 1024**2
