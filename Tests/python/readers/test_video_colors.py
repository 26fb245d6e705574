"""Videos: colors, bit depths, and sizes that are no multiple of a block."""

import struct

import numpy as np
import pytest
from images import close, numbers
from video_checks import convert
from videos import decoded, made, probe, video_file


def flat(red, green, blue, matrix, full, pixel_format="yuv420p", size=(160, 120)):
    """A video of one color, converted to YUV by the definition of the matrix."""
    kr, kb = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114)}[matrix]
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    cb, cr = (blue - luma) / (2 - 2 * kb), (red - luma) / (2 - 2 * kr)
    levels = [255 * luma, 255 * cb + 128, 255 * cr + 128] if full else [219 * luma + 16, 224 * cb + 128, 224 * cr + 128]
    area = size[0] * size[1]
    if pixel_format == "yuv420p":
        raw = b"".join(bytes([round(level)]) * n for level, n in zip(levels, (area, area // 4, area // 4)))
    else:
        raw = b"".join(struct.pack("<H", round(level * 4)) * n for level, n in zip(levels, (area, area // 4, area // 4)))
    bounds = "pc" if full else "tv"
    arguments = ["-f", "rawvideo", "-pix_fmt", pixel_format, "-s", f"{size[0]}x{size[1]}", "-r", 30, "-color_range", bounds, "-i", "-"]
    arguments += ["-c:v", "libx264", "-qp", 4, "-colorspace", matrix, "-color_primaries", matrix, "-color_trc", "bt709"]
    arguments += ["-color_range", bounds]
    return made(".mov", *arguments, contents=raw * 3)


@pytest.mark.parametrize("matrix", ["bt709", "smpte170m"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv420p10le"])
def test_colors_follow_matrix_and_range(takeset, tmp_path, matrix, full, pixel_format):
    color = (0.8, 0.35, 0.15)
    _, demo, _, _ = convert(takeset, tmp_path, flat(*color, matrix, full, pixel_format))
    close(demo["obs/camera_image"][:], np.broadcast_to(np.round(np.array(color) * 255), (3, 120, 160, 3)), most=3, mean=2)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_ten_bits_are_converted_to_eight(takeset, tmp_path, codec):
    _, demo, meta, path = convert(takeset, tmp_path, video_file(codec=codec, extra=("-pix_fmt", "yuv420p10le")))
    assert probe(path, "-show_streams")["streams"][0]["pix_fmt"] == "yuv420p10le"
    close(demo["obs/camera_image"][:], decoded(path))
    assert numbers(demo["obs/camera_image"][:]) == list(range(45))


def test_an_image_whose_sides_are_not_a_multiple_of_a_block_is_cropped(takeset, tmp_path):
    _, demo, _, path = convert(takeset, tmp_path, video_file(size=(150, 106)))
    assert demo["obs/camera_image"].shape == (45, 106, 150, 3) and numbers(demo["obs/camera_image"][:]) == list(range(45))
    close(demo["obs/camera_image"][:], decoded(path, size=(150, 106)))
