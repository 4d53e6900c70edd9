"""`python -m ncclforensics.collect`."""

from __future__ import annotations

import sys

from ncclforensics.collect.node import main

sys.exit(main())
