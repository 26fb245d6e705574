"""Images as files: JPEG and PNG side by side, transparency, 16 bits and gamma, damage where bytes are kept, and images that lean on others."""

import io
import shutil
import struct
import zlib

import numpy as np
import pytest
from conversions import Together
from images import frame_code
from odd_images import SIGNATURE, every_image, with_alpha, with_damaged_images
from outputs import codes, finding
from phone_takes import Takes
from PIL import Image
from scans import chunk, png
from session_faults import pipeline
from stack_sessions import COUNT, still

# PNG files, of scenes


def sixteen_bits(pixels, *more):
    """A PNG of 16 bits, with more chunks before its pixels."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, 2 if channels == 3 else 6, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    return SIGNATURE + chunk(b"IHDR", header) + b"".join(more) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def with_gamma(gamma):
    return lambda pixels: sixteen_bits(pixels.astype(int) * 257, chunk(b"gAMA", struct.pack(">I", gamma)))


PNGS = {
    "transparent": lambda pixels: png(with_alpha(pixels, (0, 128))),
    "opaque": lambda pixels: png(with_alpha(pixels, (255, 255))),
    "sixteen": lambda pixels: sixteen_bits(pixels.astype(int) * 257),
    "sixteen and noisy": lambda pixels: sixteen_bits((pixels.astype(int) * 257 + np.random.default_rng(3).integers(-120, 120, pixels.shape)).clip(0, 65535)),
    "sixteen and transparent": lambda pixels: sixteen_bits(with_alpha(pixels, (0, 128)).astype(int) * 257),
    "linear": with_gamma(100_000),
    "usual gamma": with_gamma(45_455),
}


@pytest.fixture(scope="module")
def scenes(takeset, tmp_path_factory):
    found = {"plain": []} | {name: every_image(change) for name, change in PNGS.items()}
    options = ["--form", "nerfcapture", "--seconds", 0.7, "--size", "96x72"]
    return Takes(takeset, tmp_path_factory.mktemp("pngs"), "transforms-json", options, found)


def images(takes, name):
    return takes[name][2]["obs/camera_image"][:]


@pytest.mark.parametrize("name", ["transparent", "sixteen and transparent"])
def test_transparent_pixels_are_those_on_black_in_every_image(scenes, name):
    plain = images(scenes, "plain").astype(int)
    plain[:, 30:40, 20:60] = 0
    plain[:, 40:50, 20:60] = (plain[:, 40:50, 20:60] * 128 + 127) // 255
    assert np.array_equal(images(scenes, name), plain)
    found = finding(scenes[name][1], "image-transparent")
    assert found["count"] == len(plain) and found["severity"] == "warning" and "black" in found["message"] and found["file"]


@pytest.mark.parametrize("name", ["opaque", "sixteen", "sixteen and noisy", "usual gamma"])
def test_other_forms_of_the_same_pixels_are_the_same(scenes, name):
    assert np.array_equal(images(scenes, name), images(scenes, "plain")) and codes(scenes[name][1]) == codes(scenes["plain"][1])


def test_compressed_bytes_that_no_row_needs_are_refused(takeset, scenes, tmp_path):
    """Gray of 16 bits has a third of the bytes that color has."""
    def overlong(pixels):
        rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels[..., 0].astype(int) * 257)
        header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, 0, 0, 0, 0)
        data = zlib.compress(rows + np.random.default_rng(5).bytes(len(rows)), 0)
        return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")

    shutil.copytree(scenes.inputs / "plain", tmp_path / "in/plain")
    every_image(overlong)(tmp_path / "in/plain")
    run = takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    assert "compressed data" in run.stdout + run.stderr


def test_values_of_another_gamma_become_those_of_srgb(scenes):
    light = images(scenes, "plain") / 255
    expected = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055) * 255
    assert np.abs(images(scenes, "linear") - expected).max() <= 2  # libpng takes sRGB for a power of 2.2


# Both kinds, of Record3D's EXR exports


def as_png(path):
    Image.open(path).save(path.with_suffix(".png"))
    path.unlink()


def with_other_ending(folder):
    Image.open(folder / "rgb/3.jpg").save(folder / "rgb/3.jpg", "PNG")


def with_two_of_a_number(folder):
    Image.new("RGB", (144, 192)).save(folder / "rgb/2.png")


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"plain": [], "first": lambda folder: as_png(folder / "rgb/0.jpg"), "later": lambda folder: as_png(folder / "rgb/3.jpg")}
    found |= {"misnamed": with_other_ending, "two": with_two_of_a_number}
    options = ["--form", "exr", "--size", "144x192", "--depth-size", "48x64", "--seconds", 0.4]
    return Takes(takeset, tmp_path_factory.mktemp("kinds"), "record3d", options, found)


@pytest.mark.parametrize("name", ["first", "later", "misnamed", "two"])
def test_an_image_of_another_kind_is_an_image(takes, name):
    _, entry, demo, meta = takes[name]
    assert meta["streams/camera_image/valid"][:].all() and np.array_equal(demo["obs/camera_image"][:], images(takes, "plain"))
    if name == "two":
        found = finding(entry, "images-duplicate")
        assert "rgb/2.jpg and rgb/2.png" in found["message"] and found["count"] == 1
    else:
        assert codes(entry) == codes(takes["plain"][1])


# JPEG files, of sessions


WAYS = {3: "cut", 9: "noise", 15: "zeros", 21: "tables", 27: "png"}


@pytest.mark.parametrize("mode", ["raw", "png", "jpeg", "jpeg-source"])
def test_a_damaged_image_is_masked_however_images_are_stored(takeset, tmp_path, mode):
    arguments = pipeline(tmp_path, f"writer: {{hdf5: {{image: {mode}}}}}\ntransforms: [align]\n")
    entry, demo, meta = Together(takeset, tmp_path, {"take": with_damaged_images(still(), WAYS)}, arguments)["take"]
    assert (meta["streams/camera_image/valid"][:] == 0).nonzero()[0].tolist() == list(WAYS)
    assert finding(entry, "image-undecodable")["count"] == len(WAYS)
    stored = demo["obs/camera_image"][:]
    if mode != "raw":
        assert all((len(row) == 0) == (n in WAYS) for n, row in enumerate(stored))
        stored = [np.asarray(Image.open(io.BytesIO(bytes(row)))) if len(row) else np.zeros((72, 96, 3)) for row in stored]
    assert [frame_code(image) for image in stored] == [0 if n in WAYS else n for n in range(COUNT)]
