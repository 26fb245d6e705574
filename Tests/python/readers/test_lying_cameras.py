"""Cameras, depth and places of apps that say what is not so, each named in a finding or a failure."""

import json
import subprocess

import numpy as np
import pytest
from outputs import codes, finding, traces
from phone_takes import Takes, edited
from PIL import Image


def of_files(pattern, change):
    """A change of a take: of the JSON in each file that matches."""
    def edit(take):
        for place, path in enumerate(sorted(take.glob(pattern))):
            found = json.loads(path.read_text())
            change(found, place)
            path.write_text(json.dumps(found))

    return edit


# Polycam

CAMERAS = "keyframes/*cameras/*.json"


def scaled(factor):
    return lambda found, _: found.update({key: found[key] * factor for key in ("fx", "fy", "cx", "cy")})


def with_smaller_images_and_no_sizes(take):
    for path in (take / "keyframes/corrected_images").iterdir():
        with Image.open(path) as image:
            image.resize((48, 36)).save(path)
    of_files("keyframes/corrected_cameras/*.json", lambda found, _: [found.pop(key, None) for key in ("width", "height")])(take)


def with_sizes_of_their_own(found, place):
    if place % 2:
        for key in "fx", "fy", "cx", "cy", "width", "height":
            found[key] *= 2


def with_damaged_depth(take, pattern="keyframes/depth/*.png"):
    for path in take.glob(pattern):
        path.write_bytes(path.read_bytes()[:60])


@pytest.fixture(scope="module")
def polycam(takeset, tmp_path_factory):
    found = {
        "capture_1": [], "three quarters": of_files(CAMERAS, scaled(0.75)), "four thirds": of_files(CAMERAS, scaled(1.33)), "no sizes": with_smaller_images_and_no_sizes,
        "own sizes": of_files("keyframes/corrected_cameras/*.json", with_sizes_of_their_own),
        "text": of_files("keyframes/corrected_cameras/*.json", lambda found, place: found.update(fx=str(found["fx"])) if place == 3 else None),
        "damaged": (with_damaged_depth, "depth-undecodable", "none of its"),
    }
    options = ["--seconds", 3, "--size", "96x72", "--depth-size", "64x48"]
    return Takes(takeset, tmp_path_factory.mktemp("polycam"), "polycam", options, found)


def intrinsics(meta, name="intrinsics"):
    return np.reshape(meta[name][:], (-1, 4))


@pytest.mark.parametrize("name", ["three quarters", "four thirds"])
def test_a_camera_of_other_images_is_said(polycam, name):
    assert finding(polycam[name][1], "intrinsics-implausible")


def test_corrected_cameras_without_a_size_have_that_of_the_raw_ones(polycam):
    expected = intrinsics(polycam["capture_1"][3])
    _, entry, _, meta = polycam["no sizes"]
    assert np.allclose(intrinsics(meta), expected / 2) and finding(entry, "intrinsics-scaled")
    assert np.allclose(intrinsics(meta, "camera_depth_intrinsics"), intrinsics(polycam["capture_1"][3], "camera_depth_intrinsics"))


def test_each_camera_is_for_images_of_its_own_size(polycam):
    _, entry, _, meta = polycam["own sizes"]
    assert np.allclose(intrinsics(meta), intrinsics(polycam["capture_1"][3])) and finding(entry, "intrinsics-scaled")


def test_a_focal_length_that_is_text_is_said(polycam):
    assert finding(polycam["text"][1], "intrinsics-unusable")["count"] == 1
    polycam.fail()


# Spectacular Rec


def with_lines(change):
    def edit(take):
        path = take / "data.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        for line in found:
            if "frames" in line:
                change(line)
        path.write_text("\n".join(map(json.dumps, found)) + "\n")

    return edit


def with_a_smaller_video(take):
    options = ["-vf", "scale=iw/2:ih/2", "-fps_mode", "passthrough", "-c:v", "libx264", "-bf", "0", "-pix_fmt", "yuv420p"]
    subprocess.run(["ffmpeg", "-v", "error", "-i", take / "data.mov", *options, take / "made.mov"], check=True)
    (take / "made.mov").replace(take / "data.mov")


def without_a_center(take):
    edited("calibration.json", lambda found: found["cameras"][0].update(principalPointX=0, principalPointY=0))(take)
    with_lines(lambda line: [frame.pop("cameraParameters", None) for frame in line["frames"]])(take)


def with_depth_scale(value):
    return with_lines(lambda line: [frame.update(depthScale=value) for frame in line["frames"] if frame.get("cameraInd") == 1])


@pytest.fixture(scope="module")
def recordings(takeset, tmp_path_factory):
    found = {"recording_1": [], "smaller": with_a_smaller_video, "no center": without_a_center}
    found["fisheye"] = edited("calibration.json", lambda found: found["cameras"][0].update(model="kannala-brandt4"))
    found["mark"] = lambda take: (take / "data.jsonl").write_bytes(b"\xef\xbb\xbf" + (take / "data.jsonl").read_bytes())
    found |= {f"depth scale {value!r}": (with_depth_scale(value), "json-type", "expected a number") for value in ("0.001", 0, -1, 1e-40, 1e300)}
    found["no number"] = with_lines(lambda line: line["number"] == 5 and line.pop("number"))
    found["number of text"] = (with_lines(lambda line: line.update(number=str(line["number"]))), "json-type", "the text")
    found["camera of text"] = (with_lines(lambda line: line["frames"][0].update(cameraInd="0")), "json-type", "the text")
    found["damaged"] = (lambda take: with_damaged_depth(take, "frames2/*.png"), "depth-undecodable", "none of its")
    return Takes(takeset, tmp_path_factory.mktemp("spectacular"), "spectacular-rec", ["--seconds", 1, "--size", "192x144"], found)


def test_intrinsics_of_frames_are_scaled_with_the_video(recordings):
    _, entry, _, meta = recordings["smaller"]
    expected = intrinsics(recordings["recording_1"][3])
    assert np.allclose(intrinsics(meta), expected / 2) and len(np.unique(expected[:, 0])) > 3 and finding(entry, "intrinsics-scaled")


@pytest.mark.parametrize("name", ["no center", "fisheye"])
def test_a_camera_that_is_none_is_said(recordings, name):
    _, entry, _, meta = recordings[name]
    assert "intrinsics" not in meta and finding(entry, "intrinsics-unusable")


def test_a_mark_of_the_encoding_changes_nothing(recordings):
    assert set(codes(recordings["mark"][1])) == set(codes(recordings["recording_1"][1])) and len(recordings["mark"][2]["obs/camera_image"]) == 30


def test_frames_without_a_number_are_counted(recordings):
    _, entry, _, meta = recordings["no number"]
    assert "without a whole number" in finding(entry, "poses-unreadable")["message"] and 5 not in meta["source_index"][:]


def test_wrong_recordings_fail_with_a_sentence(recordings):
    recordings.fail()


# Record3D


def with_maps(damage):
    def change(take):
        for path in sorted(take.glob("depth/*.exr")) + sorted(take.glob("rgbd/*.depth")):
            path.write_bytes(damage(path.read_bytes()))

    return change


def tiled(data):
    return data[:5] + bytes([data[5] | 2]) + data[6:]


@pytest.fixture(scope="module")
def record3d(takeset, tmp_path_factory):
    size = ["--size", "144x192", "--depth-size", "48x64"]
    exr = ["--form", "exr", *size]
    found = {
        "take_1": ["--form", "folder", *size], "exr": exr, "all tiled": ([*exr, with_maps(tiled)], "depth-undecodable", "is tiled"),
        "all cut": ([*exr, with_maps(lambda data: data[: len(data) // 2])], "depth-undecodable", "none of its"),
        "all bad": (with_maps(lambda data: b"bvx9" + data[4:]), "depth-undecodable", "none of its"),
        "K": edited("metadata", lambda found: found.update(K=[number * 0.75 for number in found["K"][:8]] + [1])),
        "half": edited("metadata", lambda found: found.update(poses=[pose[:4] + [number / 2 for number in pose[4:]] for pose in found["poses"]])),
        "text": (edited("metadata", lambda found: found.update(w="144")), "json-type", "the text"),
        "rate": (edited("metadata", lambda found: [found.pop("frameTimestamps"), found.update(fps="30")]), "json-type", "the text"),
    }
    return Takes(takeset, tmp_path_factory.mktemp("record3d"), "record3d", ["--seconds", 2], found)


def test_a_take_whose_maps_are_all_damaged_fails(record3d):
    record3d.fail()


def test_a_sound_take_has_no_finding(record3d):
    assert codes(record3d["take_1"][1]) == codes(record3d["exr"][1]) == []


def test_another_camera_and_another_scale_are_said(record3d):
    assert finding(record3d["K"][1], "intrinsics-implausible")
    assert "positions are twice" in finding(record3d["half"][1], "geometry-contradictory")["message"]


# 3D Scanner App


def with_depth(factor):
    def change(take):
        for path in take.glob("depth_*.png"):
            Image.fromarray((np.asarray(Image.open(path)).astype(float) * factor).clip(0, 65535).astype(np.uint16)).save(path)

    return change


@pytest.fixture(scope="module")
def scans(takeset, tmp_path_factory):
    found = {
        "scan_1": [], "nowhere": lambda take: (take / "info.json").write_text('{"device": "iPhone", "latitude": null}'),
        "tenth": with_depth(0.1), "half": with_depth(0.5), "twentyfold": with_depth(20),
        "damaged": (lambda take: with_damaged_depth(take, "depth_*.png"), "depth-undecodable", "none of its"),
    }
    options = ["--seconds", 2, "--size", "192x144", "--image-every", 1]
    return Takes(takeset, tmp_path_factory.mktemp("scans"), "3d-scanner-app", options, found)


def test_a_place_is_withheld_and_said(scans):
    assert finding(scans["scan_1"][1], "location-removed")["file"] == "info.json" and traces(scans.output, "latitude") == []
    assert codes(scans["nowhere"][1]) == []


@pytest.mark.parametrize("name, words", [("tenth", "depth ten times"), ("half", "depth twice")])
def test_depth_in_another_unit_contradicts_the_poses(scans, name, words):
    assert words in finding(scans[name][1], "geometry-contradictory")["message"]


def test_depth_beyond_what_phones_measure_is_said(scans):
    assert finding(scans["twentyfold"][1], "depth-suspicious")
    scans.fail()


# AnySense


def in_raw_maps(change):
    def edit(take):
        for path in take.glob("Depth_Images_*/*.bin"):
            change(np.fromfile(path, np.float32)).tofile(path)

    return edit


def in_another_folder(take):
    (folder,) = take.glob("Depth_Images_*")
    folder.rename(folder.with_name(folder.name + "1"))


def test_depth_of_anysense_has_no_other_unit_order_or_folder(takeset, tmp_path):
    found = {"take_1": [], "millimeters": in_raw_maps(lambda one: one * np.float32(1000)), "swapped": in_raw_maps(lambda one: one.byteswap()), "other": in_another_folder}
    takes = Takes(takeset, tmp_path, "anysense", ["--seconds", 1, "--size", "144x192"], found)
    assert set(codes(takes["take_1"][1])) == {"intrinsics-absent"}
    assert finding(takes["millimeters"][1], "depth-suspicious") and finding(takes["swapped"][1], "depth-suspicious")
    assert finding(takes["other"][1], "depth-orphaned")["count"] > 20 and "camera_depth" not in takes["other"][2]["obs"]
