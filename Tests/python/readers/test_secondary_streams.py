"""IMU, second camera, depth and tables of every app: samples in another order, twice, with holes, of another time, or that end early."""

import json
import shutil

import numpy as np
import pytest
from conversions import pipeline
from outputs import codes, demos, manifest
from phone_takes import absolute
from videos import ffmpeg

APPS = {
    "opencamera-sensors": ["--seconds", 2, "--size", "128x72", "--quirk", "flat"],
    "stray-scanner": ["--seconds", 2, "--size", "64x48", "--depth-size", "32x24"],
    "spectacular-rec": ["--seconds", 2, "--size", "96x72"],
    "iphumi": ["--seconds", 2, "--size", "192x144"],
    "arkitscenes": ["--seconds", 2],
    "anysense": ["--seconds", 2, "--size", "72x96"],
}
IMU = ["opencamera-sensors", "stray-scanner", "spectacular-rec"]


def changed(change):
    """A change of the IMU's lines in the files of these apps."""

    def edit(folder):
        for path in [*folder.glob("*_accel.csv"), *folder.glob("*_gyro.csv"), *folder.glob("imu.csv")]:
            lines = path.read_text().splitlines()
            head = [line for line in lines[:1] if not line[:1].isdigit() and line[:1] != "-"]
            path.write_text("\n".join(head + change(lines[len(head) :])) + "\n")
        for path in folder.glob("data.jsonl"):
            lines = path.read_text().splitlines()
            for kind in "accelerometer", "gyroscope":
                found = [line for line in lines if f'"{kind}"' in line]
                lines = [line for line in lines if f'"{kind}"' not in line] + change(found)
            path.write_text("\n".join(lines) + "\n")

    return edit


def back(lines):
    """A stretch that stands twice, the second time behind what follows it."""
    count = len(lines)
    return lines[: count // 2] + lines[count // 4 : count // 2] + lines[count // 2 :]


CHANGES = {
    "back": back,
    "twice": lambda lines: [line for line in lines for _ in range(2)],
    "moved": lambda lines: lines[: len(lines) // 2][::-1] + lines[len(lines) // 2 :],
    "hole": lambda lines: [line for number, line in enumerate(lines) if not len(lines) // 3 <= number < 2 * len(lines) // 3],
    "short": lambda lines: lines[: len(lines) // 3],
    "late": lambda lines: lines[len(lines) // 2 :],
}


def later(lines):
    """The same lines 100 s later: those of another recording."""
    return [",".join([*line.split(",")[:3], str(int(line.split(",")[3]) + 100 * 10**9)]) for line in lines]


def cut_the_ultra_wide_video(folder):
    (path,) = folder.glob("*_ultrawidergb.mp4")
    ffmpeg("-i", path, "-frames:v", "7", "-c", "copy", folder / "short.mp4")
    (folder / "short.mp4").replace(path)


def cut_depth(folder):
    """The last two thirds of the maps are gone."""
    for path in folder.glob("*_depth.raw"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 98_304 // 3 * 98_304])
    maps = sorted([*folder.glob("lowres_depth/*.png"), *folder.glob("Depth_Images*/*.bin")])
    for path in maps[len(maps) // 3 :]:
        path.unlink()


def with_tables(folder):
    (folder / "streams").mkdir()
    (folder / "streams/gripper.csv").write_text("timestamp,width\n0.5,1\n0.6,2\n")


OTHERS = {
    "opencamera-sensors later": changed(later), "iphumi wide": cut_the_ultra_wide_video, "iphumi depth": cut_depth,
    "arkitscenes depth": cut_depth, "anysense depth": cut_depth,
} | {f"{app} tables": with_tables for app in APPS}


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    """Every app's take, as it is and changed, all converted in one run; by the name of the app and of the change."""
    root = tmp_path_factory.mktemp("secondary")
    for app, options in APPS.items():
        takeset("simulate", app, *options, "--output", root / app / "sound", check=0)
    found = {f"{app} sound": lambda folder: None for app in APPS} | {f"{app} {name}": changed(one) for app in IMU for name, one in CHANGES.items()}
    inputs = []
    for name, change in (found | OTHERS).items():
        folder = shutil.copytree(root / name.split()[0] / "sound", root / "in" / name)
        (folder / "truth.json").unlink()
        change(folder)
        # Takes that are files have the name of the files.
        (stem,) = {path.name.rsplit("_", 1)[0] for path in [*folder.glob("*_timestamps.csv"), *folder.glob("*_rgb.mp4")]} or {None}
        for path in list(folder.glob(f"{stem}*")):
            path.rename(path.with_name(path.name.replace(stem, name)))
        inputs.append(folder)
    takeset.convert(*inputs, output=root / "out", check=0, arguments=pipeline(root))
    return by_name(root / "out")


def by_name(output):
    """The entry, demo and meta of each take."""
    stored = demos(output)
    return {entry["id"]: (entry, *stored[entry["id"]]) for entry in manifest(output)["record"]["takes"]}


def said(takes, name):
    """Findings of a take that its sound twin does not have."""
    sound = codes(takes[f"{name.split()[0]} sound"][0])
    return [one for one in takes[name][0]["findings"] if one["code"] not in sound]


@pytest.mark.parametrize("app", APPS)
def test_sound_takes_have_no_finding_of_them(takes, app):
    assert not {"stream-incomplete", "time-not-ascending", "samples-outside", "input-ignored"} & {*codes(takes[f"{app} sound"][0])}


@pytest.mark.parametrize("app", IMU)
@pytest.mark.parametrize("change", ["back", "twice", "moved"])
def test_an_imu_in_another_order_or_twice_is_the_same_imu_and_is_reported(takes, app, change):
    sound, meta = takes[f"{app} sound"][2], takes[f"{app} {change}"][2]
    for name in "timestamp_ns", "accel", "gyro":
        assert np.array_equal(meta[f"imu/{name}"][:], sound[f"imu/{name}"][:]), name
    found = said(takes, f"{app} {change}")
    assert {one["code"] for one in found} == {"time-not-ascending"} and sum(one["count"] for one in found) > 10


@pytest.mark.parametrize("app", IMU)
@pytest.mark.parametrize("change, words", [("hole", "hole"), ("short", "before the last frame"), ("late", "after the first frame")])
def test_an_imu_that_is_incomplete_is_reported_with_what_is_missing(takes, app, change, words):
    (one,) = said(takes, f"{app} {change}")
    whole, left = (len(takes[f"{app} {name}"][2]["imu/timestamp_ns"]) for name in ("sound", change))
    assert one["code"] == "stream-incomplete" and one["severity"] == "warning" and one["field"] == "imu" and words in one["message"]
    assert abs(one["count"] - (whole - left)) < 0.2 * whole


def test_an_imu_of_another_time_is_not_put_on_the_time_of_the_frames(takes):
    meta = takes["opencamera-sensors later"][2]
    assert [one["code"] for one in said(takes, "opencamera-sensors later")] == ["samples-outside", "clock-unaligned"]
    assert meta["imu/timestamp_ns"].attrs["clock"] == "unknown" and meta["imu/timestamp_ns"][0] == 0
    assert absolute(takes["opencamera-sensors sound"][2], "imu/timestamp_ns")[0] + 100 * 10**9 == meta["imu/timestamp_ns"].attrs["origin_ns"]


@pytest.mark.parametrize("name, stream", [("iphumi wide", "ultrawide_image"), ("iphumi depth", "camera_depth"), ("arkitscenes depth", "camera_depth"), ("anysense depth", "camera_depth")])
def test_a_camera_or_a_depth_sensor_that_stops_early_is_reported(takes, name, stream):
    (found,) = [one for one in said(takes, name) if one["code"] == "stream-incomplete"]
    assert found["field"] == stream and "before the last frame" in found["message"] and found["count"] > 10 / (1 if stream == "camera_depth" else 2)
    has = {one: (takes[one][2][f"streams/{stream}/source_index"][:] >= 0).mean() for one in (name, f"{name.split()[0]} sound")}
    assert has[name] < 0.6 * has[f"{name.split()[0]} sound"]


@pytest.mark.parametrize("app", APPS)
def test_tables_that_only_sessions_have_are_a_warning(takes, app):
    (found,) = said(takes, f"{app} tables")
    assert found["code"] == "input-ignored" and found["severity"] == "warning" and found["file"].startswith("streams/")


# MARK: Tables of sessions


def numbers(times, values):
    return "timestamp,x\n" + "".join(f"{time:.6f},{value}\n" for time, value in zip(times, values))


@pytest.fixture(scope="module")
def tables(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("tables")
    session = takeset.simulate(root / "session", "--size", "64x48", "--seconds", "3", "--variant", "v2")
    first = json.loads((session / "poses.json").read_text())[0]["timestamp"]
    times = first + np.arange(300) / 100
    # At 2 s the clock is set back by 1 s, and 3 ms off.
    jumped = np.concatenate([times[:200], times[100:] + 0.003])
    ones = np.ones(len(times))
    found = {
        "sound": numbers(times, range(300)), "set back": numbers(jumped, np.repeat([1, 2], 200)[: len(jumped)]),
        "twice": numbers(np.repeat(times, 2), np.arange(600) // 2), "whole": numbers(times, [123456789] + [16777216] * 299),
        "huge": numbers(times, ["1e300", "1e-300", "0.1"] + [5] * 297), "hole": numbers(np.delete(times, slice(100, 200)), ones),
        "short": numbers(times[:100], ones), "events": numbers(first + np.array([0.1, 0.2, 1.9]), [1, 2, 3]),
    }
    for name, text in found.items():
        folder = shutil.copytree(session, root / "in" / name)
        (folder / "streams").mkdir()
        (folder / "streams/state.csv").write_text(text)
    takeset.convert(root / "in", output=root / "out", check=0, arguments=pipeline(root))
    return by_name(root / "out")


SAID = {
    "sound": {}, "events": {}, "set back": {"time-not-ascending": 100}, "twice": {"time-not-ascending": 300}, "whole": {"numbers-rounded": 1},
    "huge": {"numbers-rounded": 1}, "hole": {"stream-incomplete": 100}, "short": {"stream-incomplete": 199},
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_wrong_with_a_table_is_counted(tables, name):
    entry = tables[name][0]
    before = {one["code"] for one in tables["sound"][0]["findings"]}
    found = [one for one in entry["findings"] if one["code"] not in before]
    assert {one["code"]: one["count"] for one in found} == pytest.approx(SAID[name], abs=2)
    assert len(found) == (2 if name == "huge" else len(SAID[name]))


def test_values_of_two_moments_do_not_alternate(tables):
    values = tables["set back"][1]["obs/state"][:, 0]
    assert np.count_nonzero(np.diff(values)) == 1


def test_of_a_time_that_is_there_twice_the_values_are_the_same(tables):
    assert np.array_equal(tables["twice"][1]["obs/state"][:], tables["sound"][1]["obs/state"][:])
