"""`resample`: rows on a uniform grid, compared with exact fractions, NumPy and SciPy."""

import json

import numpy as np
import pytest
from conversions import converted
from outputs import check_digests, manifest, only
from resample_oracle import (
    MS, START, TOLERANCE, Grid, absolute, accounts, around, depth_maps_are, even, images_are, nearest, nearest_stream_is, poses_are,
    scipy_poses, step_record, steps, stream_is, take, uneven,
)
from run_outputs import outputs
from schemas import STATISTICS, layout, validator
from scipy.spatial.transform import Rotation
from session_checks import same
from stack_sessions import UNEVEN
from videos import times, video_file

RATES = ["10", "29.97", "30", "120"]


def resampled(takeset, root, found, *transforms, **options):
    """The entry, demo and meta of a take that is aligned and resampled, with other steps before that."""
    root.mkdir(exist_ok=True)
    found.write(root / "s")
    return converted(takeset, root / "s", steps(root, "align", *transforms, {"resample": options}))


@pytest.fixture(scope="module", params=RATES)
def case(request, takeset, tmp_path_factory):
    """An uneven take at one rate: the take, its grid, and what was written."""
    root, found = tmp_path_factory.mktemp("rate"), uneven()
    entry, demo, meta = resampled(takeset, root, found, rate=float(request.param))
    return found, Grid(found.times, request.param), entry, demo, meta, root


# Rows


def test_rows_are_the_ticks_of_the_grid(case):
    found, grid, _, demo, meta, _ = case
    assert grid.skipped > 0 and 10 < len(grid.ticks) < 200
    assert absolute(meta).tolist() == grid.ticks.tolist()
    stored = meta["timestamp_ns"]
    assert (stored[0], int(stored.attrs["origin_ns"]), stored.attrs["timeline"]) == (0, START, "resampled")
    assert demo.attrs["num_samples"] == len(grid.ticks) and all(len(data) == len(grid.ticks) for data in demo["obs"].values())
    assert meta["source_index"][:].tolist() == np.array(found.numbers)[grid.frame].tolist()
    assert check_digests(demo, meta) > 20


def test_a_hole_has_no_rows_and_is_a_gap(case):
    found, grid, entry, _, meta, _ = case
    assert meta["gaps"][:].tolist() == grid.gaps
    hole = found.numbers.index(55)
    rows = absolute(meta)
    assert not ((rows > found.times[hole - 1]) & (rows < found.times[hole])).any()
    assert 0 < len(grid.gaps) < 3
    assert step_record(entry, "resample")["skipped_ticks"] == grid.skipped


def test_poses_are_scipys(case):
    found, grid, _, demo, meta, _ = case
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))
    numbers = np.array(found.numbers)
    stream_is(meta, "pose", numbers[grid.before], numbers[grid.after], grid.weight, 0 * grid.ticks)
    assert (grid.weight > 0).any()


def test_numbers_are_linear_between_two_samples_near_enough(case):
    found, grid, _, demo, meta, _ = case
    for name, at, samples, numbers in [
        ("joints", found.joint_times, found.joints, np.arange(len(found.joint_times))),
        ("depth_point", found.times, found.points[:, None], np.array(found.numbers)),
    ]:
        before, after, weight = grid.blended(at)
        assert (before >= 0).sum() > 5 and (name != "joints" or (before < 0).any())
        expected = grid.values(at, samples)
        assert np.allclose(demo[f"obs/{name}"][:], expected, atol=1e-5, rtol=0, equal_nan=True), name
        assert np.array_equal(demo[f"obs/{name}_valid"][:], np.isfinite(expected)), name
        source, following = (np.where(i >= 0, numbers[i], -1) for i in (before, after))
        stream_is(meta, name, source, following, weight, 0 * grid.ticks)


def test_images_and_depth_maps_are_the_nearest(case):
    found, grid, _, demo, meta, _ = case
    position = nearest_stream_is(meta, "camera_image", found.times, found.numbers, grid.ticks)
    images_are(demo, np.where(position >= 0, np.array(found.numbers)[position], -1))
    at = [found.times[frame] for frame in found.with_depth]
    depth_maps_are(demo, nearest_stream_is(meta, "camera_depth", at, range(len(at)), grid.ticks))


def test_frames_and_rows_are_accounted_for(case):
    found, grid, entry, _, _, root = case
    step = accounts(entry)["resample"]
    assert (step["frames_in"], step["frames_out"]) == (len(found.times), len(grid.ticks))
    assert step["repeated"] == grid.repeated and (grid.repeated > 20) == (grid.rate == "120")
    assert step["dropped"] == [{"reason": "resampled", "count": grid.dropped}] * (grid.dropped > 0)
    assert step["options"]["rate"] == float(grid.rate) and step["options"]["tolerance"] == 0.05 and step["options"]["phase"] == 0
    assert {"max-gap", "method"} <= set(step["options"])
    document = manifest(root / "out")
    validator("manifest.schema.json").validate(document)
    totals = document["record"]["totals"]
    assert (totals["frames_in"], totals["frames_out"]) == (len(found.times), len(grid.ticks))
    assert totals["frames_in"] + grid.repeated == totals["frames_out"] + totals["frames_dropped"]


def test_a_plan_and_verify_agree_with_the_run(case, takeset):
    _, grid, entry, _, _, root = case
    (planned,) = json.loads(takeset("plan", root / "s", "--json", "--pipeline", root / "p.yaml", check=0).stdout)["takes"]
    assert planned["frames"] == len(grid.ticks)
    assert layout(planned) == layout(entry["output"], without=STATISTICS)
    takeset("verify", root / "out", "--inputs", check=0)
    takeset("pack", root / "out", "--output", root / "packed.h5", check=0)
    takeset("verify", root / "packed.h5", check=0)


# Options


@pytest.mark.parametrize("rate, phase", [("30", "0.004"), ("10", "0.0999"), ("29.97", "0.012345678"), ("120", "0.000000001")])
def test_the_grid_can_begin_later(takeset, tmp_path, rate, phase):
    found = uneven(40)
    grid = Grid(found.times, rate, phase=phase)
    entry, demo, meta = resampled(takeset, tmp_path, found, rate=float(rate), phase=float(phase))
    assert absolute(meta).tolist() == grid.ticks.tolist() and meta["timestamp_ns"][0] == 0
    assert int(meta["timestamp_ns"].attrs["origin_ns"]) == grid.ticks[0] > START
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))
    assert accounts(entry)["resample"]["frames_out"] == len(grid.ticks)


@pytest.mark.parametrize("gap", [0.02, 0.06, 0.2])
def test_the_longest_gap_that_is_crossed_can_be_chosen(takeset, tmp_path, gap):
    found = uneven()
    grid = Grid(found.times, "60", max_gap=round(gap * 1e9))
    _, demo, meta = resampled(takeset, tmp_path, found, rate=60, **{"max-gap": gap})
    assert absolute(meta).tolist() == grid.ticks.tolist()
    assert (grid.skipped > 0) == (gap < 0.2)
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))
    assert meta["gaps"][:].tolist() == grid.gaps


def test_the_default_gap_is_one_and_a_half_periods_but_no_less_than_the_tolerance(takeset, tmp_path):
    """At 10 Hz, a step of 0.14 s is crossed and one of 0.16 s is not; 0.2 s are with a tolerance of 0.2 s."""
    at = [START + k * 100 * MS + (40 * MS if k > 8 else 0) + (60 * MS if k > 15 else 0) for k in range(25)]
    found = take(at)
    for tolerance in 0.05, 0.2:
        grid = Grid(at, "50", round(tolerance * 1e9), period=1e8)
        entry, demo, meta = resampled(takeset, tmp_path / f"{tolerance}", found, rate=50, tolerance=tolerance)
        assert absolute(meta).tolist() == grid.ticks.tolist()
        assert step_record(entry, "resample")["skipped_ticks"] == grid.skipped == (7 if tolerance < 0.1 else 0)
        poses_are(demo, *scipy_poses(at, found.poses, grid.ticks))


def test_other_methods_can_be_chosen_by_stream(takeset, tmp_path):
    found = uneven(60)
    grid = Grid(found.times, "30")
    method = {"joints": "nearest", "pose": "nearest", "depth_point": "linear"}
    _, demo, meta = resampled(takeset, tmp_path, found, rate=30, method=method)
    position = nearest_stream_is(meta, "joints", found.joint_times, range(len(found.joint_times)), grid.ticks)
    expected = np.where(position[:, None] >= 0, found.joints[position], np.nan)
    assert np.allclose(demo["obs/joints"][:], expected, atol=1e-5, rtol=0, equal_nan=True)
    frame = nearest_stream_is(meta, "pose", found.times, found.numbers, grid.ticks)
    assert np.abs(demo["obs/pose"][:, :3] - found.poses[frame, :3, 3]).max() < 1e-6
    assert np.allclose(demo["obs/depth_point"][:], grid.values(found.times, found.points[:, None]), atol=1e-6, rtol=0, equal_nan=True)


def test_a_channel_that_did_not_answer_is_not_blended(takeset, tmp_path):
    found = uneven(60)
    readings = found.joints.copy()
    readings[12, 2] = -1  # what the firmware sends then
    found.joints = readings
    grid = Grid(found.times, "60")
    _, demo, _ = resampled(takeset, tmp_path, found, rate=60)
    expected = grid.values(found.joint_times, np.where(readings == -1, np.nan, readings))
    one = np.isnan(expected[:, 2]) & np.isfinite(expected[:, 1])
    assert one.sum() >= 2
    assert np.allclose(demo["obs/joints"][:], expected, atol=1e-5, rtol=0, equal_nan=True)
    assert np.array_equal(demo["obs/joints_valid"][:], np.isfinite(expected))


def test_the_tolerance_masks_values_and_never_decides_on_a_row(takeset, tmp_path):
    """Depth maps of the first frames alone, and a hole of 0.1 s that is crossed: rows without an image, whose poses are known."""
    at = [time for k, time in enumerate(even(60)) if not 30 <= k < 36]
    found = take(at, joint_times=range(START, START + 990 * MS, 10 * MS), with_depth=[0, 2, 4])
    tolerance = 30 * MS
    grid = Grid(at, "120", tolerance, max_gap=200 * MS)
    assert grid.skipped == 0
    _, demo, meta = resampled(takeset, tmp_path, found, rate=120, tolerance=0.03, **{"max-gap": 0.2})
    assert absolute(meta).tolist() == grid.ticks.tolist()
    position = nearest_stream_is(meta, "camera_image", at, found.numbers, grid.ticks, tolerance)
    assert 5 < (position < 0).sum() < 10
    images_are(demo, np.where(position >= 0, np.array(found.numbers)[position], -1))
    maps = nearest_stream_is(meta, "camera_depth", [at[k] for k in (0, 2, 4)], range(3), grid.ticks, tolerance)
    assert (maps < 0).sum() > 90
    depth_maps_are(demo, maps)
    poses_are(demo, *scipy_poses(at, found.poses, grid.ticks))
    assert np.allclose(demo["obs/joints"][:], grid.values(found.joint_times, found.joints), atol=1e-5, rtol=0, equal_nan=True)


# Times that coincide


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_resampling_to_the_own_grid_is_the_identity(takeset, tmp_path, method):
    """Every dataset is the same as without the step."""
    found = uneven(60, jitter=1)
    found = take(even(60), joint_times=found.joint_times, with_depth=list(range(0, 60, 3)))
    found.write(tmp_path / "s")
    numbers = {"joints": method, "depth_point": method}
    entries, takes = [], []
    for name, more in ("plain", []), ("resampled", [{"resample": {"rate": 60, "method": numbers}}]):
        (tmp_path / name).mkdir()
        arguments = steps(tmp_path / name, {"align": {"method": method}}, *more)
        takeset.convert(tmp_path / "s", output=tmp_path / name / "out", arguments=arguments)
        entry, *one = only(tmp_path / name / "out")
        entries.append(entry)
        takes.append(one)
    same(*takes)
    assert [meta["timestamp_ns"].attrs["timeline"] for _, meta in takes] == ["source", "resampled"]
    step = step_record(entries[1], "resample")
    assert (step["dropped"], step["repeated"], step["skipped_ticks"]) == ([], 0, 0)


@pytest.mark.parametrize("rate, every", [(30, 2), (20, 3), (12, 5)])
def test_a_tick_at_a_frame_is_that_frame(takeset, tmp_path, rate, every):
    at = even(61)
    found = take(at, with_depth=list(range(61)))
    _, demo, meta = resampled(takeset, tmp_path, found, rate=rate)
    frames = np.arange(0, 61, every)
    assert absolute(meta).tolist() == [at[frame] for frame in frames]
    for name in "pose", "camera_image", "camera_depth", "depth_point":
        stream_is(meta, name, frames, frames, 0 * frames, 0 * frames)
    images_are(demo, frames)
    depth_maps_are(demo, frames)
    assert (demo["obs/pose"][:, :3] == found.poses[frames, :3, 3].astype("f4")).all()
    assert (demo["obs/depth_point"][:, 0] == found.points[frames].astype("f4")).all()


def test_a_tick_between_two_frames_equally_near_has_the_earlier_image(takeset, tmp_path):
    at = [START + 20 * MS * k for k in range(30)]
    found = take(at, with_depth=list(range(30)))
    entry, demo, meta = resampled(takeset, tmp_path, found, rate=100)
    frames = np.arange(59) // 2
    assert meta["source_index"][:].tolist() == frames.tolist()
    images_are(demo, frames)
    depth_maps_are(demo, frames)
    assert meta["streams/pose/weight"][:].tolist() == [0, 0.5] * 29 + [0]
    assert step_record(entry, "resample")["repeated"] == 29


def test_ticks_are_rounded_once_and_halves_to_even(takeset, tmp_path):
    """1/1024 s is 976562.5 ns."""
    found = take(even(13), alike=True)
    grid = Grid(found.times, "1024")
    _, demo, meta = resampled(takeset, tmp_path, found, rate=1024)
    assert grid.ticks[1] - START == 976562 and grid.ticks[3] - START == 2929688
    assert absolute(meta).tolist() == grid.ticks.tolist()
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))


@pytest.mark.parametrize("count, rows", [(1, 1), (2, 1), (3, 2)])
def test_the_shortest_takes(takeset, tmp_path, count, rows):
    found = take(even(count))
    _, demo, meta = resampled(takeset, tmp_path, found, rate=30)
    assert absolute(meta).tolist() == even(3, 60)[:count:2] and demo["obs/pose"].shape == (rows, 7)
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.parametrize("settings", [dict(codec="h264"), dict(codec="hevc", b_frames=3)])
def test_a_video_is_resampled_too(takeset, tmp_path, settings):
    """Twice as many rows as frames, and a frame that was lost."""
    (tmp_path / "pour.mov").write_bytes(video_file(ticks=UNEVEN, **settings))
    _, demo, meta = converted(takeset, tmp_path / "pour.mov", steps(tmp_path, "align", {"resample": {"rate": 120}}))
    at = times(tmp_path / "pour.mov")
    grid = Grid(at, "120")
    assert meta["timestamp_ns"][:].tolist() == grid.ticks.tolist()
    frames = nearest(at, grid.ticks)
    assert meta["source_index"][:].tolist() == frames.tolist() and grid.repeated > 40
    images_are(demo, frames)
    assert around(at, grid.ticks)[0].tolist() != frames.tolist() and TOLERANCE >= np.diff(at).max()


# With other steps


def test_dropped_frames_are_not_used(takeset, tmp_path):
    """Two frames that jump are dropped: poses and images around them come from the others."""
    found = take(even(60), joint_times=range(START, START + 990 * MS, 10 * MS))
    found.poses[30, 0, 3] += 1
    kept = [k for k in range(60) if k not in (30, 31)]
    at = [found.times[k] for k in kept]
    grid = Grid(at, "120", max_gap=100 * MS)
    entry, demo, meta = resampled(takeset, tmp_path, found, {"drop-frames": {"with": ["pose-jump"]}}, rate=120, **{"max-gap": 0.1})
    assert absolute(meta).tolist() == grid.ticks.tolist() and grid.skipped == 0
    poses_are(demo, *scipy_poses(at, found.poses[kept], grid.ticks))
    numbers = np.array(kept)
    stream_is(meta, "pose", numbers[grid.before], numbers[grid.after], grid.weight, 0 * grid.ticks)
    assert meta["source_index"][:].tolist() == numbers[grid.frame].tolist()
    images_are(demo, numbers[nearest_stream_is(meta, "camera_image", at, kept, grid.ticks)])
    assert accounts(entry)["resample"]["frames_in"] == 58
    # Joints are a sensor of their own, whatever became of frames.
    assert np.allclose(demo["obs/joints"][:], grid.values(found.joint_times, found.joints), atol=1e-5, rtol=0, equal_nan=True)


def test_resampled_rows_can_be_decimated(takeset, tmp_path):
    found = uneven(60)
    found.write(tmp_path / "s")
    takes = []
    for name, more in ("all", []), ("few", [{"decimate": {"every": 3}}]):
        (tmp_path / name).mkdir()
        arguments = steps(tmp_path / name, "align", {"resample": {"rate": 30}}, *more)
        takeset.convert(tmp_path / "s", output=tmp_path / name / "out", arguments=arguments)
        takes.append(only(tmp_path / name / "out"))
    (_, every, meta), (entry, few, fewer) = takes
    assert absolute(fewer).tolist() == absolute(meta)[::3].tolist() and fewer["timestamp_ns"].attrs["timeline"] == "resampled"
    for name in every["obs"]:
        assert np.array_equal(few[f"obs/{name}"][:], every[f"obs/{name}"][::3], equal_nan=name not in ("camera_image",)), name
    accounts(entry)


def test_jobs_make_no_difference(takeset, tmp_path):
    for seed in range(4):
        uneven(40, seed=seed).write(tmp_path / f"in/t{seed}")
    (tmp_path / "in/pour.mov").write_bytes(video_file(ticks=UNEVEN))
    arguments = steps(tmp_path, "align", {"resample": {"rate": 100}}, "split")
    for jobs in 1, 4:
        takeset.convert(tmp_path / "in", output=tmp_path / f"out{jobs}", arguments=[*arguments, "--jobs", jobs])
    assert outputs(tmp_path / "out1") == outputs(tmp_path / "out4")
    assert "nothing to do" in takeset.convert(tmp_path / "in", output=tmp_path / "out1", arguments=arguments).stdout


def test_streams_that_are_not_aligned_are_not_resampled(takeset, tmp_path):
    uneven(40).write(tmp_path / "s")
    arguments = steps(tmp_path, {"resample": {"rate": 30}}, "align")
    done = takeset("run", tmp_path / "s", "--output", tmp_path / "out", *arguments)
    assert done.returncode in (3, 64) and "align" in done.stderr, done.stderr
    assert not list(tmp_path.glob("out/episodes/*.h5"))


# Real trajectories


@pytest.mark.parametrize("name", ["ARKit_camera_pose", "ARKit_camera_pose_LARR_letters"])
@pytest.mark.parametrize("rate, thinned", [("30", 1), ("10", 1), ("60", 3)])
def test_real_trajectories_are_scipys(captures, takeset, tmp_path, name, rate, thinned):
    """Around the longest step of the log; then with frames lost at random and times that jitter."""
    table = [line.split() for line in (captures / f"arkit-trajectories/{name}.txt").read_text().splitlines() if line[0] != "#"]
    logged = np.array([int(row[0]) for row in table])
    middle = min(max(np.diff(logged).argmax(), 200), len(logged) - 200)
    chosen = np.arange(middle - 200, middle + 200)
    if thinned > 1:
        random = np.random.default_rng(3)
        chosen = np.sort(random.choice(chosen, len(chosen) // thinned, replace=False))
        logged = logged + random.integers(-MS, MS, len(logged))
    poses = np.tile(np.eye(4), (len(chosen), 1, 1))
    poses[:, :3] = np.array([[float(x) for x in table[row][1:]] for row in chosen]).reshape(-1, 3, 4)
    poses[:, :3, :3] = Rotation.from_matrix(poses[:, :3, :3]).as_matrix()  # six decimals are not quite a rotation
    found = take(logged[chosen].tolist(), poses=poses, size=(32, 24), alike=True)
    grid = Grid(found.times, rate, max_gap=100 * MS)
    assert len(grid.ticks) > 60 and (grid.skipped > 0) == (thinned > 1)
    _, demo, meta = resampled(takeset, tmp_path, found, rate=float(rate), **{"max-gap": 0.1})
    assert absolute(meta).tolist() == grid.ticks.tolist()
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))


# Mistakes


@pytest.mark.parametrize("options, path", [
    ({"rate": 0}, "rate"), ({"rate": -30}, "rate"), ({}, "rate"), ({"rate": "fast"}, "rate"), ({"rate": float("nan")}, "rate"),
    ({"rate": float("inf")}, "rate"), ({"rate": [30]}, "rate"), ({"rate": None}, "rate"), ({"tolerance": 0.1}, "rate"),
    ({"rate": 30, "max-gap": -0.1}, "max-gap"), ({"rate": 30, "tolerance": -1}, "tolerance"), ({"rate": 30, "phase": "late"}, "phase"),
    ({"rate": 30, "method": {"joints": "cubic"}}, "method"), ({"rate": 30, "method": "nearest"}, "method"), ({"rate": 30, "maxgap": 1}, "maxgap"),
])
def test_mistakes_are_refused_by_their_path_before_anything_is_read(takeset, tmp_path, options, path):
    (tmp_path / "s").mkdir()  # not a take: it is not even looked at
    arguments = steps(tmp_path, "align", {"resample": options})
    for command in ["run", tmp_path / "s", "--output", tmp_path / "out"], ["plan", tmp_path / "s"]:
        done = takeset(*command, *arguments, check=64)
        assert f"transforms[1].resample.{path}" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["resample", "resample: {}"])
def test_the_rate_must_be_given(takeset, tmp_path, text):
    (tmp_path / "p.yaml").write_text(f"version: 1\ntransforms: [align, {text}]\n")
    done = takeset("plan", tmp_path, "--pipeline", tmp_path / "p.yaml", check=64)
    assert "transforms[1].resample.rate" in done.stderr, done.stderr
