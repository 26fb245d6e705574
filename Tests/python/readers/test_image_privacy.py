"""Images: what cameras write beside the pixels does not reach the output, and the pixels stay as they are, byte for byte."""

import io

import numpy as np
import pytest
from conversions import Together
from outputs import codes, traces
from PIL import Image
from session_faults import converted, pipeline
from stack_sessions import v2

MAKER, ARTIST, SERIAL, COMMENT = "Examplephone 12", "Ada Example", "SN-4711-0815", "at the example's desk"


def tagged(data, place=True, tail=b""):
    """The JPEG with what phones add: EXIF with a place, names and a serial number, XMP, a comment, a second image after the end."""
    exif = Image.Exif()
    exif[0x010F], exif[0x013B], exif[0x9286] = MAKER, ARTIST, COMMENT
    exif.get_ifd(0x8769)[0xA431] = SERIAL
    if place:
        exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 15.0), 3: "E", 4: (11.0, 34.0, 32.0)})
    block = b"Exif\0\0" + exif.tobytes().removeprefix(b"Exif\0\0")
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta>" + ARTIST.encode() + b"</x:xmpmeta>"

    def segment(marker, payload):
        return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload

    return data[:2] + segment(0xE1, block) + segment(0xE1, xmp) + segment(0xFE, COMMENT.encode()) + segment(0xEC, b"Ducky" + SERIAL.encode()) + data[2:] + tail


def stored(takeset, tmp_path, session, mode, reader=None):
    steps = f"writer: {{hdf5: {{image: {mode}}}}}\ntransforms: [align]\n" + (f"reader: {reader}\n" if reader else "")
    return converted(takeset, session, tmp_path, arguments=pipeline(tmp_path, steps))


@pytest.mark.parametrize("mode", ["jpeg", "jpeg-source", "raw", "png"])
def test_names_and_places_of_images_do_not_reach_the_output(takeset, tmp_path, mode):
    session = v2()
    plain = dict(session.rgb)
    second = tagged(plain[0])  # as in a multi-picture file
    session.rgb = {number: tagged(data, tail=second) for number, data in plain.items()}
    assert Image.open(io.BytesIO(session.rgb[0])).getexif()[0x013B] == ARTIST
    entry, demo, _ = stored(takeset, tmp_path, session, mode)
    assert traces(tmp_path / "out", MAKER, ARTIST, SERIAL, COMMENT, "Exif") == []
    assert "location-removed" in codes(entry, "info")
    if mode.startswith("jpeg"):
        assert [bytes(row) for row in demo["obs/camera_image"][:]] == [plain[n] for n in sorted(plain)]


@pytest.mark.parametrize("mode", ["jpeg", "jpeg-source"])
def test_images_without_such_data_keep_their_bytes(takeset, tmp_path, mode):
    session = v2()
    padded = {number: data + bytes(16) for number, data in session.rgb.items()}
    session.rgb = padded
    entry, demo, _ = stored(takeset, tmp_path, session, mode)
    assert "location-removed" not in codes(entry)
    assert [bytes(row) for row in demo["obs/camera_image"][:]] == [padded[n] for n in sorted(padded)]


def test_color_profiles_stay(takeset, tmp_path):
    session = v2()
    profile = b"\xff\xe2" + (2 + 12 + 2 + 64).to_bytes(2, "big") + b"ICC_PROFILE\0\1\1" + bytes(range(64))
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x01"
    session.rgb = {number: data[:2] + profile + adobe + data[2:] for number, data in session.rgb.items()}
    expected = [session.rgb[n] for n in sorted(session.rgb)]
    session.rgb = {number: tagged(data) for number, data in session.rgb.items()}
    _, demo, _ = stored(takeset, tmp_path, session, "jpeg-source")
    assert [bytes(row) for row in demo["obs/camera_image"][:]] == expected


def test_a_place_is_kept_when_that_is_asked_for(takeset, tmp_path):
    session = v2()
    session.rgb = {number: tagged(data) for number, data in session.rgb.items()}
    expected = [session.rgb[n] for n in sorted(session.rgb)]
    entry, demo, _ = stored(takeset, tmp_path, session, "jpeg", "{name: stack-session, keep-location: true}")
    assert [bytes(row) for row in demo["obs/camera_image"][:]] == expected and "location-removed" not in codes(entry)


def test_progressive_images_decode_to_the_same_pixels(takeset, tmp_path):
    session = v2()
    for number, data in session.rgb.items():
        output = io.BytesIO()
        Image.open(io.BytesIO(data)).save(output, "JPEG", progressive=True, quality=90)
        session.rgb = {**session.rgb, number: output.getvalue()}
    expected = [np.asarray(Image.open(io.BytesIO(session.rgb[n]))) for n in sorted(session.rgb)]
    session.rgb = {number: tagged(data, place=False) for number, data in session.rgb.items()}
    entry, demo, _ = stored(takeset, tmp_path, session, "jpeg")
    assert "location-removed" not in codes(entry) and traces(tmp_path / "out", ARTIST, COMMENT) == []
    for row, pixels in zip(demo["obs/camera_image"][:], expected, strict=True):
        assert (np.asarray(Image.open(io.BytesIO(bytes(row)))) == pixels).all()


def test_bytes_behind_the_end_cost_no_image(takeset, tmp_path):
    found = {str(count): v2() for count in (0, 1, 61, 62, 63, 64, 65, 200)}
    for count, session in found.items():
        session.rgb = {number: data + bytes(int(count)) for number, data in session.rgb.items()}
    arguments = pipeline(tmp_path, "writer: {hdf5: {image: jpeg}}\ntransforms: [align]\n")
    for demo, meta in Together(takeset, tmp_path, found, arguments).demos.values():
        assert meta["streams/camera_image/valid"][:].all() and all(len(row) > 100 for row in demo["obs/camera_image"][:])


def test_segments_within_a_scan_stay(takeset, tmp_path):
    """A decoder ends the scan there; without the segment it would go on, to other pixels."""
    session = v2()
    data = session.rgb[0]
    scan = data.index(b"\xff\xda")
    inside = data[: scan + 60] + b"\xff\xe1\0\x0cExif\0\0abcd" + data[scan + 60 :]
    session.rgb = {**session.rgb, 0: inside}
    _, demo, _ = stored(takeset, tmp_path, session, "jpeg")
    assert bytes(demo["obs/camera_image"][0]) in (inside, b"")


def test_nothing_hides_behind_the_fields_of_segments_that_stay(takeset, tmp_path):
    """The thumbnail of a JFIF header, and bytes behind Adobe's fields."""
    session = v2()
    plain = dict(session.rgb)
    secret = (COMMENT + SERIAL).encode().ljust(3 * 64, b".")
    assert all(data[2:4] == b"\xff\xe0" and data[4:6] == b"\0\x10" for data in plain.values())

    def hiding(data):
        header = data[6:18] + bytes([8, 8]) + secret  # a thumbnail of 8 x 8
        adobe = b"Adobe\0\x64\0\0\0\0\x01" + secret
        segments = (b"\xff\xe0", header), (b"\xff\xee", adobe)
        return data[:2] + b"".join(marker + (len(body) + 2).to_bytes(2, "big") + body for marker, body in segments) + data[20:]

    session.rgb = {number: hiding(data) for number, data in plain.items()}
    _, demo, _ = stored(takeset, tmp_path, session, "jpeg-source")
    assert traces(tmp_path / "out", COMMENT, SERIAL) == []
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x01"
    assert [bytes(row) for row in demo["obs/camera_image"][:]] == [data[:20] + adobe + data[20:] for _, data in sorted(plain.items())]
