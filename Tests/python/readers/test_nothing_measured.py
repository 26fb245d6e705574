"""Takes in which nothing was measured although every file is there: poses that are all the identity, images that are all the same."""

import json

import numpy as np
import pytest
from conversions import Together
from outputs import codes, finding
from scans import OLD, session
from small_sessions import dumped, numbered_image, put
from small_sessions import session as small_session
from stack_sessions import v2

COUNT = 24
BLACK = numbered_image(0, 96, 48)


class Files:
    """A session of files by path."""

    def __init__(self, files):
        self.files = files

    def write(self, directory):
        put(directory, self.files)


def with_identity(variant):
    files = small_session(variant, count=COUNT)
    entries = [entry | {"transform": np.eye(4).tolist()} for entry in json.loads(files["poses.json"])]
    return Files(files | {"poses.json": dumped(entries)})


def scan_with_identity():
    found = session(count=COUNT)
    for row in found.rows:
        row.update(zip(OLD[2:], map(repr, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])))
    return found


def with_equal_images(count, of=COUNT):
    """The first images are all the same."""
    files = small_session("v1", count=of)
    return Files(files | {f"rgb/{number:06d}.jpg": BLACK for number in range(count)})


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {
        "v1": with_identity("v1"), "v2": with_identity("v2"), "scan": scan_with_identity(), "moving": v2(),
        "equal": with_equal_images(COUNT - 1), "half": with_equal_images(COUNT // 2), "few": with_equal_images(18, 18),
    }
    return Together(takeset, tmp_path_factory.mktemp("nothing"), found)


@pytest.mark.parametrize("name, file", [("v1", "poses.json"), ("v2", "poses.json"), ("scan", "odometry.csv")])
def test_placeholders_of_poses_are_not_written(takes, name, file):
    entry, demo, _ = takes[name]
    assert "pose" not in demo["obs"] and demo.attrs["num_samples"] == COUNT and "pose-repeated" not in codes(entry)
    found = finding(entry, "pose-unusable")
    assert found["file"] == file and "every pose is the identity" in found["message"]
    assert "pose" in takes["moving"][1]["obs"] and "pose-unusable" not in codes(takes["moving"][0])


def test_images_of_which_most_are_the_same_are_told(takes):
    found = finding(takes["equal"][0], "image-repeated")
    assert (found["severity"], found["count"], found["field"]) == ("warning", COUNT - 2, "camera_image") and f"{COUNT} images" in found["message"]
    # A camera may rest for a while.
    assert all("image-repeated" not in codes(takes[name][0]) for name in ("half", "few", "moving"))
