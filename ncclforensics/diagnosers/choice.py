"""Reads the names of failure classes that a person typed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from ncclforensics import diagnosers
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


def chosen(asked: str | Iterable[str]) -> frozenset[str]:
    """Parse class names, possibly comma-separated; UsageError on an unknown one."""
    many = [asked] if isinstance(asked, str) else asked
    named = [slug.strip() for text in many for slug in text.split(",")]
    return frozenset(known(slug) for slug in named)


def known(slug: str) -> str:
    """Return `slug` if it is a class; else UsageError that suggests similar ones."""
    if slug in diagnosers.CLASSES:
        return slug
    like = " or ".join(get_close_matches(slug, diagnosers.CLASSES, cutoff=0.5))
    hint = f"did you mean {like}? " if like else ""
    raise UsageError(f"no class {slug!r}; {hint}`ncclforensics classes` lists them")
