"""Limits on how much of one source is parsed and what parsing may cost.

They protect parsers from input that is huge by accident or by malice; the limits of
discovery are in sources/limits.py. They are far above what real jobs produce. A parser
that hits one leaves a note.
"""

from __future__ import annotations

# bytes of a Flight Recorder dump; 100,000 calls with stacks take about 60 MB
MAX_BYTES = 256 * 1024**2

# entries of a dump, the newest are kept; a ring buffer of 100,000 entries is large
MAX_ENTRIES = 500_000

# bytes that loading one pickle may add to the process; 100,000 calls take a third
HEADROOM_BYTES = 1024**3

# CPU seconds that loading a pickle may take: a base, plus a second per so many bytes;
# the slowest machines load ten times as much per second
LOAD_SECONDS = 2
LOAD_BYTES_PER_SECOND = 8 * 1024**2

# opcodes of a damaged pickle, about 2 us each; 50,000 calls with stacks have that many
MAX_OPCODES = 5_000_000

# tensors in one column of a dump, over all entries; 2,000 coalesced calls of 500
# tensors have half that many
MAX_TENSORS = 2_000_000

# characters of a name in a dump entry (torch's or NCCL's), and dimensions of a tensor:
# torch allows 64
MAX_NAME = 512
MAX_DIMENSIONS = 64

# characters of a free-standing text, truncated beyond; a C++ frame may have 2,000
MAX_TEXT = 8_192

# frames of a stack: the innermost are kept, the rest adds nothing in a recursion
MAX_FRAMES = 512

# process groups of one dump, including those named by its entries, and their members
# in total
MAX_GROUPS = 100_000
MAX_MEMBERS = 2_000_000

# Ranks, world sizes and sequence numbers beyond these are damage. The largest jobs have
# about a hundred thousand ranks, and analyzing that many takes tens of seconds.
MAX_RANK = 2**19
MAX_SEQ = 2**40

# Plausible clock values, in nanoseconds since 1970: from 1900 to 2200. A nanosecond
# column ends in 2262, so adding to a time close to that would overflow.
MIN_TIME = -2_208_988_800 * 10**9
MAX_TIME = 7_258_118_400 * 10**9

# a duration in a log, in milliseconds; about 34 years
MAX_MS = 2**40

# bytes of an error file (its call stack takes kilobytes), and of ncclras JSON (some
# hundred bytes per member of each communicator)
MAX_ERROR_BYTES = 16 * 1024**2
MAX_RAS_BYTES = 256 * 1024**2

# characters of one log line that are read
MAX_LINE = 1024**2

# bytes of a line above which each state of a progress bar in it counts as a line
MAX_REDRAWN = 64 * 1024

# bytes of lines held for look-ahead, to find what belongs under a message
MAX_HELD_BYTES = 16 * 1024**2

# messages with an inner structure that are parsed in one block of lines, and the rows
# that they may yield per file: a report on a thousand ranks has a few thousand
MAX_STRUCTURES = 20_000
MAX_STRUCTURE_ROWS = 512 * 1024

# characters that pyparsing reads in one file, over all structures, about 2 us each; the
# watchdogs of a thousand ranks print about ten million
MAX_PARSED_CHARACTERS = 24 * 1024**2

# Lines and characters of one inner structure: pyparsing's cost grows with the text. A
# traceback of a few hundred frames or a desync report of a large group is smaller.
MAX_STRUCTURE_LINES = 2000
MAX_STRUCTURE_CHARACTERS = 256 * 1024

# characters of a mismatch report; two fingerprints of many tensors take 3 or 4 KiB
MAX_FINGERPRINT = 16 * 1024

# ranks of one folded set such as `0-1023`; a wider one is not a rank set of a job
MAX_RANKS = 1 << 18

# Bytes that reading one share of a dataset may add to its process; a share of 1,024
# dumps of 2,000 calls takes a third. Its time limit is that of a pickle of equal size.
MAX_SHARE_BYTES = 4 * 1024**3
