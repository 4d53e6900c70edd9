"""x."""
from pathlib import Path
def make_samples(d: Path) -> None:
    """x."""
