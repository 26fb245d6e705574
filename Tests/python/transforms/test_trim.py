"""`trim`: the rows that are left, and their count. Swift tests have the bounds and the still ends (`TrimTests`)."""

import numpy as np
import pytest
from conversions import converted
from outputs import dropped
from resample_oracle import MS, START, absolute, accounts, depth_maps_are, even, images_are, poses_are, scipy_poses, steps, take


def trimmed(takeset, root, found, *more, **options):
    """The entry, demo and meta of a take that is aligned and trimmed. Underscores in options stand for hyphens."""
    root.mkdir(exist_ok=True)
    found.write(root / "s")
    options = {name.replace("_", "-"): value for name, value in options.items()}
    return converted(takeset, root / "s", steps(root, "align", {"trim": options}, *more))


def rows_are(found, demo, meta, kept):
    """Poses, images and times of the rows are those of these frames."""
    kept = np.asarray(kept)
    at = np.array(found.times)[kept]
    assert absolute(meta).tolist() == at.tolist() and meta["timestamp_ns"][0] == 0
    assert meta["timestamp_ns"].attrs["timeline"] == "source"
    assert meta["source_index"][:].tolist() == np.array(found.numbers)[kept].tolist()
    poses_are(demo, *scipy_poses(found.times, found.poses, at))
    images_are(demo, [0] * len(kept) if found.alike else np.array(found.numbers)[kept])


# Seconds and frames


@pytest.mark.parametrize("start, end", [(0.3, None), (0.0166, 0.0168)])
def test_seconds_are_cut_off_the_ends(takeset, tmp_path, start, end):
    found = take(even(60), with_depth=list(range(60)))
    options = {name: value for name, value in (("start", start), ("end", end)) if value is not None}
    entry, demo, meta = trimmed(takeset, tmp_path, found, **options)
    lower, upper = found.times[0] + round((start or 0) * 1e9), found.times[-1] - round((end or 0) * 1e9)
    kept = [k for k, time in enumerate(found.times) if lower <= time <= upper]
    assert 0 < len(kept) < 60
    rows_are(found, demo, meta, kept)
    depth_maps_are(demo, kept)
    assert dropped(entry) == {"trimmed": 60 - len(kept)}
    step = accounts(entry)["trim"]
    assert (step["frames_in"], step["frames_out"]) == (60, len(kept))


def test_a_frame_at_the_bound_stays(takeset, tmp_path):
    """One nanosecond more than the time from the end cuts it off."""
    found = take([START + 20 * MS * k for k in range(20)])
    for end, first, last in (0.1, 5, 14), (0.100000001, 6, 13):
        _, demo, meta = trimmed(takeset, tmp_path / f"{end}", found, start=end, end=end)
        rows_are(found, demo, meta, range(first, last + 1))


@pytest.mark.parametrize("first, last", [(5, 6)])
def test_frames_are_cut_off_the_ends(takeset, tmp_path, first, last):
    found = take(even(30))
    entry, demo, meta = trimmed(takeset, tmp_path, found, start_frames=first, end_frames=last)
    rows_are(found, demo, meta, range(first, 30 - last))
    assert dropped(entry) == {"trimmed": first + last}
