"""Downscaled videos, against the same filter in 64-bit floats on the planes that ffmpeg decodes."""

import h5py
import numpy as np
import pytest
from outputs import manifest
from videos import ENCODERS, ffmpeg, made

LUMA = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114)}  # weights of red and blue: ITU-R BT.709, BT.601


def weights(source, target):
    """The triangle filter as a matrix; its support grows with the reduction."""
    scale = source / target
    support = max(scale, 1)
    centers = (np.arange(target) + 0.5) * scale
    matrix = np.maximum(0, 1 - abs(np.arange(source) + 0.5 - centers[:, None]) / support)
    return matrix / matrix.sum(axis=1, keepdims=True)


def reduced(plane, size):
    return weights(plane.shape[0], size[1]) @ plane.astype(float) @ weights(plane.shape[1], size[0]).T


@pytest.mark.parametrize("matrix", LUMA)
@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("codec", ["h264", pytest.param("hevc", marks=pytest.mark.slow)])
def test_downscaled_images_are_exact_to_the_rounding(takeset, tmp_path, codec, full, matrix):
    width, height, target = 1280, 720, (320, 180)
    color = ["-colorspace", matrix, "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "pc" if full else "tv"]
    source = ["-f", "lavfi", "-i", f"testsrc2=size={width}x{height}:rate=30:duration=0.2,format=yuv420p,noise=alls=20:all_seed=1"]
    path = tmp_path / "coloured.mov"
    path.write_bytes(made(".mov", *source, *ENCODERS[codec], "-bf", 0, *color))
    takeset.convert(path, output=tmp_path / "out")
    (entry,) = manifest(tmp_path / "out")["record"]["takes"]
    raw = ffmpeg("-i", path, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuvj420p" if full else "yuv420p", "-")
    frames = np.frombuffer(raw, np.uint8).reshape(-1, width * height * 3 // 2)
    with h5py.File(tmp_path / "out" / entry["output"]["path"]) as file:
        images = file["data/demo_0/obs/camera_image"][:]
    assert images.shape == (len(frames), target[1], target[0], 3)

    red_weight, blue_weight = LUMA[matrix]
    green_weight = 1 - red_weight - blue_weight
    black, luma_range, chroma_range = (0, 255, 255) if full else (16, 219, 224)
    for frame, image in zip(frames, images):
        y, cb, cr = np.split(frame, [width * height, width * height * 5 // 4])
        gray = (reduced(y.reshape(height, width), target) - black) * 255 / luma_range
        blue, red = ((reduced(c.reshape(height // 2, width // 2), target) - 128) * 255 / chroma_range for c in (cb, cr))
        red_part, blue_part = 2 * (1 - red_weight) * red, 2 * (1 - blue_weight) * blue
        green = gray - (red_weight * red_part + blue_weight * blue_part) / green_weight
        exact = np.clip(np.stack([gray + red_part, green, gray + blue_part], -1), 0, 255)
        assert abs(image - exact).max() < 0.502
