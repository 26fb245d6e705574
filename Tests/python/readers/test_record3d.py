"""Takes of Record3D: every form and version, LZFSE by Apple's encoder, OpenEXR by its library."""

import json
import shutil

import liblzfse
import numpy as np
import OpenEXR
import pytest
from images import frame_code
from outputs import codes, demos, finding, manifest, take
from phone_takes import STREAMS, converted, matrices, problem, same, truth, zipped
from PIL import Image

SIZE, MAP = (144, 192), (48, 64)


def simulated(takeset, output, *arguments, form="folder"):
    sizes = ["--size", "{}x{}".format(*SIZE), "--depth-size", "{}x{}".format(*MAP)] if "--size" not in arguments else []
    takeset("simulate", "record3d", "--form", form, "--seconds", 0.6, *sizes, "--output", output, *arguments, check=0)
    return output


def plain(file):
    """The bytes of a stored LZFSE stream."""
    return liblzfse.decompress(file.read_bytes())


@pytest.fixture(scope="module")
def folder(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("record3d") / "take_1")


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "take_1")


def edited(take, change):
    path = take / ("metadata" if (take / "metadata").exists() else "metadata.json")
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))
    return take


# Right takes


@pytest.mark.parametrize("form", ["r3d", "folder", "exr"])
@pytest.mark.parametrize("size", [("144x192", "48x64"), ("192x144", "64x48")], ids=["portrait", "landscape"])
def test_every_form_gives_the_truth(takeset, tmp_path, form, size):
    source = simulated(takeset, tmp_path / "in/take_1", "--size", size[0], "--depth-size", size[1], form=form)
    entry, demo, meta = converted(takeset, tmp_path, source / "take_1.r3d" if form == "r3d" else source)
    expected, times = truth(source)
    assert entry["reader"] == "record3d" and entry["variant"] == ("exr" if form == "exr" else "r3d") and entry["id"] == "take_1"
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    assert np.abs(meta["timestamp_ns"][:] - times).max() <= 1 and meta["timestamp_ns"].attrs["clock"] == "media-time"
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(expected)))
    width, height = map(int, size[0].split("x"))
    assert demo["obs/camera_image"].shape[1:3] == (height, width)
    assert meta["intrinsics"][0].tolist() == pytest.approx([width * 0.75, width * 0.75, width / 2, height / 2])
    assert meta["camera_depth_intrinsics"][0].tolist() == pytest.approx([width / 4, width / 4, width / 6, height / 6])
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back" and "y up" in demo["obs/pose"].attrs["world_axes"]
    assert ("obs/camera_depth_confidence" in demo) == (form != "exr")


def test_a_zip_in_a_folder_of_its_own_is_the_same(takeset, folder, tmp_path):
    _, one, _ = converted(takeset, tmp_path, folder)
    path = zipped(folder, tmp_path / "take_2.zip", "take_2/")
    (tmp_path / "other").mkdir()
    entry, other, _ = converted(takeset, tmp_path / "other", path)
    assert entry["reader"] == "record3d" and entry["id"] == "take_2"
    assert same(one, other, STREAMS)


def test_a_dataset_of_both_orientations_is_reported_and_rotates_to_one(takeset, tmp_path):
    for name, sizes in ("tall", ("144x192", "48x64")), ("wide", ("192x144", "64x48")):
        simulated(takeset, tmp_path / "in" / name, "--size", sizes[0], "--depth-size", sizes[1])
    takeset.convert(tmp_path / "in", output=tmp_path / "mixed")
    (found,) = [one for one in manifest(tmp_path / "mixed")["record"]["findings"] if one["code"] == "mixed-orientation"]
    assert "landscape in wide; portrait in tall" in found["message"] and "rotate: {degrees: upright}" in found["message"]
    takeset.convert(tmp_path / "in/tall", output=tmp_path / "one")
    assert "mixed-orientation" not in [one["code"] for one in manifest(tmp_path / "one")["record"]["findings"]]


# LZFSE


def maps(count):
    """Maps as sensors see them, and such as test an encoder."""
    chance = np.random.default_rng(1)
    ramp = np.linspace(0.2, 4.9, MAP[0] * MAP[1], dtype="<f4").reshape(MAP[::-1])
    noise = chance.uniform(0.1, 5, MAP[::-1]).astype("<f4")
    smooth = (ramp + np.sin(ramp * 9).astype("<f4") * 0.01).astype("<f4")
    steps = np.round(smooth, 1).astype("<f4")
    constant = np.full(MAP[::-1], 1.25, "<f4")
    bits = chance.integers(0, 1 << 32, MAP[::-1], dtype=np.uint32).view("<f4")
    holes = np.where(chance.random(MAP[::-1]) < 0.3, np.nan, smooth).astype("<f4")
    kinds = [ramp, noise, smooth, steps, constant, bits, holes, np.zeros(MAP[::-1], "<f4")]
    return [kinds[number % len(kinds)] for number in range(count)]


def test_depth_and_confidence_by_apples_encoder_are_exact(takeset, folder, tmp_path):
    source = copied(folder, tmp_path)
    count = len(list((source / "rgbd").glob("*.jpg")))
    chance = np.random.default_rng(2)
    expected, levels = maps(count), []
    for number, one in enumerate(expected):
        (source / f"rgbd/{number}.depth").write_bytes(liblzfse.compress(one.tobytes()))
        assert (source / f"rgbd/{number}.depth").read_bytes()[:4] == b"bvx2" or number % 8 in (1, 4, 5, 7)
        levels.append(chance.integers(0, 3, MAP[::-1], dtype=np.uint8))
        # Below 4096 bytes the encoder takes LZVN, so the map is stored as it is.
        raw = levels[-1].tobytes()
        stored = b"bvx-" + len(raw).to_bytes(4, "little") + raw + b"bvx$"
        (source / f"rgbd/{number}.conf").write_bytes(stored)
    entry, demo, _ = converted(takeset, tmp_path, zipped(source, tmp_path / "t.r3d"))
    assert not {"depth-undecodable", "confidence-undecodable"} & set(codes(entry))
    for row, one in enumerate(expected):
        with np.errstate(invalid="ignore"):
            usable = np.where(np.isfinite(one) & (one > 0), one, 0)
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], usable), row
        assert np.array_equal(demo["obs/camera_depth_confidence"][row, ..., 0], levels[row])


@pytest.mark.parametrize("size", [(192, 256), (256, 192), (480, 640), (640, 480), (720, 960)])
def test_maps_of_the_sensors_sizes_by_apples_encoder_are_exact(takeset, tmp_path, size):
    """Several blocks, and confidence by the entropy coder; the size is that of the values where the metadata have none."""
    image = "72x96" if size[0] < size[1] else "96x72"
    source = simulated(takeset, tmp_path / "in", "--size", image, "--depth-size", "{}x{}".format(*size), "--quirk", "no-times")
    chance = np.random.default_rng(3)
    expected = []
    for number in range(4):
        y, x = np.mgrid[: size[1], : size[0]]
        one = (1 + 0.3 * np.sin(x / 31 + number) + y / size[1] + chance.normal(0, 0.002, (size[1], size[0]))).astype("<f4")
        level = np.clip((one * 2 - 1).astype(np.uint8), 0, 2)
        expected.append((one, level))
        (source / f"rgbd/{number}.depth").write_bytes(liblzfse.compress(one.tobytes()))
        (source / f"rgbd/{number}.conf").write_bytes(liblzfse.compress(level.tobytes()))
        assert (source / f"rgbd/{number}.conf").read_bytes()[:4] == b"bvx2"
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "times-assumed") and demo["obs/camera_depth"].shape[1:3] == size[::-1]
    for row, (one, level) in enumerate(expected):
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], one) and np.array_equal(demo["obs/camera_depth_confidence"][row, ..., 0], level)


def test_a_small_map_by_apples_encoder_is_refused_by_name(takeset, folder, tmp_path):
    source = copied(folder, tmp_path)
    (source / "rgbd/3.conf").write_bytes(liblzfse.compress(bytes(MAP[0] * MAP[1])))
    assert (source / "rgbd/3.conf").read_bytes()[:4] == b"bvxn"
    entry, demo, meta = converted(takeset, tmp_path, source)
    found = finding(entry, "confidence-undecodable")
    assert "LZVN" in found["message"] and found["file"] == "rgbd/3.conf" and found["count"] == 1
    assert not demo["obs/camera_depth_confidence"][3].any() and demo["obs/camera_depth"][3].any()


# OpenEXR


EXR = {"none": OpenEXR.NO_COMPRESSION, "zips": OpenEXR.ZIPS_COMPRESSION, "zip": OpenEXR.ZIP_COMPRESSION}


def written_exr(path, channels, compression, **header):
    OpenEXR.File({"compression": compression, "type": OpenEXR.scanlineimage, **header}, channels).write(str(path))


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("compression", EXR)
def test_maps_by_the_library_of_openexr_are_exact(takeset, tmp_path, kind, compression):
    source = simulated(takeset, tmp_path / "in", form="exr")
    count = len(list((source / "rgb").glob("*.jpg")))
    with np.errstate(over="ignore"):
        expected = [one.astype(kind) for one in maps(count)]
    for number, one in enumerate(expected):
        written_exr(source / f"depth/{number}.exr", {"R": one}, EXR[compression])
        assert np.array_equal(OpenEXR.File(str(source / f"depth/{number}.exr")).channels()["R"].pixels, one, equal_nan=True)
    _, demo, _ = converted(takeset, tmp_path, source)
    for row, one in enumerate(expected):
        one = one.astype(np.float32)
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], np.where(np.isfinite(one) & (one > 0), one, 0)), row


@pytest.mark.parametrize("name, words", [("PIZ", "PIZ"), ("RLE", "RLE"), ("PXR24", "PXR24"), ("channels", "2 channels"), ("tiled", "tiled"), ("integers", "not of floats")])
def test_other_kinds_of_openexr_are_refused_by_name(takeset, tmp_path, name, words):
    source = simulated(takeset, tmp_path / "in", form="exr")
    one = maps(1)[0]
    channels, options, compression = {"R": one}, {}, OpenEXR.ZIP_COMPRESSION
    if name in ("PIZ", "RLE", "PXR24"):
        compression = getattr(OpenEXR, f"{name}_COMPRESSION")
    elif name == "channels":
        channels = {"R": one, "G": one}
    elif name == "tiled":
        options = {"type": OpenEXR.tiledimage, "tiles": OpenEXR.TileDescription()}
    else:
        channels = {"R": (one * 1000).astype(np.uint32)}
    written_exr(source / "depth/5.exr", channels, compression, **options)
    entry, demo, _ = converted(takeset, tmp_path, source)
    found = finding(entry, "depth-undecodable")
    assert words in found["message"] and found["file"] == "depth/5.exr"
    assert not demo["obs/camera_depth"][5].any() and demo["obs/camera_depth"][4].any()


# Quirks


def test_images_are_paired_by_number_where_some_are_missing(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "missing-images")
    entry, demo, meta = converted(takeset, tmp_path, source)
    expected, _ = truth(source)
    kept = [number for number in range(len(expected)) if number not in (2, 6)]
    assert meta["source_index"][:].tolist() == kept and finding(entry, "image-missing")["count"] == 2
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == kept
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[kept]).max() < 1e-5


def test_a_cut_image_is_a_masked_row(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "truncated-image")
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "image-undecodable")["file"] == "rgbd/4.jpg"
    assert meta["streams/camera_image/valid"][:].tolist() == [number != 4 for number in range(len(demo["obs/pose"]))]
    assert not demo["obs/camera_image"][4].any()


def test_intrinsics_of_each_frame_are_preferred(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "frame-intrinsics")
    _, _, meta = converted(takeset, tmp_path, source)
    stored = json.loads((source / "metadata").read_text())["perFrameIntrinsicCoeffs"]
    assert np.allclose(meta["intrinsics"][:], stored, rtol=1e-6) and np.ptp(meta["intrinsics"][:, 0]) > 0.1


def test_unknown_depth_may_be_nan(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "nan-depth", "--seed", 5)
    edges = plain(source / "rgbd/0.depth")
    values = np.frombuffer(edges, "<f4").reshape(MAP[::-1])
    _, demo, _ = converted(takeset, tmp_path, source)
    assert np.array_equal(demo["obs/camera_depth"][0, ..., 0], np.nan_to_num(values)) and np.isfinite(demo["obs/camera_depth"][:]).all()


def test_a_world_that_begins_at_the_first_frame_claims_no_gravity(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "first-frame-world")
    _, demo, _ = converted(takeset, tmp_path, source)
    assert "first frame" in demo["obs/pose"].attrs["world_axes"] and "gravity" not in demo["obs/pose"].attrs["world_axes"]
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0]).max() < 1e-5


def test_what_other_programs_write_is_recognized(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "other-program", "--quirk", "no-confidence")
    edited(source, lambda metadata: metadata.pop("cameraType"))
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "intrinsics-transposed") and meta["timestamp_ns"].attrs["clock"] == "phone-unix"
    assert meta["intrinsics"][0].tolist() == pytest.approx([108, 108, 72, 96]) and "obs/camera_depth_confidence" not in demo


def test_an_initial_pose_is_kept_and_not_applied(takeset, folder, tmp_path):
    source = edited(copied(folder, tmp_path), lambda metadata: metadata.update(initPose=[0, 1, 0, 0, 1, 2, 3]))
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(folder)[0]).max() < 1e-5
    assert entry["details"]["init_pose"] == [0, 1, 0, 0, 1, 2, 3]


def test_images_of_another_size_scale_the_intrinsics(takeset, folder, tmp_path):
    source = copied(folder, tmp_path)
    for path in (source / "rgbd").glob("*.jpg"):
        Image.open(path).resize((72, 96)).save(path, quality=95)
    entry, _, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "intrinsics-scaled") and meta["intrinsics"][0].tolist() == pytest.approx([54, 54, 36, 48])


def test_images_of_the_exr_export_may_be_png(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", form="exr")
    pixels = []
    for number in range(len(list((source / "rgb").glob("*.jpg")))):
        path = source / f"rgb/{number}.jpg"
        pixels.append(np.asarray(Image.open(path)))
        Image.fromarray(pixels[-1]).save(path.with_suffix(".png"))
        path.unlink()
    _, demo, _ = converted(takeset, tmp_path, source)
    assert np.array_equal(demo["obs/camera_image"][:], np.stack(pixels))


# Wrong takes


def drop(key):
    return lambda metadata: metadata.pop(key)


WRONG = {
    "no poses": (drop("poses"), "poses-missing", "poses"),
    "poses of text": (lambda m: m.update(poses="none"), "json-type", "expected a list, found text"),
    "poses of six": (lambda m: m.update(poses=[p[:6] for p in m["poses"]]), "too-few-poses", "unusable"),
    "long quaternions": (lambda m: m.update(poses=[[2 * x for x in p] for p in m["poses"]]), "too-few-poses", "unusable"),
    "no times": (lambda m: (m.pop("frameTimestamps"), m.pop("fps")), "json-type", "neither frameTimestamps nor fps"),
    "times that stand": (lambda m: m.update(frameTimestamps=[1] * len(m["poses"])), "too-few-times", "do not ascend"),
    "a size of nothing": (lambda m: m.update(w=0), "json-type", "expected 1 to 65535 pixels"),
    "huge maps": (lambda m: m.update(dw=60000, dh=60000), "limit", "over the limit of 1000x1000"),
    "more poses than images": (lambda m: m.update(poses=m["poses"] * 3, frameTimestamps=[n / 30 for n in range(3 * len(m["poses"]))]), "too-few-images", "at least half"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_metadata_fail_with_a_sentence(takeset, folder, tmp_path, name):
    change, code, words = WRONG[name]
    edited(copied(folder, tmp_path / "in"), change)
    shutil.copytree(folder, tmp_path / "in/good")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    entry = take(tmp_path / "out", "take_1")
    assert entry["outcome"] == "failed"
    found = problem(entry)
    assert found["code"] == code and words in found["message"] and found["file"] == ("rgbd" if code == "too-few-images" else "metadata"), found
    assert list(demos(tmp_path / "out")) == ["good"]


@pytest.mark.parametrize("name, data", [("empty", b""), ("cut", b"{\"w\": 144, \"poses\": [[0, 0"), ("text", b"\xff\xfe"), ("deep", b"[" * 100_000)])
def test_damaged_metadata_fail_with_a_sentence(takeset, folder, tmp_path, name, data):
    source = copied(folder, tmp_path)
    (source / "metadata").write_bytes(data)
    entry = converted(takeset, tmp_path, source, check=3)
    assert problem(entry)["code"] in ("json-invalid", "json-type") and problem(entry)["file"] == "metadata"


@pytest.mark.parametrize("left", ["metadata", "rgbd/"])
def test_an_r3d_without_its_parts_fails_with_a_sentence(takeset, folder, tmp_path, left):
    source = copied(folder, tmp_path)
    for path in source.rglob("*"):
        if path.is_file() and not str(path.relative_to(source)).startswith(left):
            path.unlink()
    assert "no metadata, or no depth" in problem(converted(takeset, tmp_path, zipped(source, tmp_path / "t.r3d"), check=3))["message"]


def test_more_frames_than_any_take_has_are_refused(takeset, folder, tmp_path):
    source = edited(copied(folder, tmp_path), lambda metadata: metadata.update(frameTimestamps=[0] * 1_100_000))
    assert problem(converted(takeset, tmp_path, source, check=3))["code"] == "limit"


def test_intrinsics_that_are_none_are_absent(takeset, folder, tmp_path):
    source = edited(copied(folder, tmp_path), lambda metadata: metadata.update(K=[1, 2, 3]))
    entry, _, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "intrinsics-unusable")["field"] == ".K" and "intrinsics" not in meta


def test_maps_of_another_size_are_masked(takeset, folder, tmp_path):
    source = copied(folder, tmp_path)
    for number in 1, 2:
        data = b"bvx-" + (400 * number).to_bytes(4, "little") + bytes(400 * number) + b"bvx$"
        (source / f"rgbd/{number}.depth").write_bytes(data)
    entry, demo, _ = converted(takeset, tmp_path, source)
    found = finding(entry, "depth-undecodable")
    assert found["count"] == 2 and "400 bytes" in found["message"] and found["file"] == "rgbd/1.depth"
    assert not demo["obs/camera_depth"][1:3].any()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["r3d", "exr"])
def test_a_thousand_damaged_files_harm_nothing_else(takeset, tmp_path, form):
    """Each has its number; a map that decodes in spite of the damage has finite values only."""
    chance = np.random.default_rng(4)
    count, sizes = 500, ["--size", "72x96", "--depth-size", "48x64"]
    source = tmp_path / "in"
    takeset("simulate", "record3d", "--form", "exr" if form == "exr" else "folder", "--seconds", count / 30 + 0.01, *sizes, "--output", source, check=0)
    folder, ending = ("depth", "exr") if form == "exr" else ("rgbd", "depth")
    intact = {}
    for number in range(count):
        path = source / f"{folder}/{number}.{ending}"
        one = maps(7)[number % 5 if number % 5 != 1 else 0]
        if form == "exr":
            written_exr(path, {"R": one.astype(np.float16)}, OpenEXR.ZIP_COMPRESSION)
        else:
            path.write_bytes(liblzfse.compress(one.tobytes()))
        data = bytearray(path.read_bytes())
        if number % 10 == 0:
            intact[number] = one.astype(np.float16).astype(np.float32) if form == "exr" else one
            continue
        for _ in range(chance.integers(1, 4)):
            kind, place = chance.integers(4), chance.integers(len(data))
            if kind == 0:
                data[place] ^= 1 << chance.integers(8)
            elif kind == 1:
                data[place] = chance.integers(256)
            elif kind == 2:
                del data[place:]
                data += bytes(4)
            else:
                data[place : place + 4] = b"\xff\xff\xff\xff"
        path.write_bytes(data)
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert len(demo["obs/pose"]) >= count and finding(entry, "depth-undecodable")["count"] > 100
    for number, one in intact.items():
        assert np.array_equal(demo["obs/camera_depth"][number, ..., 0], one)
    assert np.isfinite(demo["obs/camera_depth"][:]).all() and (demo["obs/camera_depth"][:] >= 0).all()
