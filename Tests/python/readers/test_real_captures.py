"""Captures of real phones, which cannot be redistributed: those in the folder that TAKESET_CAPTURES names, for `make test-loaders`."""

import json
import os
from pathlib import Path

import pytest
from outputs import codes, manifest

FOLDER = os.environ.get("TAKESET_CAPTURES")
pytestmark = [pytest.mark.loaders, pytest.mark.skipif(not FOLDER, reason="TAKESET_CAPTURES names no folder of captures")]
# What a format that is understood has no reason to report.
WRONG = {"geometry-contradictory", "intrinsics-implausible", "image-size-changed", "depth-count-mismatch", "poses-unsorted", "internal"}


@pytest.fixture(scope="module")
def dataset(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("captures")
    done = takeset("run", Path(FOLDER), "--output", root / "set", "--progress", "none")
    assert done.returncode == 0, done.stderr
    return root / "set"


def test_every_capture_is_written_with_most_of_its_frames(dataset):
    for entry in manifest(dataset)["record"]["takes"]:
        assert entry["outcome"] == "written", (entry["id"], entry["reason"])
        first, last = entry["steps"][0], entry["steps"][-1]
        assert last["frames_out"] > 0.9 * first["frames_in"], (entry["id"], entry["reader"], codes(entry))
        assert not WRONG & set(codes(entry)), (entry["id"], codes(entry))


def test_depth_agrees_with_the_poses(takeset, dataset):
    done = takeset("verify", "--for", "geometry", dataset, "--json")
    wrong = [one for one in json.loads(done.stdout)["diagnoses"] if one["code"] == "geometry-contradictory"]
    assert not wrong, wrong


def test_the_dataset_is_whole(takeset, dataset):
    assert takeset("verify", dataset).returncode == 0
