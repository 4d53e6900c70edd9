"""Every message of every grammar holds against its own samples and look-alikes."""

import pytest

from ncclforensics.model.errors import UsageError
from ncclforensics.parsers.logs import grammar, grammar_check

FILES = sorted(grammar.grammar_folder().glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_sample_is_its_own_message_and_no_other(file):
    assert grammar_check.check_file(file) == []


def test_a_package_without_grammars_says_so(tmp_path):
    with pytest.raises(UsageError, match="no grammar is in"):
        grammar.load(tmp_path)
