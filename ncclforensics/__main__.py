"""`python -m ncclforensics`."""

import sys

from ncclforensics.cli import main

sys.exit(main())
