"""Stray Scanner: intrinsics of each row, of the camera matrix, or none."""

import numpy as np
import pytest
from outputs import finding
from scan_checks import Scans, camera_info, convert, scan_codes
from scans import CAMERA, NEW, OLD, matrix_file, scan_video, session


@pytest.mark.parametrize("separator", [",", ", "])
def test_an_older_recording_has_one_camera_for_all_rows(takeset, tmp_path, separator):
    found = session(times="time", columns=OLD)
    found.camera = matrix_file(CAMERA, separator)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert (meta["intrinsics"][:] == np.float32(CAMERA)).all() and meta["intrinsics"].shape == (20, 4)
    assert np.allclose(meta["camera_depth_intrinsics"][:], np.array(CAMERA) / 5, rtol=1e-6)
    assert camera_info(demo) == (list(CAMERA), (160, 120))
    assert entry["details"]["cameras"]["camera_matrix.csv"] == dict(zip(("fx", "fy", "cx", "cy", "width", "height"), (*CAMERA, 160, 120)))


def test_cameras_of_single_rows_come_first_and_the_matrix_is_kept(takeset, tmp_path):
    found = session(times="time")
    entry, demo, meta = convert(takeset, tmp_path, found)
    each = found.numbers("fx", "fy", "cx", "cy")
    assert (meta["intrinsics"][:] == each.astype("f4")).all() and len(np.unique(meta["intrinsics"][:, 0])) == 20
    assert np.allclose(meta["camera_depth_intrinsics"][:], each / 5, rtol=1e-6)
    assert camera_info(demo)[0] == list(CAMERA)
    assert entry["details"]["cameras"]["camera_matrix.csv"]["fx"] == CAMERA[0]


def test_without_a_matrix_the_median_is_used(takeset, tmp_path):
    found = session(count=21, times="time")
    found.camera = None
    entry, demo, meta = convert(takeset, tmp_path, found)
    each = found.numbers("fx", "fy", "cx", "cy")
    assert camera_info(demo)[0] == np.median(each, 0).tolist() and (meta["intrinsics"][:] == each.astype("f4")).all()
    assert "camera_matrix.csv" not in entry["details"].get("cameras", {}) and scan_codes(entry) == []


def test_without_a_video_cameras_are_of_the_full_image(takeset, tmp_path):
    found = session(columns=OLD, depth_size=(256, 192), long={}, count=18)
    entry, demo, meta = convert(takeset, tmp_path, found)
    full = np.array(CAMERA) * 12
    assert np.allclose(meta["camera_depth_intrinsics"][:], full / 7.5, rtol=1e-6) and len(meta["camera_depth_intrinsics"]) == 18
    expected = dict(zip(("fx", "fy", "cx", "cy", "width", "height"), (*full.tolist(), 1920, 1440)))
    assert entry["details"]["cameras"]["camera_matrix.csv"] == expected
    assert np.allclose(camera_info(demo, "camera_depth")[0], full / 7.5, rtol=1e-6)


UNUSABLE_MATRICES = {
    "empty": b"", "text": b"no matrix", "zeros": b"\0" * 60, "four columns": b"1,0,0,0\n0,1,0,0\n0,0,1,0",
    "two rows": matrix_file(CAMERA).rpartition(b"\n")[0], "no focal length": matrix_file((0, *CAMERA[1:])),
    "negative": matrix_file((CAMERA[0], -5.0, *CAMERA[2:])), "not a number": matrix_file(("nan", *CAMERA[1:])),
    "infinite": matrix_file((*CAMERA[:2], "inf", CAMERA[3])), "word": matrix_file(("wide", *CAMERA[1:])),
}


def with_matrix(columns, data):
    found = session(times="time", columns=columns)
    found.camera = data
    return found


@pytest.fixture(scope="module")
def matrices(takeset, tmp_path_factory):
    """An older and a newer scan with each of these matrices."""
    ages = {"old": OLD, "new": NEW}
    found = {f"{age} {name}": with_matrix(columns, data) for age, columns in ages.items() for name, data in UNUSABLE_MATRICES.items()}
    return Scans(takeset, tmp_path_factory.mktemp("matrices"), found)


@pytest.mark.parametrize("name", UNUSABLE_MATRICES)
def test_a_camera_matrix_that_is_not_valid(matrices, name):
    (old_entry, demo, meta), (new_entry, _, new_meta) = matrices[f"old {name}"], matrices[f"new {name}"]
    assert scan_codes(old_entry) == scan_codes(new_entry) == ["intrinsics-unusable"]
    assert "intrinsics" not in meta and "camera_depth_intrinsics" not in meta and "camera_info" not in demo.attrs
    assert (new_meta["intrinsics"][:] == session(times="time").numbers("fx", "fy", "cx", "cy").astype("f4")).all()


def resized(size, columns=NEW):
    """A capture of 1920x1440 whose video another program has resized; tables and depth are the app's."""
    found = session(columns=columns, depth_size=(256, 192), long={}, count=18)
    found.video = scan_video(tuple(range(0, 180, 10)), size=size)
    return found


@pytest.mark.parametrize("columns", [OLD, NEW])
def test_intrinsics_follow_a_video_that_was_resized(takeset, tmp_path, columns):
    found = resized((640, 480), columns)
    entry, demo, meta = convert(takeset, tmp_path, found)
    full = np.array(CAMERA) * 12 if columns == OLD else found.numbers("fx", "fy", "cx", "cy")
    assert np.allclose(meta["intrinsics"][:], full / 3, rtol=1e-6)
    assert np.allclose(meta["camera_depth_intrinsics"][:], full / 7.5, rtol=1e-6)
    assert np.allclose(camera_info(demo)[0], np.array(CAMERA) * 4, rtol=1e-6) and camera_info(demo)[1] == (640, 480)
    matrix = entry["details"]["cameras"]["camera_matrix.csv"]
    assert (matrix["width"], matrix["height"]) == (1920, 1440) and np.isclose(matrix["fx"], CAMERA[0] * 12)
    scaled = finding(entry, "intrinsics-scaled")
    assert scaled["severity"] == "info" and "1920x1440" in scaled["message"] and "640x480" in scaled["message"]
    assert scan_codes(entry, "warning") == []


def test_a_video_of_another_shape_is_reported(takeset, tmp_path):
    entry, _, meta = convert(takeset, tmp_path, resized((640, 360)))
    assert scan_codes(entry, "warning") == ["intrinsics-implausible"] and "640x360" in finding(entry, "intrinsics-implausible")["message"]
    assert np.isclose(meta["camera_depth_intrinsics"][0, 0], CAMERA[0] * 12 / 7.5)


@pytest.mark.parametrize("camera, words", [
    ((121.25, 120.75, 170, 60.25), ["170.0, 60.2", "160x120"]), ((121.25, 120.75, 79.5, -3), ["not near the middle"]), ((500, 500, 79.5, 60.25), ["18.2", "30 to 120"]),
    ((30, 30, 79.5, 60.25), ["138.9"]),
])
def test_intrinsics_that_cannot_be_are_reported(takeset, tmp_path, camera, words):
    found = session(times="time", columns=OLD)
    found.camera = matrix_file(camera)
    entry, _, meta = convert(takeset, tmp_path, found)
    message = finding(entry, "intrinsics-implausible")["message"]
    assert scan_codes(entry) == ["intrinsics-implausible"] and all(word in message for word in words), message
    assert (meta["intrinsics"][:] == np.float32(camera)).all()


def test_nothing_is_synthesized_where_nothing_is_known(takeset, tmp_path):
    found = session(times="time", columns=OLD)
    found.camera = None
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert "intrinsics" not in meta and "camera_depth_intrinsics" not in meta and "camera_info" not in demo.attrs and scan_codes(entry) == []
