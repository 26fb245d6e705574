"""Datasets that the tests of training windows share."""

import pytest
from window_datasets import with_actions, with_holes


@pytest.fixture(scope="module")
def holes(tmp_path_factory, takeset, masters):
    return with_holes(tmp_path_factory.mktemp("holes"), takeset, masters)


@pytest.fixture(scope="module")
def acting(tmp_path_factory, takeset):
    return with_actions(tmp_path_factory.mktemp("acting"), takeset)
