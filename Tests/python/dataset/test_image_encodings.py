"""Images stored as PNG, JPEG or the source's JPEG files: what they decode to, their attributes, digests, statistics and sizes."""

import io
import json
import shutil

import h5py
import numpy as np
import pytest
from geometry_oracle import Runs, fails_everywhere, refused, steps_file
from images import psnr
from outputs import check_digests, demos, manifest, take
from PIL import Image
from PIL.JpegImagePlugin import get_sampling
from stack_sessions import v2
from videos import video_file

RESIZED = {"resize-image": {"width": 320, "height": 240}}
SESSIONS = ["room", "glove"]
TAKES = [*SESSIONS, "pour"]
SIZES = {"room": (480, 360), "glove": (96, 72), "pour": (160, 120)}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """A simulated room of 480x360 with noise; small images that keep their size; a video."""
    found = Runs(takeset, tmp_path_factory.mktemp("encodings"), {"glove": v2(), "pour.mov": video_file(count=6)})
    takeset.simulate(found.inputs / "room", "--seconds", 0.25, "--size", "480x360", "--depth-size", "16x12")
    return found


def stored(demo):
    """The encoded images of a demo as bytes."""
    return [row.tobytes() for row in demo["obs/camera_image"][:]]


def pixels(data):
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "RGB"
        return np.array(image)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("steps", [[], [RESIZED], [{"rotate": {"degrees": 90}}], [{"crop": {"center": [51, 37]}}]], ids=str)
def test_png_is_raw(runs, take, steps):
    _, demo, meta = runs(*steps, writer={"image": "png"})[take]
    raw = runs(*steps)[take][1]["obs/camera_image"]
    for data, expected in zip(stored(demo), raw[:], strict=True):
        assert data.startswith(b"\x89PNG\r\n\x1a\n") and np.array_equal(pixels(data), expected)
    assert check_digests(demo, meta) > 5


@pytest.mark.parametrize("take, steps", [("room", [RESIZED]), ("pour", []), ("pour", [RESIZED]), ("glove", [{"crop": {"center": [80, 60]}}])], ids=str)
def test_jpeg_is_close_to_raw(runs, take, steps):
    _, demo, _ = runs(*steps, writer={"image": "jpeg"})[take]
    raw = runs(*steps)[take][1]["obs/camera_image"][:]
    decoded = np.stack([pixels(data) for data in stored(demo)])
    assert decoded.shape == raw.shape and psnr(decoded, raw) > 35
    # Each row is its own image.
    assert all(psnr(a, b) > 33 for a, b in zip(decoded, raw))


def test_the_default_quality_is_95(runs):
    one, other = (runs(RESIZED, writer=writer)["room"][1] for writer in ({"image": "jpeg"}, {"image": "jpeg", "quality": 95}))
    assert stored(one) == stored(other)
    image = Image.open(io.BytesIO(stored(one)[0]))
    assert get_sampling(image) == 0  # 4:4:4
    reference = io.BytesIO()
    Image.new("RGB", (8, 8)).save(reference, "JPEG", quality=95)
    assert image.quantization == Image.open(io.BytesIO(reference.getvalue())).quantization


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_attributes(runs, encoding):
    for steps in [], [RESIZED]:
        for name, (_, demo, meta) in runs(*steps, writer={"image": encoding}).items():
            images, raw = demo["obs/camera_image"], runs(*steps)[name][1]["obs/camera_image"]
            assert images.shape == (len(raw),) and h5py.check_vlen_dtype(images.dtype) == np.uint8
            attributes, before = dict(images.attrs), dict(raw.attrs)
            assert (attributes["encoding"], attributes["channel_order"], attributes["sha256_of"]) == (encoding, "rgb", "rows")
            assert (attributes["height"], attributes["width"]) == raw.shape[1:3]
            rest = {k: v for k, v in attributes.items() if k not in ("height", "width", "encoding", "sha256")}
            assert rest == {k: v for k, v in before.items() if k not in ("height", "width", "encoding", "sha256")}
            assert before["encoding"] == "raw"
            check_digests(demo, meta)


def source_files(runs, take):
    if take == "glove":
        return [v2().rgb[number] for number in range(40)]
    return [path.read_bytes() for path in sorted((runs.inputs / take / "rgb").iterdir())]


@pytest.mark.parametrize("take", SESSIONS)
def test_unchanged_jpegs_keep_their_bytes(runs, take):
    """Whatever the quality; also when a resize leaves an image as it is."""
    for options in {}, {"quality": 20}:
        assert stored(runs(writer={"image": "jpeg"} | options)[take][1]) == source_files(runs, take)
    assert stored(runs({"decimate": {"every": 3}}, writer={"image": "jpeg"})[take][1]) == source_files(runs, take)[::3]
    files = stored(runs(RESIZED, writer={"image": "jpeg"})[take][1])
    assert (files == source_files(runs, take)) == (take == "glove")
    kept = runs({"resize-image": {"width": 100, "height": 100, "when-larger-than": 480}}, writer={"image": "jpeg"})
    assert stored(kept[take][1]) == source_files(runs, take)


@pytest.fixture
def sessions_alone(runs, takeset, tmp_path):
    """The same sessions without the video."""
    found = Runs(takeset, tmp_path, {"glove": v2()})
    shutil.copytree(runs.inputs / "room", found.inputs / "room")
    return found


def test_the_sources_files_are_stored_untouched(sessions_alone):
    found = sessions_alone({"decimate": {"every": 2}}, writer={"image": "jpeg-source"})
    for name in SESSIONS:
        _, demo, meta = found[name]
        images = demo["obs/camera_image"]
        assert stored(demo) == source_files(sessions_alone, name)[::2] and images.attrs["encoding"] == "jpeg"
        assert (images.attrs["width"], images.attrs["height"]) == SIZES[name]
        check_digests(demo, meta)
    output = sessions_alone.output({"decimate": {"every": 2}}, writer={"image": "jpeg-source"})
    with h5py.File(output / "dataset.h5") as f:
        # Nothing was decoded, so nothing is known of the pixels.
        assert "camera_image" not in f["stats"] and "pose" in f["stats"]


@pytest.mark.parametrize("step", [RESIZED, {"crop": {"center": [51, 37]}}, {"rotate": {"degrees": 180}}, {"rotate": {"degrees": "upright"}}], ids=str)
def test_changed_images_are_not_the_sources_files(sessions_alone, takeset, tmp_path, step):
    refused(takeset, sessions_alone.inputs, tmp_path, "writer.hdf5.image", step, writer={"image": "jpeg-source"})
    refused(takeset, sessions_alone.inputs, tmp_path, "writer.hdf5.image", {"decimate": {"every": 2}}, step, writer={"image": "jpeg-source"})


def test_a_video_has_no_jpeg_files(takeset, tmp_path):
    Runs(takeset, tmp_path, {"glove": v2(), "pour.mov": video_file(count=6)})
    entry = fails_everywhere(takeset, tmp_path / "in", tmp_path, "pour", writer={"image": "jpeg-source"})
    assert "JPEG" in entry["reason"] or "jpeg" in entry["reason"]


# Digests


@pytest.mark.parametrize("writer, steps", [({"image": "png"}, [RESIZED]), ({"image": "jpeg"}, [RESIZED]), ({"image": "jpeg"}, [])], ids=str)
def test_a_changed_row_is_named(runs, takeset, tmp_path, writer, steps):
    output = tmp_path / "out"
    takeset.convert(runs.inputs, output=output, arguments=steps_file(tmp_path, *steps, writer=writer))
    takeset("verify", output, check=0)
    takeset("verify", output / "episodes/room.h5", check=0)
    data = (output / "episodes/room.h5").read_bytes()
    (row, *_) = [row for row in stored(demos(output)["room"][0])[5:6]]
    at = data.index(row) + len(row) // 2
    # One byte of one image, in the file itself.
    (output / "episodes/room.h5").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    reported = takeset("verify", output, check=2).stdout
    assert "episodes/room.h5" in reported and "camera_image[5]" in reported and "camera_image[4]" not in reported
    assert "glove" not in reported and "pour" not in reported


def test_a_row_that_another_program_writes_is_named(runs, takeset, tmp_path):
    output = tmp_path / "out"
    takeset.convert(runs.inputs, output=output, arguments=steps_file(tmp_path, RESIZED, writer={"image": "png"}))
    with h5py.File(output / "episodes/room.h5", "r+") as f:
        f["data/demo_0/obs/camera_image"][7] = np.frombuffer(b"\x89PNG", np.uint8)
    reported = takeset("verify", output, check=2).stdout
    assert "episodes/room.h5:/data/demo_0/obs/camera_image[7]: its content has changed" in reported


# Statistics


def statistics(output, key="camera_image"):
    with h5py.File(output / "dataset.h5") as f:
        found = f["stats"][key] if key in f["stats"] else None
        return found and {name: data[()] for name, data in found.items()}


def test_images_that_were_decoded_have_statistics(sessions_alone):
    small = {"resize-image": {"width": 90, "height": 60, "mode": "stretch"}}
    raw = statistics(sessions_alone.output(small))
    names = ["count", "mean", "std", "min", "max", "q01", "q99"]
    assert set(raw) >= set(names) and raw["mean"].shape == (3,)
    png = statistics(sessions_alone.output(small, writer={"image": "png"}))
    assert all(np.array_equal(png[name], raw[name]) for name in names)
    jpeg = statistics(sessions_alone.output(small, writer={"image": "jpeg"}))
    assert np.abs(jpeg["mean"] - raw["mean"]).max() < 0.5 and np.abs(jpeg["std"] - raw["std"]).max() < 1
    assert np.array_equal(jpeg["count"], raw["count"])


def test_unchanged_files_are_not_decoded_for_statistics(sessions_alone):
    assert statistics(sessions_alone.output(writer={"image": "jpeg"})) is None
    assert statistics(sessions_alone.output(writer={"image": "png"})) is not None


# What reads a dataset


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_the_other_commands_read_encoded_images(runs, takeset, tmp_path, encoding):
    writer = {"image": encoding}
    output, arguments = tmp_path / "out", steps_file(tmp_path, RESIZED, writer=writer)
    takeset.convert(runs.inputs, output=output, arguments=arguments)
    shown = takeset("inspect", output, check=0).stdout
    assert all(name in shown for name in TAKES) and "camera_image" in shown
    takeset("pack", output, "--output", tmp_path / "packed.h5", check=0)
    takeset("verify", tmp_path / "packed.h5", check=0)
    with h5py.File(tmp_path / "packed.h5") as f:
        packed = {demo.attrs["take_id"]: [row.tobytes() for row in demo["obs/camera_image"][:]] for demo in f["data"].values()}
    assert packed == {name: stored(demo) for name, (demo, _) in demos(output).items()}
    before = {p: p.read_bytes() for p in output.rglob("*.h5")}
    assert "nothing to do" in takeset.convert(runs.inputs, output=output, arguments=arguments).stdout
    assert {p: p.read_bytes() for p in output.rglob("*.h5")} == before
    planned = json.loads(takeset("plan", runs.inputs, "--json", *arguments, check=0).stdout)
    for entry in planned["takes"]:
        (image,) = [d for d in entry["datasets"] if d["path"] == "/data/demo_0/obs/camera_image"]
        (written,) = [d for d in take(output, entry["id"])["output"]["datasets"] if d["path"] == image["path"]]
        assert all(image[key] == written[key] for key in ("dtype", "shape", "chunk", "filters"))
    takeset("inspect", runs.inputs, "--preview", tmp_path / "sheet.png", *arguments, check=0)
    assert Image.open(tmp_path / "sheet.png").size[0] > 1000


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_jobs_make_no_difference(runs, takeset, tmp_path, encoding):
    seen = []
    for jobs in 1, 3:
        arguments = steps_file(tmp_path, RESIZED, writer={"image": encoding})
        takeset.convert(runs.inputs, output=tmp_path / f"out{jobs}", arguments=[*arguments, "--jobs", jobs])
        shards = {p.name: p.read_bytes() for p in (tmp_path / f"out{jobs}/episodes").iterdir()}
        seen.append((shards, (tmp_path / f"out{jobs}/dataset.h5").read_bytes(), manifest(tmp_path / f"out{jobs}")["record"]))
    assert seen[0] == seen[1]
