"""`trim`: seconds, frames and still ends are cut off, and counted."""

import json

import numpy as np
import pytest
from conversions import converted
from outputs import dropped, manifest, only, record
from resample_oracle import MS, START, absolute, accounts, depth_maps_are, even, images_are, poses_are, scipy_poses, steps, take, uneven
from schemas import STATISTICS, layout, validator
from scipy.spatial.transform import Rotation
from stack_sessions import UNEVEN
from videos import times, video_file


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


@pytest.mark.parametrize("start, end", [(0.3, None), (None, 0.25), (0.1, 0.1), (0.0166, 0.0168), (0, 0.5)])
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


@pytest.mark.parametrize("first, last", [(7, 0), (0, 3), (5, 6), (29, 0), (14, 15)])
def test_frames_are_cut_off_the_ends(takeset, tmp_path, first, last):
    found = take(even(30))
    entry, demo, meta = trimmed(takeset, tmp_path, found, start_frames=first, end_frames=last)
    rows_are(found, demo, meta, range(first, 30 - last))
    assert dropped(entry) == {"trimmed": first + last}


def test_joints_keep_their_readings(takeset, tmp_path):
    """Values at the new ends are blended with readings from before them, and angles are not unwrapped anew."""
    found = uneven(60)
    found.write(tmp_path / "s")
    align = {"align": {"method": "linear"}}
    takes = []
    for name, more in ("whole", []), ("trimmed", [{"trim": {"start": 0.3, "end-frames": 4}}]):
        (tmp_path / name).mkdir()
        takeset.convert(tmp_path / "s", output=tmp_path / name / "out", arguments=steps(tmp_path / name, align, *more))
        takes.append(only(tmp_path / name / "out"))
    (_, whole, every), (_, part, meta) = takes
    lower = next(k for k, time in enumerate(found.times) if time >= START + 300 * MS)
    rows = slice(lower, len(found.times) - 4)
    for name in set(whole["obs"]) - {"pose"}:
        assert np.array_equal(part[f"obs/{name}"][:], whole[f"obs/{name}"][rows], equal_nan=name != "camera_image"), name
    for stream in every["streams"]:
        for name, data in every[f"streams/{stream}"].items():
            assert np.array_equal(meta[f"streams/{stream}/{name}"][:], data[rows]), (stream, name)


def test_a_video_is_trimmed_too(takeset, tmp_path):
    (tmp_path / "pour.mov").write_bytes(video_file(ticks=UNEVEN))
    arguments = steps(tmp_path, "align", {"trim": {"start": 0.2, "end": 0.1}})
    entry, demo, meta = converted(takeset, tmp_path / "pour.mov", arguments)
    at = times(tmp_path / "pour.mov")
    kept = [k for k, time in enumerate(at) if 200 * MS <= time <= at[-1] - 100 * MS]
    images_are(demo, kept)
    assert meta["source_index"][:].tolist() == kept and meta["timestamp_ns"][:].tolist() == [at[k] - at[kept[0]] for k in kept]
    assert dropped(entry) == {"trimmed": len(UNEVEN) - len(kept)}


# Still ends


def resting(moves=60, rest=60, speed=0.6, turn=0.0, jitter=0.001, shake=0.2):
    """A second of rest, a second of motion along x or of turning about y, and a second of rest: meters, degrees each second at 60 Hz."""
    random = np.random.default_rng(8)
    phase = np.clip(np.arange(2 * rest + moves) - rest, 0, moves) / 60
    poses = np.tile(np.eye(4), (len(phase), 1, 1))
    poses[:, 0, 3] = speed * phase
    poses[:, :3, 3] += random.uniform(-jitter, jitter, (len(phase), 3))
    axes = random.normal(size=(len(phase), 3))
    shaken = Rotation.from_rotvec(np.radians(shake) * random.uniform(0, 1, len(phase))[:, None] * axes / np.linalg.norm(axes, axis=1)[:, None])
    poses[:, :3, :3] = (Rotation.from_rotvec(np.radians(turn) * phase[:, None] * [0, 1, 0]) * shaken).as_matrix()
    return take(even(len(phase)), poses=poses, alike=True, size=(48, 36))


def moved(found, distance=0.01, angle=2.0):
    """The first frame away from the first pose and the last one away from the last pose."""
    away = []
    for reference in found.poses[0], found.poses[-1]:
        shift = np.linalg.norm(found.poses[:, :3, 3] - reference[:3, 3], axis=1)
        turned = np.degrees(Rotation.from_matrix(reference[:3, :3].T @ found.poses[:, :3, :3]).magnitude())
        away.append(np.flatnonzero((shift > distance) | (turned > angle)))
    return away[0][0], away[1][-1]


@pytest.mark.parametrize("motion, options", [
    ({}, {}), ({"speed": 0, "turn": 60}, {}), ({"speed": 0.3, "turn": 10}, {}), ({}, {"distance": 0.1}),
    ({"speed": 0, "turn": 60}, {"angle": 20}), ({"jitter": 0.02, "speed": 1}, {"distance": 0.1}),
])
def test_still_ends_are_cut_off(takeset, tmp_path, motion, options):
    """Jitter of the tracking is no motion. One frame of rest may stay at each end."""
    found = resting(**motion)
    first, last = moved(found, **options)
    assert 60 < first < 90 < last < 120
    entry, demo, meta = trimmed(takeset, tmp_path, found, start="motion", end="motion", **options)
    rows = meta["source_index"][:]
    assert first - 1 <= rows[0] <= first and last <= rows[-1] <= last + 1
    rows_are(found, demo, meta, range(rows[0], rows[-1] + 1))
    assert dropped(entry) == {"trimmed": 180 - len(rows)}


def test_one_end_can_be_cut_off_alone(takeset, tmp_path):
    found = resting()
    first, last = moved(found)
    _, _, start = trimmed(takeset, tmp_path / "start", found, start="motion")
    _, _, end = trimmed(takeset, tmp_path / "end", found, end="motion", start=0.5)
    assert start["source_index"][-1] == 179 and first - 1 <= start["source_index"][0] <= first
    assert end["source_index"][0] == 30 and last <= end["source_index"][-1] <= last + 1


def test_a_pause_in_the_middle_stays(takeset, tmp_path):
    found = resting()
    again = found.poses.copy()
    again[:, :3, 3] += found.poses[-1, :3, 3]
    poses = np.concatenate([found.poses, again])
    found = take(even(360), poses=poses, alike=True, size=(48, 36))
    first, last = moved(found)
    _, demo, meta = trimmed(takeset, tmp_path, found, start="motion", end="motion")
    rows = meta["source_index"][:]
    assert len(rows) > 200 and first - 1 <= rows[0] <= first and last <= rows[-1] <= last + 1
    rows_are(found, demo, meta, range(rows[0], rows[-1] + 1))


def test_a_take_that_never_moves_is_not_written(takeset, tmp_path):
    found = resting(speed=0)
    found.write(tmp_path / "in/still")
    resting().write(tmp_path / "in/moving")
    arguments = steps(tmp_path, "align", {"trim": {"start": "motion"}})
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", *arguments)
    entries = {entry["id"]: entry for entry in manifest(tmp_path / "out")["record"]["takes"]}
    assert done.returncode in (0, 3) and entries["moving"]["outcome"] == "written"
    assert entries["still"]["outcome"] != "written" and entries["still"]["reason"]


@pytest.mark.parametrize("options", [
    {"start": 3}, {"end": 0.9, "start": 0.9}, {"start-frames": 60}, {"start-frames": 40, "end-frames": 40}, {"end-frames": 10**12},
])
def test_a_take_of_which_nothing_is_left_is_not_written(takeset, tmp_path, options):
    take(even(60)).write(tmp_path / "s")
    done = takeset("run", tmp_path / "s", "--output", tmp_path / "out", *steps(tmp_path, "align", {"trim": options}))
    entry = record(tmp_path / "out")
    assert done.returncode in (0, 3) and entry["outcome"] in ("rejected", "failed") and entry["reason"]
    assert not list((tmp_path / "out").glob("episodes/*"))
    validator("manifest.schema.json").validate(manifest(tmp_path / "out"))


# The commands


def test_a_plan_agrees_with_the_run(takeset, tmp_path):
    found = resting()
    entry, _, _ = trimmed(takeset, tmp_path, found, start="motion", end=0.5)
    (planned,) = json.loads(takeset("plan", tmp_path / "s", "--json", "--pipeline", tmp_path / "p.yaml", check=0).stdout)["takes"]
    assert planned["frames"] == entry["output"]["samples"] < 180
    assert layout(planned) == layout(entry["output"], without=STATISTICS)
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    totals = manifest(tmp_path / "out")["record"]["totals"]
    assert totals["frames_in"] == 180 == totals["frames_out"] + totals["frames_dropped"]


@pytest.mark.parametrize("options, path", [
    ({}, "trim"), ({"start": None}, "trim"), ({"start-frames": 0, "end-frames": 0}, "trim"), ({"distance": 0.1}, "trim"),
    ({"start": -1}, "trim.start"), ({"end": "rest"}, "trim.end"), ({"start-frames": -1}, "trim.start-frames"), ({"start-frames": 1.5}, "trim.start-frames"),
    ({"start": "motion", "distance": -0.1}, "trim.distance"), ({"start": "motion", "angle": "wide"}, "trim.angle"), ({"begin": 1}, "trim.begin"),
])
def test_mistakes_and_steps_without_effect_are_refused(takeset, tmp_path, options, path):
    (tmp_path / "s").mkdir()
    arguments = steps(tmp_path, "align", {"trim": options})
    for command in ["run", tmp_path / "s", "--output", tmp_path / "out"], ["plan", tmp_path / "s"]:
        done = takeset(*command, *arguments, check=64)
        assert f"transforms[1].{path}" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
