"""Stray Scanner: intrinsics of each row, of the camera matrix, or none."""

import numpy as np
import pytest
from scan_checks import Scans, camera_info, convert, scan_codes
from scans import CAMERA, NEW, OLD, matrix_file, session


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


def test_nothing_is_synthesized_where_nothing_is_known(takeset, tmp_path):
    found = session(times="time", columns=OLD)
    found.camera = None
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert "intrinsics" not in meta and "camera_depth_intrinsics" not in meta and "camera_info" not in demo.attrs and scan_codes(entry) == []
