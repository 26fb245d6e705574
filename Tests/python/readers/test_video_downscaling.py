"""Downscaled videos: the mean by the triangle filter of what ffmpeg decodes. That it is exact to the rounding, Swift's tests show."""

import numpy as np
import pytest
from images import close
from video_checks import convert
from videos import ENCODERS, decoded, made


def weights(source, target):
    """The triangle filter as a matrix; its support grows with the reduction."""
    scale = source / target
    centers = (np.arange(target) + 0.5) * scale
    matrix = np.maximum(0, 1 - abs(np.arange(source) + 0.5 - centers[:, None]) / scale)
    return matrix / matrix.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("matrix", ["bt709", "smpte170m"])
@pytest.mark.parametrize("full, codec", [(False, "h264"), (True, "hevc")], ids=["limited", "full"])
def test_downscaled_images_are_means_of_the_pixels(takeset, tmp_path, full, codec, matrix):
    color = ["-colorspace", matrix, "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "pc" if full else "tv"]
    source = ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30:duration=0.2,format=yuv420p,eq=contrast=0.5:saturation=0.4"]  # no value is cut off
    _, demo, _, path = convert(takeset, tmp_path, made(".mov", *source, *ENCODERS[codec], "-bf", 0, *color))
    assert demo["obs/camera_image"].shape == (6, 180, 320, 3)
    for image, frame in zip(demo["obs/camera_image"][:], decoded(path, size=(1280, 720)), strict=True):
        expected = [weights(720, 180) @ frame[..., channel].astype(float) @ weights(1280, 320).T for channel in range(3)]
        close(image, np.stack(expected, -1), most=20, mean=0.3)
