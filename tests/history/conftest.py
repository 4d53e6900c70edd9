"""Stores of made-up incidents."""

import pytest

from ncclforensics.history import store


@pytest.fixture
def make(tmp_path):
    """Keep incidents in a new store, and return its folder."""

    def kept(*records):
        root = tmp_path / "store"
        for told in records:
            store.keep(root, told)
        return root

    return kept
