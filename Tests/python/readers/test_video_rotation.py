"""Videos: images are stored upright, unless the display matrix is suspect."""

import numpy as np
import pytest
from conversions import pipeline
from images import close, numbers
from outputs import codes
from video_checks import convert
from videos import decoded, rotated, times, video_file


@pytest.mark.slow
@pytest.mark.parametrize("degrees, codec", [(0, "h264"), (90, "h264"), (180, "h264"), (270, "h264"), (90, "hevc")])
def test_images_are_stored_upright(takeset, tmp_path, degrees, codec):
    entry, demo, meta, path = convert(takeset, tmp_path, rotated(video_file(codec=codec), degrees))
    images = demo["obs/camera_image"]
    close(images[:], decoded(path, size=(160, 120) if degrees % 180 == 0 else (120, 160)), most=8)  # which rotates before it converts to RGB
    close(images[:], np.rot90(decoded(path, "-noautorotate"), -degrees // 90, axes=(1, 2)))
    assert numbers(images[:], degrees) == list(range(45))
    assert images.attrs["rotation_applied"] == degrees and entry["details"]["rotation"] == degrees
    assert entry["details"]["coded_size"] == [160, 120] and "rotation-suspect" not in codes(entry)
    assert list(meta["timestamp_ns"][:]) == times(path)


@pytest.mark.parametrize("option, name, degrees, size, applied", [
    ("auto", "recording_1761000000.mov", 90, (160, 120), 0),
    ("auto", "pour.mov", 90, (120, 160), 0),
    ("auto", "pour.mov", 270, (120, 160), 0),
    ("auto", "pour.mov", 180, (120, 160), 180),
    ("auto", "video_1761000000.mov", 90, (160, 120), 90),
    ("apply", "recording_1761000000.mov", 90, (160, 120), 90),
    ("apply", "pour.mov", 90, (120, 160), 90),
    ("keep", "pour.mov", 90, (160, 120), 0),
    ("keep", "pour.mov", 180, (160, 120), 0),
])
def test_a_suspect_matrix_is_kept_and_options_decide(takeset, tmp_path, option, name, degrees, size, applied):
    data = rotated(video_file(count=6, size=size), degrees, *size)
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", "rotation": option}) if option != "auto" else ()
    entry, demo, _, path = convert(takeset, tmp_path, data, name, arguments)
    images = demo["obs/camera_image"]
    assert images.attrs["rotation_applied"] == applied and entry["details"]["rotation"] == degrees
    assert numbers(images[:], applied) == list(range(6))
    suspect = option == "auto" and applied == 0
    assert ("rotation-suspect" in codes(entry)) is suspect
    if applied == 0:
        close(images[:], decoded(path, "-noautorotate", size=size))


def test_a_recording_without_a_matrix_is_not_suspect(takeset, tmp_path):
    entry, _, _, _ = convert(takeset, tmp_path, video_file(count=6), "recording_1761000000.mov")
    assert codes(entry) == []
