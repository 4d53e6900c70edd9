"""Makes the helpers of this folder importable: tests are collected without a path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
