"""Fixtures for tests that import them: the preloaded decoders of `strange_decoder.c`, a batch with takes at which they are strange, and its dataset."""

import preloads
import pytest
from strange_takes import batch

library = preloads.library("strange_decoder")


@pytest.fixture(scope="module")
def takes(tmp_path_factory):
    return batch(tmp_path_factory.mktemp("strange") / "takes")


@pytest.fixture(scope="module")
def clean(takes, takeset, tmp_path_factory):
    """What a run makes of the takes if nothing strange happens."""
    output = tmp_path_factory.mktemp("clean") / "out"
    takeset.convert(takes, output=output)
    return output
