"""What must hold for converted bundles."""

import numpy as np
from archives import tar_of, zip_of
from bundles import NAMES
from conversions import converted, pipeline


def nearest(stamps, depth_stamps, tolerance=50_000_000):
    """For each frame the number of the nearest depth map, the earlier of two, or -1."""
    found = []
    for stamp in stamps:
        distance, index = min((abs(t - stamp), k) for k, t in enumerate(depth_stamps))
        found.append(index if distance <= tolerance else -1)
    return found


def holds(demo, meta, depth, depth_stamps):
    """Checks that every row has the nearest depth map as it was written, with invalid depth values masked."""
    stream, stamps = meta["streams/camera_depth"], meta["timestamp_ns"][:].tolist()
    expected = nearest(stamps, depth_stamps)
    assert stream["source_index"][:].tolist() == expected
    assert stream["valid"][:].tolist() == [int(index >= 0) for index in expected]
    stored, valid = demo["obs/camera_depth"], demo["obs/camera_depth_valid"]
    assert stored.dtype == np.float32 and stored.shape == (len(stamps), *depth.shape[1:], 1) == valid.shape
    for row, index in enumerate(expected):
        if index < 0:
            assert not stored[row].any() and not valid[row].any()
        else:
            assert stream["dt_ns"][row] == depth_stamps[index] - stamps[row]
            good = np.isfinite(depth[index]) & (depth[index] > 0)
            assert np.array_equal(stored[row, :, :, 0], np.where(good, depth[index], 0))
            assert np.array_equal(valid[row, :, :, 0], good)


def convert(takeset, tmp_path, found, names=NAMES, arguments=()):
    return converted(takeset, found.write(tmp_path / "take", names), arguments)


def reader(tmp_path, **options):
    """Arguments for a pipeline whose reader has these options."""
    return pipeline(tmp_path, {"name": "realitycam-bundle", **{name.replace("_", "-"): value for name, value in options.items()}})


def contents(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def archived(kind, path, root, files):
    """A zip or tar of files below a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zip_of(files, root) if kind == "zip" else tar_of(files, root))
