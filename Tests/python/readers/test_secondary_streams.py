"""IMU, second camera, depth and tables of every app: samples in another order, twice, with holes, of another time, or that end early."""

import json
import shutil

import numpy as np
import pytest
from conversions import pipeline
from outputs import codes, demos, manifest
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


def cut_the_ultra_wide_video(folder):
    (path,) = folder.glob("*_ultrawidergb.mp4")
    ffmpeg("-i", path, "-frames:v", "7", "-c", "copy", folder / "short.mp4")
    (folder / "short.mp4").replace(path)


def with_tables(folder):
    (folder / "streams").mkdir()
    (folder / "streams/gripper.csv").write_text("timestamp,width\n0.5,1\n0.6,2\n")


CHANGES = {f"{app} back": changed(back) for app in IMU} | {"iphumi wide": cut_the_ultra_wide_video} | {f"{app} tables": with_tables for app in APPS}


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    """Every app's take, as it is and changed, all converted in one run; by the name of the app and of the change."""
    root = tmp_path_factory.mktemp("secondary")
    for app, options in APPS.items():
        takeset("simulate", app, *options, "--output", root / app / "sound", check=0)
    inputs = []
    for name, change in ({f"{app} sound": lambda folder: None for app in APPS} | CHANGES).items():
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
def test_an_imu_with_a_stretch_twice_is_the_same_imu_and_is_reported(takes, app):
    sound, meta = takes[f"{app} sound"][2], takes[f"{app} back"][2]
    for name in "timestamp_ns", "accel", "gyro":
        assert np.array_equal(meta[f"imu/{name}"][:], sound[f"imu/{name}"][:]), name
    found = said(takes, f"{app} back")
    assert {one["code"] for one in found} == {"time-not-ascending"} and sum(one["count"] for one in found) > 10


def test_a_second_camera_that_stops_early_is_reported(takes):
    (found,) = [one for one in said(takes, "iphumi wide") if one["code"] == "stream-incomplete"]
    assert found["field"] == "ultrawide_image" and "before the last frame" in found["message"] and found["count"] > 5
    whole, cut = ((takes[f"iphumi {name}"][2]["streams/ultrawide_image/source_index"][:] >= 0).mean() for name in ("sound", "wide"))
    assert cut < 0.6 * whole


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
    found = {
        "sound": numbers(times, range(300)), "twice": numbers(np.repeat(times, 2), np.arange(600) // 2),
        "whole": numbers(times, [123456789] + [16777216] * 299), "huge": numbers(times, ["1e300", "1e-300", "0.1"] + [5] * 297),
        "hole": numbers(np.delete(times, slice(100, 200)), np.ones(200)),
    }
    for name, text in found.items():
        folder = shutil.copytree(session, root / "in" / name)
        (folder / "streams").mkdir()
        (folder / "streams/state.csv").write_text(text)
    takeset.convert(root / "in", output=root / "out", check=0, arguments=pipeline(root))
    return by_name(root / "out")


SAID = {"twice": {"time-not-ascending": 300}, "whole": {"numbers-rounded": 1}, "huge": {"numbers-rounded": 1}, "hole": {"stream-incomplete": 100}}


@pytest.mark.parametrize("name", SAID)
def test_what_is_wrong_with_a_table_is_counted(tables, name):
    entry = tables[name][0]
    before = {one["code"] for one in tables["sound"][0]["findings"]}
    found = [one for one in entry["findings"] if one["code"] not in before]
    assert {one["code"]: one["count"] for one in found} == pytest.approx(SAID[name], abs=2)
    assert len(found) == (2 if name == "huge" else len(SAID[name]))


def test_of_a_time_that_is_there_twice_the_values_are_the_same(tables):
    assert np.array_equal(tables["twice"][1]["obs/state"][:], tables["sound"][1]["obs/state"][:])
