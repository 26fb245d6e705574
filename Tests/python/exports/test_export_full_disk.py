"""Exports to a disk that is full at any one write."""

import pytest
from export_checks import check_each_write
from geometry_oracle import steps_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dataset(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    takeset.simulate(root / "in", "--variant", "v2", "--seconds", 0.05, "--size", "32x24")
    takeset.convert(root / "in", output=root / "set", arguments=steps_file(root, {"actions": {"kind": "absolute-quat", "joints": "absolute"}}))
    return root / "set"


@pytest.mark.parametrize("form, options, writes", [
    ("aloha", [], 10), ("mcap", [], 10), ("webdataset", ["--shard-rows", 2], 10), ("zarr", [], 15), ("zarr", ["--zip"], 15),
])
def test_what_is_left_is_whole_or_nothing(takeset, failing_write, dataset, tmp_path, form, options, writes):
    assert check_each_write(takeset, failing_write, dataset, form, tmp_path, *options) > writes
