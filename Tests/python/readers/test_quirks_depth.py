"""Quirks of sessions, rows 29 to 35: depth."""

import numpy as np
import pytest
from outputs import bits, finding
from quirks import arkit_with_depth_maps, arkit_with_depth_values, quirk
from session_checks import depth_is, named_maps, same
from stack_sessions import COUNT, DEPTH_SIZE, depth_map, uptimes, v1


@quirk(29, of=v1)
def no_depth_is_null(session):
    for entry in session.poses:
        entry.setdefault("depthIndex", None)


@quirk(29, of=arkit_with_depth_values)
def no_depth_value_is_null(session):
    for entry in session.poses:
        entry.setdefault("depth", None)


def test_row_29_null_is_absent(batch):
    for build, like in (no_depth_is_null, arkit_with_depth_maps), (no_depth_value_is_null, arkit_with_depth_values):
        first, demo, meta = batch(build)
        second, *others = batch(like)
        same((demo, meta), others)
        assert first["variant"] == second["variant"]


@quirk(30, "depth-missing", of=v1)
def depth_maps_missing(session):
    for index in range(4, 12):
        del session.depth[index]


@quirk(30, "depth-wrong-size", of=v1)
def depth_maps_cut(session):
    session.depth[5] = session.depth[5][:-100]
    session.depth[6] = b""


def test_row_30_missing_depth_is_the_nearest_other_or_masked(batch):
    entry, demo, meta = batch(depth_maps_missing)
    named = {frame: index for frame, index in named_maps(v1()).items() if not 4 <= index < 12}
    valid = depth_is(demo, meta, uptimes(), named, {index: depth_map(index) for index in named.values()})
    assert 20 < len(valid) < COUNT - 10 and finding(entry, "depth-missing")["count"] == 8
    assert bits(meta)["depth-missing"] == [row for row in range(COUNT) if row not in valid]


def test_row_30_short_depth_is_masked(batch):
    entry, demo, meta = batch(depth_maps_cut)
    stream = meta["streams/camera_depth"]
    bad = np.isin(stream["source_index"][:], (5, 6))
    assert bad.any() and np.array_equal(stream["valid"][:] == 0, bad)
    assert not demo["obs/camera_depth"][:][bad].any() and not demo["obs/camera_depth_valid"][:][bad].any()
    assert demo["obs/camera_depth_valid"][:][~bad].all() and finding(entry, "depth-wrong-size")["count"] == 2


def with_maps(change, size=DEPTH_SIZE, declared=DEPTH_SIZE):
    session = v1()
    session.depth = {index: change(depth_map(index, size)) for index in session.depth}
    del session.metadata["depthResolution"]
    if declared:
        session.metadata["depthResolution"] = list(declared)
    return session


def padded(maps, columns, kind):
    """Rows with so many more columns, whose contents are not plausible depth values."""
    return np.pad(maps.astype(kind), ((0, 0), (0, columns)), constant_values=500).tobytes()


@quirk(31)
def depth_of_32_bits():
    return with_maps(lambda m: m.tobytes())


@quirk(31, "depth-format")
def depth_of_32_bits_padded():
    return with_maps(lambda m: padded(m, 16, "<f4"))


@quirk(31, "depth-format")
def depth_of_16_bits_padded():
    return with_maps(lambda m: padded(m, 32, "<f2"))


@quirk(31, "depth-format")
def depth_of_16_bits_in_rows_long_enough_for_32():
    """Only the values show that these are half floats."""
    return with_maps(lambda m: padded(m, 96, "<f2"))


@pytest.mark.parametrize("build", [
    depth_of_32_bits, depth_of_32_bits_padded, depth_of_16_bits_padded, depth_of_16_bits_in_rows_long_enough_for_32])
def test_row_31_depth_is_read_in_the_form_it_is_in(batch, build):
    entry, demo, meta = batch(build)
    kind = "<f4" if "32_bits" in build.__name__ else "<f2"
    named = named_maps(v1())
    depth_is(demo, meta, uptimes(), named, {index: depth_map(index).astype(kind).astype("f4") for index in named.values()})
    assert demo["obs/camera_depth_valid"][:].all()
    if build is not depth_of_32_bits:
        message = finding(entry, "depth-format")["message"]
        assert ("float16" in message) is (kind == "<f2")
        assert ("padded by 64 bytes" in message) is (build in (depth_of_32_bits_padded, depth_of_16_bits_padded))


@quirk(32, "depth-format")
def depth_of_half_the_size():
    return with_maps(lambda m: m.tobytes(), (128, 96), (256, 192))


@quirk(32, "depth-format")
def depth_of_a_size_not_said():
    return with_maps(lambda m: m.tobytes(), (128, 96), None)


@pytest.mark.parametrize("build", [depth_of_half_the_size, depth_of_a_size_not_said])
def test_row_32_the_size_follows_from_the_files(batch, build):
    entry, demo, meta = batch(build)
    assert demo["obs/camera_depth"].shape == (COUNT, 96, 128, 1)
    named = named_maps(v1())
    depth_is(demo, meta, uptimes(), named, {index: depth_map(index, (128, 96)) for index in named.values()})
    assert "128x96" in finding(entry, "depth-format")["message"]


RARE = (0, 2, 5, 7, 10, 13, 15, 27, 30, 32, 33, 36, 39)


@quirk(33)
def depth_at_irregular_times():
    return v1(frames_with_depth=RARE)


def test_row_33_depth_at_irregular_times_is_the_nearest_with_its_age(batch):
    _, demo, meta = batch(depth_at_irregular_times)
    session = depth_at_irregular_times()
    valid = depth_is(demo, meta, uptimes(), named_maps(session), {index: depth_map(index) for index in session.depth})
    assert {19, 20, 21, 22, 23} & set(valid) == set() and {15, 17, 25, 27} <= set(valid)


@quirk(34, of=v1)
def depth_of_invalid_values(session):
    for index in session.depth:
        map = depth_map(index)
        map.reshape(-1)[:6] = [np.nan, np.inf, -np.inf, -1, 0, -0.0]
        session.depth[index] = map.tobytes()


def test_row_34_invalid_depth_values_are_zero_and_masked(batch):
    _, demo, meta = batch(depth_of_invalid_values)
    depth, valid = demo["obs/camera_depth"][:].reshape(COUNT, -1), demo["obs/camera_depth_valid"][:].reshape(COUNT, -1)
    assert not depth[:, :6].any() and not valid[:, :6].any() and valid[:, 6:].all()
    index = meta["streams/camera_depth/source_index"][:]
    assert np.array_equal(depth[:, 6:], [depth_map(i).reshape(-1)[6:] for i in index])


@quirk(35, "depth-orphaned", of=v1)
def depth_that_no_pose_names(session):
    session.depth |= {777: depth_map(1).tobytes(), 1234567: depth_map(2).tobytes()}


def test_row_35_depth_that_no_pose_names_is_skipped(batch):
    entry, demo, meta = batch(depth_that_no_pose_names)
    same((demo, meta), batch.demos["clean-v1"])
    assert finding(entry, "depth-orphaned")["count"] == 2
