"""Takes and datasets that the tests of the package share."""

import pytest
from package_datasets import takes
from window_datasets import with_actions, with_holes


@pytest.fixture(scope="session")
def source(tmp_path_factory, takeset):
    """Takes of several apps, one of which fails."""
    return takes(takeset, tmp_path_factory.mktemp("package-takes"))


@pytest.fixture(scope="module")
def holes(tmp_path_factory, takeset, masters):
    return with_holes(tmp_path_factory.mktemp("holes"), takeset, masters)


@pytest.fixture(scope="module")
def acting(tmp_path_factory, takeset):
    return with_actions(tmp_path_factory.mktemp("acting"), takeset)
