"""`align: {latency: …}`: a sensor that reports late is moved back by what is known, and nothing else is."""

import dataclasses

import numpy as np
import pytest
from conversions import converted
from outputs import demos, manifest, only, take as entry_of
from resample_oracle import (
    MS, START, TOLERANCE, Grid, absolute, depth_maps_are, even, images_are, nearest, nearest_stream_is, poses_are, scipy_poses, steps, take,
    uneven,
)
from schemas import validator
from session_checks import joints_are, same
from stack_sessions import COUNT, v2
from videos import video_file


def aligned(takeset, root, found, *more, **options):
    """The entry, demo and meta of a take, aligned with these options."""
    root.mkdir(exist_ok=True)
    found.write(root / "s")
    return converted(takeset, root / "s", steps(root, {"align": options}, *more))


def alignment(entry, stream):
    (found,) = [a for a in entry["alignment"] if a["stream"] == stream]
    return found


def joints_equal(demo, other):
    for name in "joints", "joints_valid":
        assert np.array_equal(demo[f"obs/{name}"][:], other[f"obs/{name}"][:], equal_nan=True), name


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nearest", "linear"])
@pytest.mark.parametrize("seconds", [0.02, 0.1234, -0.013])
def test_joints_come_from_later_stamps(takeset, tmp_path, method, seconds):
    """As if the stamps had been shifted by hand, to the nanosecond."""
    found, late = uneven(60), round(seconds * 1e9)
    by_hand = dataclasses.replace(found, joint_times=[time - late for time in found.joint_times])
    entry, demo, meta = aligned(takeset, tmp_path / "late", found, latency={"joints": seconds}, method=method)
    _, expected, other = aligned(takeset, tmp_path / "hand", by_hand, method=method)
    _, plain, _ = aligned(takeset, tmp_path / "plain", found, method=method)
    joints_equal(demo, expected)
    for name, data in meta["streams/joints"].items():
        assert np.array_equal(data[:], other[f"streams/joints/{name}"][:]), name
    assert not np.array_equal(demo["obs/joints"][:], plain["obs/joints"][:], equal_nan=True)
    if method == "nearest":
        position = nearest_stream_is(meta, "joints", by_hand.joint_times, range(len(by_hand.joint_times)), found.times)
        expected = np.where(position[:, None] >= 0, found.joints[position], np.nan)
        assert (position >= 0).sum() > 30 and np.allclose(demo["obs/joints"][:], expected, atol=1e-5, rtol=0, equal_nan=True)
    for name in "pose", "camera_image", "camera_depth", "depth_point":
        assert np.array_equal(demo[f"obs/{name}"][:], plain[f"obs/{name}"][:]), name
    assert alignment(entry, "joints")["latency_ns"] == str(late)


def test_the_record_keeps_the_clocks_offset_and_names_the_latency(takeset, tmp_path):
    """The clock of these readings is known by their first sample alone, which a latency must not move."""
    session = v2()
    session.write(tmp_path / "s")
    entries = {}
    for name, options in ("plain", {}), ("late", {"latency": {"joints": 0.02}}):
        takeset.convert(tmp_path / "s", output=tmp_path / name, arguments=steps(tmp_path, {"align": options}))
        entries[name] = only(tmp_path / name)
    plain, late = (alignment(entries[name][0], "joints") for name in ("plain", "late"))
    assert late.pop("latency_ns") == "20000000" and plain.pop("latency_ns", "0") == "0"
    assert late == plain and int(late["offset_ns"]) < -(10**18)
    _, demo, meta = entries["late"]
    first = session.encoders[0]["timestamp"]
    joints_are(demo, meta, session.encoders, [reading["timestamp"] - first - 0.02 for reading in session.encoders])
    step = entries["late"][0]["steps"][1]
    assert (step["name"], step["options"]["latency"]) == ("align", {"joints": 0.02})
    validator("manifest.schema.json").validate(manifest(tmp_path / "late"))


def test_no_latency_changes_nothing(takeset, tmp_path):
    found = uneven(60)
    takes, datasets = [], []
    for name, options in ("plain", {}), ("zero", {"latency": {"joints": 0, "camera_image": 0.0, "camera_depth": 0}}), ("none", {"latency": {}}):
        entry, *one = aligned(takeset, tmp_path / name, found, **options)
        takes.append(one)
        datasets.append(entry["output"]["datasets"])
        assert alignment(entry, "joints").get("latency_ns", "0") == "0"
    assert datasets[0] == datasets[1] == datasets[2]
    same(takes[0], takes[1])
    same(takes[0], takes[2])


@pytest.mark.parametrize("seconds", [0.0335, 0.15, -0.0335])
def test_images_are_paired_with_other_poses(takeset, tmp_path, seconds):
    """Of frames 1/60 s apart, the image that was stamped two frames later; none where there is none near enough."""
    found, late = take(even(30)), round(seconds * 1e9)
    entry, demo, meta = aligned(takeset, tmp_path, found, latency={"camera_image": seconds})
    at = [time - late for time in found.times]
    position = nearest_stream_is(meta, "camera_image", at, found.numbers, found.times)
    middle = 15
    assert position[middle - 9] == middle - 9 + round(seconds * 60)
    assert (position < 0).sum() == (6 if seconds > 0.1 else 0)
    images_are(demo, position)
    assert absolute(meta).tolist() == found.times and meta["source_index"][:].tolist() == found.numbers
    poses_are(demo, *scipy_poses(found.times, found.poses, found.times))
    assert alignment(entry, "camera_image")["latency_ns"] == str(late)


def test_a_videos_images_are_paired_with_other_rows(takeset, tmp_path):
    (tmp_path / "pour.mov").write_bytes(video_file(count=20, fps=30))
    _, demo, meta = converted(takeset, tmp_path / "pour.mov", steps(tmp_path, {"align": {"latency": {"camera_image": 0.0667}}}))
    at = meta["timestamp_ns"][:]
    position = nearest(at - 66_700_000, at, TOLERANCE)
    assert position[:5].tolist() == [2, 3, 4, 5, 6] and (position[-1], position[-2]) == (-1, 19)
    images_are(demo, position)
    assert meta["streams/camera_image/source_index"][:].tolist() == position.tolist()


def test_depth_maps_are_moved_alone(takeset, tmp_path):
    found = take(even(40), with_depth=list(range(0, 40, 2)))
    _, demo, meta = aligned(takeset, tmp_path, found, latency={"camera_depth": 0.04})
    at = [found.times[frame] - 40 * MS for frame in found.with_depth]
    depth_maps_are(demo, nearest_stream_is(meta, "camera_depth", at, range(20), found.times))
    images_are(demo, range(40))


def test_resampling_uses_the_times_without_latency(takeset, tmp_path):
    found, late = uneven(60), 20 * MS
    latency = {"joints": 0.02, "camera_image": 0.02}
    _, demo, meta = aligned(takeset, tmp_path, found, {"resample": {"rate": 50}}, latency=latency)
    grid = Grid(found.times, "50")
    assert absolute(meta).tolist() == grid.ticks.tolist()
    earlier = [time - late for time in found.joint_times]
    assert np.allclose(demo["obs/joints"][:], grid.values(earlier, found.joints), atol=1e-5, rtol=0, equal_nan=True)
    at = [time - late for time in found.times]
    position = nearest_stream_is(meta, "camera_image", at, found.numbers, grid.ticks)
    images_are(demo, np.where(position >= 0, np.array(found.numbers)[position], -1))
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))


def test_takes_that_lack_the_stream_are_not_concerned(takeset, tmp_path):
    uneven(40).write(tmp_path / "in/with")
    take(even(COUNT)).write(tmp_path / "in/without")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=steps(tmp_path, {"align": {"latency": {"joints": 0.02}}}))
    assert set(demos(tmp_path / "out")) == {"with", "without"}
    assert all(a["stream"] != "joints" for a in entry_of(tmp_path / "out", "without")["alignment"])


def test_a_latency_is_used_or_refused_with_the_recorders_own_pairing(takeset, tmp_path):
    """`reference-compatible` has clocks of its own; it must not drop a latency without a word."""
    found = uneven(60)
    found.write(tmp_path / "s")
    arguments = steps(tmp_path, {"align": {"reference-compatible": True, "latency": {"joints": 0.1}}})
    done = takeset("run", tmp_path / "s", "--output", tmp_path / "out", *arguments)
    if done.returncode == 64:
        assert "transforms[0].align" in done.stderr and "latency" in done.stderr
        return
    entry, demo, _ = only(tmp_path / "out")
    _, plain, _ = aligned(takeset, tmp_path / "plain", found, **{"reference-compatible": True})
    assert alignment(entry, "joints").get("latency_ns") == "100000000"
    assert not np.array_equal(demo["obs/joints"][:], plain["obs/joints"][:])


@pytest.mark.parametrize("latency", [
    {"joints": "late"}, {"joints": None}, {"joints": [0.02]}, {"joints": 1e9}, {"joints": float("nan")}, 0.02, ["joints"],
])
def test_mistakes_are_refused_by_their_path(takeset, tmp_path, latency):
    (tmp_path / "s").mkdir()
    arguments = steps(tmp_path, {"align": {"latency": latency}})
    for command in ["run", tmp_path / "s", "--output", tmp_path / "out"], ["plan", tmp_path / "s"]:
        done = takeset(*command, *arguments, check=64)
        assert "transforms[0].align.latency" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seconds", [10, -10])
def test_latencies_of_up_to_ten_seconds_are_possible(takeset, tmp_path, seconds):
    """Every reading is then too far from every frame."""
    entry, demo, _ = aligned(takeset, tmp_path, uneven(30), latency={"joints": seconds})
    assert not demo["obs/joints_valid"][:].any() and alignment(entry, "joints")["latency_ns"] == str(seconds * 10**9)


def test_the_start_is_that_of_the_frames(takeset, tmp_path):
    _, _, meta = aligned(takeset, tmp_path, uneven(30), latency={"joints": 0.5, "camera_image": 0.02})
    assert int(meta["timestamp_ns"].attrs["origin_ns"]) == START
