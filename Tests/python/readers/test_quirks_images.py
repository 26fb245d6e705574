"""Quirks of sessions, rows 45 to 49: intrinsics, videos and images."""

import struct

import numpy as np
import pytest
from images import frame_code
from outputs import bits, finding
from quirks import SLAM, alone, pipeline, quirk, two_cameras
from session_checks import rows_are, same, times_are
from stack_sessions import COUNT, SIZE, UNEVEN, inertial, jpeg, still, v1, v2, v3_slam
from videos import video_file


@quirk(45, *SLAM, of=v3_slam)
def two_cameras_that_agree(session):
    session.metadata["cameraIntrinsics"] = {"fx": 72, "fy": 72, "cx": 48, "cy": 36}


def test_row_45_the_later_calibration_is_used_and_both_are_kept(batch):
    entry, _, meta = batch(two_cameras)
    assert np.allclose(meta["intrinsics"][:], np.array([350.5, 351, 241, 179]) / 5)
    cameras = entry["details"]["cameras"]
    assert (cameras["calib.txt"]["fx"], cameras["metadata.json"]["fx"]) == (350.5, 72)
    _, _, meta = batch(two_cameras_that_agree)
    assert np.allclose(meta["intrinsics"][:], [72, 72, 48, 36])


@quirk(46)
def no_intrinsics():
    return v1()


def test_row_46_intrinsics_are_not_synthesized(batch):
    entry, demo, meta = batch(no_intrinsics)
    assert "intrinsics" not in meta and "camera_depth_intrinsics" not in meta
    assert "camera_info" not in demo.attrs and "cameras" not in entry["details"]


@quirk(47, "times-from-imu", *SLAM, of=v3_slam)
def video_missing(session):
    session.video = None


@quirk(47, "movie-unusable", *SLAM, "times-from-imu", of=v3_slam)
def video_unfinished(session):
    session.video = b"\0\0\0\x14ftypqt  \0\0\0\0qt  " + b"\0\0\x40\0mdat" + bytes(2000)


@quirk(47, "movie-count-mismatch", *SLAM, "times-from-imu", of=v3_slam)
def video_of_fewer_images(session):
    session.video = video_file(COUNT - 3, 60)


@quirk(47, of=v2)
def video_missing_of_arkit(session):
    session.metadata["hasVideo"] = True


@pytest.mark.parametrize("build", [video_missing, video_unfinished, video_of_fewer_images])
def test_row_47_without_a_usable_video_times_come_from_the_imu(batch, build):
    _, demo, meta = batch(build)
    rows_are(demo, meta, range(COUNT))
    found = inertial()
    span = found[-1]["timestamp"] - found[0]["timestamp"]
    times_are(meta, np.arange(COUNT) * span / (COUNT - 1), tolerance=1000)


def test_row_47_arkit_needs_no_video(batch):
    _, demo, meta = batch(video_missing_of_arkit)
    same((demo, meta), batch.demos["clean-v2"])


@quirk(47, *SLAM, "frames-dropped", of=v3_slam)
def video_of_uneven_times(session):
    session.video = video_file(ticks=UNEVEN)


def test_row_47_a_video_gives_times_and_not_numbers(batch):
    _, demo, meta = batch(video_of_uneven_times)
    rows_are(demo, meta, range(COUNT))
    times_are(meta, [(i + (i >= 18)) / 60 for i in range(COUNT)], tolerance=1)
    assert meta["gaps"][:, 0].tolist() == [17]


def exif(orientation, order="<"):
    """The least Exif there is: one tag."""
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"Exif\0\0" + head + struct.pack(order + "HHHIHHI", 1, 0x112, 3, 1, orientation, 0, 0)


def with_images(change):
    session = still()
    session.rgb = {number: change(number, data) for number, data in session.rgb.items()}
    return session


@quirk(48, "image-undecodable")
def images_cut():
    changes = {3: lambda data: data[: len(data) // 2], 11: lambda data: b"", 12: lambda data: b"\0" * len(data), 20: lambda data: data[:-2]}
    return with_images(lambda number, data: changes.get(number, bytes)(data))


CUTS = {2: 0.007, 7: 0.04, 8: 0.16, 13: 0.28, 19: 0.33, 25: 0.53, 31: 0.82, 38: 1}  # fraction of the bytes before the pixels


@quirk(48, "image-undecodable")
def images_cut_before_their_pixels():
    """Cuts at a marker, in tables, in the size: no state of the decoder reaches the next image."""
    return with_images(lambda number, data: data[: round(data.index(b"\xff\xda") * CUTS[number])] if number in CUTS else data)


@quirk(48, "image-undecodable", outcome="failed")
def too_many_images_cut():
    return with_images(lambda number, data: data[:300] if number % 4 == 1 else data)


@quirk(48, "exif-rotation")
def images_rotated_by_exif():
    return with_images(lambda number, data: jpeg(number, SIZE, exif(6)))


@quirk(48, "exif-rotation")
def later_image_rotated_by_exif():
    return with_images(lambda number, data: jpeg(number, SIZE, exif(3, ">")) if number == 27 else data)


@quirk(48)
def images_with_other_exif():
    """Upright, and Exif that is cut off or points nowhere."""
    another_tag = exif(6).replace(b"\x12\x01", b"\x13\x01")
    strange = [exif(1), exif(1, ">"), exif(6)[:20], b"Exif\0\0II*\0\xff\xff\xff\x7f", b"Exif\0\0", another_tag]
    return with_images(lambda number, data: jpeg(number, SIZE, strange[number % 6]))


def test_row_48_images_that_cannot_be_decoded_are_masked(batch):
    entry, demo, meta = batch(images_cut)
    bad = [3, 11, 12, 20]
    valid = meta["streams/camera_image/valid"][:]
    assert meta["source_index"][:].tolist() == list(range(COUNT)) and {3, 11, 12} <= set((valid == 0).nonzero()[0]) <= set(bad)
    for row in range(COUNT):
        if valid[row]:
            assert frame_code(demo["obs/camera_image"][row]) == row
        else:
            assert not demo["obs/camera_image"][row].any()
    assert finding(entry, "image-undecodable")["count"] == (valid == 0).sum()
    assert bits(meta)["image-undecodable"] == (valid == 0).nonzero()[0].tolist()


def test_row_48_an_image_cut_anywhere_spoils_no_other(batch):
    entry, demo, meta = batch(images_cut_before_their_pixels)
    assert (meta["streams/camera_image/valid"][:] == 0).nonzero()[0].tolist() == sorted(CUTS)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == [0 if i in CUTS else i for i in range(COUNT)]
    assert finding(entry, "image-undecodable")["count"] == len(CUTS)


def test_row_48_too_many_of_them_fail_the_take(batch):
    entry, _, _ = batch(too_many_images_cut)
    assert "fifth" in entry["reason"]


@pytest.mark.parametrize("build", [images_rotated_by_exif, later_image_rotated_by_exif, images_with_other_exif])
def test_row_48_exif_rotates_nothing(batch, build):
    entry, demo, meta = batch(build)
    same((demo, meta), batch.demos["clean-still"])
    if build is not images_with_other_exif:
        count, first = {images_rotated_by_exif: (COUNT, 0), later_image_rotated_by_exif: (1, 27)}[build]
        found = finding(entry, "exif-rotation")
        assert (found["count"], found["file"]) == (count, f"rgb/{first:06}.jpg")


@quirk(49, "resolution-mismatch", of=still)
def resolution_that_is_another(session):
    session.metadata["rgbResolution"] = [480, 360]


@quirk(49, "image-size-changed", outcome="failed")
def images_of_two_sizes():
    return with_images(lambda number, data: jpeg(number, (192, 144)) if number == 33 else data)


def test_row_49_images_are_of_the_size_in_their_header(batch):
    _, demo, meta = batch(resolution_that_is_another)
    assert demo["obs/camera_image"].shape == (COUNT, 72, 96, 3)
    rows_are(demo, meta, range(COUNT))


def test_row_49_images_of_two_sizes_fail_the_take(batch):
    entry, _, _ = batch(images_of_two_sizes)
    assert "rgb/000033.jpg" in entry["reason"] and "192x144" in entry["reason"]


def test_row_49_images_of_two_sizes_fail_the_take_that_is_resized_too(takeset, batch, tmp_path):
    arguments = pipeline(tmp_path, {"resize-image": {"width": 48, "height": 36, "mode": "stretch"}})
    entry, demo, _ = alone(takeset, batch, images_of_two_sizes, tmp_path / "out", arguments, check=3)
    assert demo is None and finding(entry, "image-size-changed")["severity"] == "error"
