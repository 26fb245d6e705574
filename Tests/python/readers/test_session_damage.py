"""Damaged sessions: each fails with a sentence or loses only what is damaged, and stops no other take."""

import json
import shutil

import h5py
import numpy as np
import pytest
from conversions import PLAIN
from outputs import demos, manifest, take
from session_faults import V1, V2, fails


@pytest.mark.parametrize("name, contents, code, words", [
    ("poses.json", b"", "json-invalid", ["poses.json", "line 1, column 1"]),
    ("poses.json", b'[{"rgbIndex": 0, "timest', "json-invalid", ["poses.json", "the file ends", "column"]),
    ("poses.json", b"[" * 5000, "json-type", ["expected an object"]),
    ("metadata.json", b"{]", "json-invalid", ["metadata.json", "line 1, column 2"]),
    ("encoders.json", b'[{"timestamp": 1.0, "esp_timestamp_ms": -4}]', "json-type", ["encoders.json", "[0].esp_timestamp_ms", "found -4"]),
])
def test_json_that_is_not_valid(takeset, sessions, tmp_path, name, contents, code, words):
    """In each file; StackSessionTests and JSONTests have more of what can be wrong."""
    damaged = V2 if name == "encoders.json" else V1
    (sessions / damaged / name).write_bytes(contents)
    fails(takeset, sessions, tmp_path / "out", code, *words, take_id=damaged)


def test_a_key_twice_is_refused_wherever_it_is(takeset, sessions, tmp_path):
    path = sessions / V1 / "poses.json"
    path.write_text(path.read_text().replace('"rgbIndex"', '"rgbIndex": 7, "rgbIndex"', 1))
    fails(takeset, sessions, tmp_path / "out", "json-type", "poses.json", "[0].rgbIndex", "twice", take_id=V1)


def test_a_file_where_the_images_should_be(takeset, sessions, tmp_path):
    shutil.rmtree(sessions / V1 / "rgb")
    (sessions / V1 / "rgb").write_text("")
    fails(takeset, sessions, tmp_path / "out", "too-few-images", "0 of the 30 images")


DAMAGES = {
    "empty": (lambda data: b"", "the file is empty"),
    "cut": (lambda data: data[: len(data) // 2], ""),
    "text": (lambda data: b"<html>not found</html>", "FF D8 FF"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_image_that_cannot_be_decoded_is_a_masked_row(takeset, sessions, tmp_path, damage):
    change, words = DAMAGES[damage]
    for number in 0, 7:
        path = sessions / V1 / f"rgb/{number:06d}.jpg"
        path.write_bytes(change(path.read_bytes()))
    takeset.convert(sessions, output=tmp_path / "out", arguments=PLAIN)
    demo, meta = demos(tmp_path / "out")[V1]
    valid = meta["streams/camera_image/valid"][:]
    assert list(np.flatnonzero(valid == 0)) == [0, 7] and len(valid) == 30
    assert not demo["obs/camera_image"][0].any() and not demo["obs/camera_image"][7].any()
    (finding,) = [f for f in take(tmp_path / "out", V1)["findings"] if f["code"] == "image-undecodable"]
    assert finding["count"] == 2 and finding["file"] == "rgb/000000.jpg" and words in finding["message"]
    inspected = json.loads(takeset("inspect", sessions / V1, "--json", check=0).stdout)["takes"][0]
    assert [f["count"] for f in inspected["findings"] if f["code"] == "image-undecodable"] == [2]
    takeset.convert(sessions / V1, output=tmp_path / "alone", arguments=PLAIN)
    with h5py.File(tmp_path / "alone/dataset.h5") as f:  # masked rows count for nothing
        assert list(f["mask/train"][:]) == [b"demo_000000"]
        assert f["stats/camera_image/count"][:].tolist() == [28 * 480 * 360] * 3
        assert f["stats/camera_image/min"][:].tolist() == demo["obs/camera_image"][:][valid == 1].min((0, 1, 2)).tolist()


def test_metadata_of_megabytes_is_refused(takeset, sessions, tmp_path):
    (sessions / V1 / "metadata.json").write_text('{"a": [' + "1," * 600_000 + "1]}")
    fails(takeset, sessions, tmp_path / "out", "input-too-large", "metadata.json", "over the limit of 1048576")


def test_stopping_at_the_first_failure(takeset, sessions, tmp_path):
    (sessions / V1 / "poses.json").write_text("{}")
    takeset.convert(sessions, output=tmp_path / "out", check=3, arguments=["--on-failure", "stop", "--jobs", "1"])
    assert [t["outcome"] for t in manifest(tmp_path / "out")["record"]["takes"]] == ["failed"]


def test_the_reason_of_a_failure_does_not_depend_on_timing(takeset, sessions, tmp_path):
    from PIL import Image

    for number, size in (12, (20, 10)), (13, (30, 10)), (22, (40, 10)):
        Image.new("RGB", size).save(sessions / V1 / f"rgb/{number:06d}.jpg")
    for attempt in range(8):
        takeset.convert(sessions / V1, output=tmp_path / f"out{attempt}", check=3, arguments=["--jobs", attempt + 1])
        assert "rgb/000012.jpg: the image is 20x10, the take's first is 480x360" in take(tmp_path / f"out{attempt}", V1)["reason"]


def test_a_preview_of_damaged_takes_keeps_the_exit_code(takeset, sessions, tmp_path):
    (sessions / V1 / "poses.json").write_text("{}")
    takeset("inspect", sessions, "--preview", tmp_path / "sheet.png", check=3)
    assert (tmp_path / "sheet.png").exists()
    takeset("inspect", sessions / V1, "--preview", tmp_path / "none.png", check=3)
