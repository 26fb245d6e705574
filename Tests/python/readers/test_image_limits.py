"""Images that claim too much: size, number of scans."""

import numpy as np
import pytest
from command import BINARY, measured
from conversions import Together
from images import numbers, progressive, with_size
from outputs import finding, take, warnings
from session_faults import V1, V2, pipeline
from stack_sessions import COUNT, SIZE, v1, v2, write


HUGE = [(make, number) for make in (v1, v2) for number in (0, 7, COUNT - 1)]


@pytest.fixture(scope="module")
def huge(takeset, tmp_path_factory):
    """Sessions of which one image claims a huge size, with images that are made smaller if they are large, and as they are."""
    found = {}
    for make, number in HUGE:
        session = found[f"{make.__name__}-{number}"] = make()
        session.rgb = {**session.rgb, number: with_size(session.rgb[number], 65500, 65500)}
    root = tmp_path_factory.mktemp("huge")
    return [Together(takeset, root / str(n), found, arguments) for n, arguments in enumerate([(), pipeline(root, "transforms: [align]\n")])]


@pytest.mark.parametrize("make, number", HUGE)
def test_an_image_that_claims_a_huge_size_is_a_masked_row(huge, make, number):
    """The first image does not set the size of the others."""
    for batch in huge:
        entry, demo, meta = batch[f"{make.__name__}-{number}"]
        valid = meta["streams/camera_image/valid"][:]
        assert len(valid) == COUNT and np.flatnonzero(valid == 0).tolist() == [number]
        assert not demo["obs/camera_image"][number].any()
        others = [n for n in range(COUNT) if n != number]
        assert numbers(demo["obs/camera_image"][others]) == others
        found = finding(entry, "image-undecodable")
        assert found["count"] == 1 and found["file"] == f"rgb/{number:06d}.jpg"


def test_an_image_over_the_limit_is_refused_from_its_header(takeset, sessions, tmp_path):
    for path in (sessions / V1 / "rgb").iterdir():
        data = bytearray(path.read_bytes())
        start = data.index(b"\xff\xc0")
        data[start + 5 : start + 9] = bytes([0xFF, 0xDC, 0xFF, 0xDC])  # 65500 x 65500
        path.write_bytes(data)
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align]\n")
    takeset.convert(sessions, output=tmp_path / "out", check=3, arguments=["--pipeline", tmp_path / "p.yaml"])
    assert "65500x65500, over the limit of 8192x8192" in take(tmp_path / "out", V1)["reason"]
    assert take(tmp_path / "out", V2)["outcome"] == "written"
    assert takeset("inspect", sessions / V1).returncode == 3


# Progressive images of many scans


def test_the_images_of_many_scans_are_valid(tmp_path):
    """Only their number of scans can be a reason to refuse them."""
    import io

    from PIL import Image, ImageFile

    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    for scans in 12, 150, 568:
        image = Image.open(io.BytesIO(progressive(*SIZE, scans)))
        assert image.size == SIZE and image.info.get("progressive") and (np.asarray(image.convert("RGB")) == 128).all()


def test_an_image_of_many_scans_is_not_decoded(takeset, tmp_path):
    found = {str(scans): v1() for scans in (12, 40, 150, 568)}
    for scans, session in found.items():
        session.rgb = {**session.rgb, 0: progressive(*SIZE, int(scans)), 5: progressive(*SIZE, int(scans))}
    batch = Together(takeset, tmp_path, found)
    for scans in "150", "568":
        entry, demo, meta = batch[scans]
        assert np.flatnonzero(meta["streams/camera_image/valid"][:] == 0).tolist() == [0, 5] and not demo["obs/camera_image"][5].any()
        assert finding(entry, "image-undecodable")["count"] == 2 and "scans" in finding(entry, "image-undecodable")["message"]
    for scans in "12", "40":
        entry, demo, meta = batch[scans]
        assert meta["streams/camera_image/valid"][:].all() and (demo["obs/camera_image"][5] == 128).all()
        assert "image-undecodable" not in warnings(entry)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "inspect"])
def test_large_images_of_many_scans_cost_no_time(takeset, tmp_path, command):
    session = v1()
    session.rgb = dict.fromkeys(session.rgb, progressive(4096, 4096, 541))
    session.metadata["rgbResolution"] = [4096, 4096]
    write(tmp_path / "session", session.contents())
    arguments = ["run", tmp_path / "session", "--output", tmp_path / "out"] if command == "run" else ["inspect", tmp_path / "session"]
    code, _, seconds = measured(BINARY, *arguments)
    assert code == 3 and seconds < 8
    if command == "run":
        assert take(tmp_path / "out", "session")["findings"][-1]["code"] == "image-undecodable"
