"""`trim`: the rows that are left, and their count. Swift tests have the bounds, counts of frames and the still ends (`TrimTests`)."""

import numpy as np
import pytest
from conversions import converted
from outputs import dropped
from phone_takes import absolute
from resample_oracle import accounts, depth_maps_are, even, images_are, poses_are, scipy_poses, steps, take


@pytest.mark.parametrize("options, first, last", [
    ({"start": 0.3}, 18, 59), ({"start": 0.0166, "end": 0.0168}, 1, 57), ({"start-frames": 5, "end": 0.1, "end-frames": 6}, 5, 47)], ids=str)
def test_seconds_and_frames_are_cut_off_the_ends(takeset, tmp_path, options, first, last):
    found, kept = take(even(60), with_depth=list(range(60))), list(range(first, last + 1))
    found.write(tmp_path / "s")
    entry, demo, meta = converted(takeset, tmp_path / "s", steps(tmp_path, "align", {"trim": options}))
    at = np.array(found.times)[kept]
    assert absolute(meta).tolist() == at.tolist() and meta["timestamp_ns"][0] == 0
    assert meta["timestamp_ns"].attrs["timeline"] == "source" and meta["source_index"][:].tolist() == kept
    poses_are(demo, *scipy_poses(found.times, found.poses, at))
    images_are(demo, kept)
    depth_maps_are(demo, kept)
    assert dropped(entry) == {"trimmed": 60 - len(kept)}
    step = accounts(entry)["trim"]
    assert (step["frames_in"], step["frames_out"]) == (60, len(kept))
