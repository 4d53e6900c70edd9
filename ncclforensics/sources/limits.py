"""Limits on discovery and unpacking.

They protect against evidence that is huge by accident or by malice. They are far above
what real jobs produce, and far below a full disk.
"""

from __future__ import annotations

# first bytes, and if useful last bytes, from which a file's kind is decided
HEAD_BYTES = 64 * 1024
TAIL_BYTES = 4 * 1024

# bytes written to scratch for all archives and stdin of one analysis
MAX_UNPACKED_BYTES = 16 * 1024**3

# decompressed bytes of one file above which it counts as endless
MAX_STREAM_BYTES = 16 * 1024**3

# members unpacked from all archives of one analysis
MAX_MEMBERS = 100_000

# unpacked bytes per packed byte; deflate cannot pass 1032, real logs stay below 200
MAX_RATIO = 1000

# below this many unpacked bytes the ratio is not checked: a few blanks are not a bomb
RATIO_FREE_BYTES = 64 * 1024**2

# characters of a member's path: Linux cannot open longer ones
MAX_PATH = 4096

# digits of a number in a path: a rank, a pid or a restart count
MAX_DIGITS = 9

# nesting of archives: one inside another is opened, a third level is only listed
MAX_DEPTH = 2

# payload of a tar header (a long name, pax records), which tarfile holds in memory
MAX_HEADER_BYTES = 1024**2

# packed bytes fed to a decoder at once: the output is at most about 128 MiB (zstd)
FEED_BYTES = 4 * 1024

# bytes copied at once when a member is written to scratch
COPY_BYTES = 1024**2

# memory that a compressed file may request for its dictionary
MAX_WINDOW_BYTES = 512 * 1024**2
