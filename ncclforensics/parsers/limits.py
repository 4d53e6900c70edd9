"""How much of one source is parsed, and what parsing it may cost.

Every number that guards a parser against evidence that is huge by accident or by malice
stands here, as those of the stage before stand in sources/limits.py. They are far above
what real jobs leave behind; where one is reached, a note says so.
"""

from __future__ import annotations

# bytes of a Flight Recorder dump; one of 100,000 calls with stacks has some 60 MB
MAX_BYTES = 256 * 1024**2

# entries of a dump; a ring of 100,000 calls is a large one, and the newest are kept
MAX_ENTRIES = 500_000

# what loading one pickle may add to the process; a dump of 100,000 calls takes a third
HEADROOM_BYTES = 1024**3

# seconds of a processor that loading a pickle may take, and what it loads in each more;
# the slowest machines load ten times as much
LOAD_SECONDS = 2
LOAD_BYTES_PER_SECOND = 8 * 1024**2

# opcodes of a damaged pickle, at some 2 us each; 50,000 calls with stacks have as many
MAX_OPCODES = 5_000_000

# tensors of one column of a dump, all entries together; 2,000 coalesced calls of 500
# tensors have half of it
MAX_TENSORS = 2_000_000

# characters of a name in a dump's entry, torch's and NCCL's own, and dimensions of a
# tensor: torch has 64 at most
MAX_NAME = 512
MAX_DIMENSIONS = 64

# longer texts are cut where they are shown alone; a C++ frame may have 2,000 characters
MAX_TEXT = 8_192

# frames of a stack: the innermost ones are kept, a recursion has no more to say
MAX_FRAMES = 512

# groups of one dump, those of its entries as well, and the members of all together
MAX_GROUPS = 100_000
MAX_MEMBERS = 2_000_000

# a rank, a number of ranks, or a count beyond is damage; the largest jobs have some
# hundred thousand ranks, and to explain that many takes tens of seconds
MAX_RANK = 2**19
MAX_SEQ = 2**40

# nanoseconds since 1970, from 1900 to 2200: what a clock may show. A column ends in
# 2262, and what is added to a time that lies there has none to go to
MIN_TIME = -2_208_988_800 * 10**9
MAX_TIME = 7_258_118_400 * 10**9

# milliseconds that something took, by a log; some 34 years
MAX_MS = 2**40

# bytes of an error file, whose call stack is some kilobytes, and of ncclras' JSON, with
# some hundred for each member of each communicator
MAX_ERROR_BYTES = 16 * 1024**2
MAX_RAS_BYTES = 256 * 1024**2

# characters of one line of a log that are looked at
MAX_LINE = 1024**2

# bytes of a line from which on each state of a progress bar in it counts as a line
MAX_REDRAWN = 64 * 1024

# bytes of lines that are kept to look ahead, for what stands under a message
MAX_HELD_BYTES = 16 * 1024**2

# messages with an inner structure that are read in one block of lines, and the rows
# that they give in one file: a report on a thousand ranks has some thousand
MAX_STRUCTURES = 20_000
MAX_STRUCTURE_ROWS = 512 * 1024

# characters of all structures in one file that pyparsing reads, at some 2 us each; what
# the watchdogs of a thousand ranks print has some ten million
MAX_PARSED_CHARACTERS = 24 * 1024**2

# lines and characters of one inner structure, pyparsing's cost grows with the text: a
# traceback of some hundred frames, a desync report of a large group stay below these
MAX_STRUCTURE_LINES = 2000
MAX_STRUCTURE_CHARACTERS = 256 * 1024

# two fingerprints of many tensors have 3 or 4 KiB
MAX_FINGERPRINT = 16 * 1024

# ranks of one folded set, `0-1023`; a wider one is no set of ranks of a job
MAX_RANKS = 1 << 18

# what reading one share of a dataset may add to the process that does; one of 1,024
# dumps of 2,000 calls takes a third. Its time is what loading so much of a pickle may
# take
MAX_SHARE_BYTES = 4 * 1024**3
