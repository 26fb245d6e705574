"""Takes of Record3D: every form and version, LZFSE by Apple's encoder, OpenEXR by its library."""

import json
import shutil

import liblzfse
import numpy as np
import OpenEXR
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding, manifest
from phone_takes import STREAMS, Takes, broken, converted, edited, problem, quirks, same, truth, zipped
from PIL import Image

MAP = (48, 64)


def simulated(takeset, output, *arguments):
    takeset("simulate", "record3d", "--seconds", 0.6, "--output", output, *arguments, check=0)
    return output


FOLDER = ["--form", "folder", "--size", "144x192", "--depth-size", "48x64"]
SIZES = {"portrait": ("144x192", "48x64"), "landscape": ("192x144", "64x48")}
QUIRKS = ["missing-images", "truncated-image", "frame-intrinsics", "first-frame-world"]
OTHER = "other-program+no-confidence"


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"take_1": FOLDER} | {name: [*FOLDER, *options] for name, options in quirks(*QUIRKS).items()} | WRONG
    found |= {f"{form} {way}": ["--form", form, "--size", size, "--depth-size", depth] for form in FORMS for way, (size, depth) in SIZES.items()}
    found |= {"small map": with_a_small_map, "half the images": with_images_of_half_the_size, "other maps": with_maps_of_another_size}
    found["initial pose"] = edited("metadata", lambda metadata: metadata.update(initPose=[0, 1, 0, 0, 1, 2, 3]))
    found["a time less"] = edited("metadata", lambda metadata: metadata["frameTimestamps"].pop(4))
    found["intrinsics less"] = edited("metadata", lambda m: m.update(perFrameIntrinsicCoeffs=[[9, 9, 1, 1]] * (len(m["poses"]) - 1)))
    found["no intrinsics"] = edited("metadata", lambda metadata: metadata.update(K=[1, 2, 3]))
    found["no camera type"] = [*FOLDER, *quirks(OTHER)[OTHER], edited("metadata", lambda metadata: metadata.pop("cameraType"))]
    exr = ["--form", "exr", *FOLDER[2:]]
    found |= {f"{compression} {kind.__name__}": [*exr, with_every_map(compression, kind)] for compression in EXR for kind in KINDS}
    found |= {name: [*exr, change] for name, (change, _) in REFUSED.items()} | {"png": [*exr, with_png_images]}
    return Takes(takeset, tmp_path_factory.mktemp("record3d"), "record3d", ["--seconds", 0.6], found)


def copied(takes, tmp_path):
    return shutil.copytree(takes.inputs / "take_1", tmp_path / "take_1")


# Right takes


FORMS = ["r3d", "folder", "exr"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", SIZES)
def test_every_form_gives_the_truth(takes, form, way):
    source, entry, demo, meta = takes[f"{form} {way}"]
    expected, times = truth(source)
    assert entry["reader"] == "record3d" and entry["variant"] == ("exr" if form == "exr" else "r3d")
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    assert np.abs(meta["timestamp_ns"][:] - times).max() <= 1 and meta["timestamp_ns"].attrs["clock"] == "media-time"
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(expected)))
    width, height = map(int, SIZES[way][0].split("x"))
    assert demo["obs/camera_image"].shape[1:3] == (height, width)
    assert meta["intrinsics"][0].tolist() == pytest.approx([width * 0.75, width * 0.75, width / 2, height / 2])
    assert meta["camera_depth_intrinsics"][0].tolist() == pytest.approx([width / 4, width / 4, width / 6, height / 6])
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back" and "y up" in demo["obs/pose"].attrs["world_axes"]
    assert ("obs/camera_depth_confidence" in demo) == (form != "exr")


def test_a_zip_in_a_folder_of_its_own_is_the_same(takeset, takes, tmp_path):
    _, _, one, _ = takes["take_1"]
    entry, other, _ = converted(takeset, tmp_path, zipped(takes.inputs / "take_1", tmp_path / "take_2.zip", "take_2/"))
    assert entry["reader"] == "record3d" and entry["id"] == "take_2"
    assert same(one, other, STREAMS)


def test_a_dataset_of_both_orientations_is_reported_and_rotates_to_one(takeset, takes, tmp_path):
    for name, way in ("tall", "portrait"), ("wide", "landscape"):
        shutil.copytree(takes.inputs / f"folder {way}", tmp_path / "in" / name)
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


def test_depth_and_confidence_by_apples_encoder_are_exact(takeset, takes, tmp_path):
    source = copied(takes, tmp_path)
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
    source = simulated(takeset, tmp_path / "in", "--form", "folder", "--size", image, "--depth-size", "{}x{}".format(*size), "--quirk", "no-times")
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


def test_times_that_belong_to_nobody_are_not_used(takes):
    _, entry, _, meta = takes["a time less"]
    assert finding(entry, "count-mismatch")["field"] == ".frameTimestamps" and finding(entry, "times-assumed")
    assert meta["timestamp_ns"].attrs["clock"] == "frame-number" and len(meta["timestamp_ns"]) == len(takes["take_1"][3]["timestamp_ns"])


def test_intrinsics_that_belong_to_nobody_are_not_used(takes):
    _, entry, _, meta = takes["intrinsics less"]
    assert finding(entry, "count-mismatch")["field"] == ".perFrameIntrinsicCoeffs"
    assert np.array_equal(meta["intrinsics"][:], takes["take_1"][3]["intrinsics"][:])


def with_a_small_map(take):
    (take / "rgbd/3.conf").write_bytes(liblzfse.compress(bytes(MAP[0] * MAP[1])))
    assert (take / "rgbd/3.conf").read_bytes()[:4] == b"bvxn"


def test_a_small_map_by_apples_encoder_is_refused_by_name(takes):
    _, entry, demo, meta = takes["small map"]
    found = finding(entry, "confidence-undecodable")
    assert "LZVN" in found["message"] and found["file"] == "rgbd/3.conf" and found["count"] == 1
    assert not demo["obs/camera_depth_confidence"][3].any() and demo["obs/camera_depth"][3].any()


# OpenEXR


EXR = {"none": OpenEXR.NO_COMPRESSION, "zips": OpenEXR.ZIPS_COMPRESSION, "zip": OpenEXR.ZIP_COMPRESSION}


def written_exr(path, channels, compression, **header):
    OpenEXR.File({"compression": compression, "type": OpenEXR.scanlineimage, **header}, channels).write(str(path))


KINDS = [np.float16, np.float32]


def expected_maps(count, kind):
    with np.errstate(over="ignore"):
        return [one.astype(kind) for one in maps(count)]


def with_every_map(compression, kind):
    def change(take):
        for number, one in enumerate(expected_maps(len(list((take / "rgb").glob("*.jpg"))), kind)):
            written_exr(take / f"depth/{number}.exr", {"R": one}, EXR[compression])
            assert np.array_equal(OpenEXR.File(str(take / f"depth/{number}.exr")).channels()["R"].pixels, one, equal_nan=True)

    return change


def with_one_map(words, compression=OpenEXR.ZIP_COMPRESSION, channels="R", kind=np.float32, scale=1, **options):
    one = (maps(1)[0] * scale).astype(kind)
    return lambda take: written_exr(take / "depth/5.exr", dict.fromkeys(channels, one), compression, **options), words


REFUSED = {
    "PIZ": with_one_map("PIZ", OpenEXR.PIZ_COMPRESSION), "RLE": with_one_map("RLE", OpenEXR.RLE_COMPRESSION),
    "PXR24": with_one_map("PXR24", OpenEXR.PXR24_COMPRESSION), "channels": with_one_map("2 channels", channels="RG"),
    "tiled": with_one_map("tiled", type=OpenEXR.tiledimage, tiles=OpenEXR.TileDescription()),
    "integers": with_one_map("not of floats", kind=np.uint32, scale=1000),
}


def with_png_images(take):
    for path in (take / "rgb").glob("*.jpg"):
        Image.open(path).save(path.with_suffix(".png"))
        path.unlink()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", EXR)
def test_maps_by_the_library_of_openexr_are_exact(takes, kind, compression):
    _, _, demo, _ = takes[f"{compression} {kind.__name__}"]
    for row, one in enumerate(expected_maps(len(demo["obs/camera_depth"]), kind)):
        one = one.astype(np.float32)
        assert np.array_equal(demo["obs/camera_depth"][row, ..., 0], np.where(np.isfinite(one) & (one > 0), one, 0)), row


@pytest.mark.parametrize("name", REFUSED)
def test_other_kinds_of_openexr_are_refused_by_name(takes, name):
    _, entry, demo, _ = takes[name]
    found = finding(entry, "depth-undecodable")
    assert REFUSED[name][1] in found["message"] and found["file"] == "depth/5.exr"
    assert not demo["obs/camera_depth"][5].any() and demo["obs/camera_depth"][4].any()


def test_images_of_the_exr_export_may_be_png(takes):
    source, _, demo, _ = takes["png"]
    pixels = [np.asarray(Image.open(source / f"rgb/{number}.png")) for number in range(len(demo["obs/camera_image"]))]
    assert np.array_equal(demo["obs/camera_image"][:], np.stack(pixels))


# Quirks


def test_images_are_paired_by_number_where_some_are_missing(takes):
    source, entry, demo, meta = takes["missing-images"]
    expected, _ = truth(source)
    kept = [number for number in range(len(expected)) if number not in (2, 6)]
    assert meta["source_index"][:].tolist() == kept and finding(entry, "image-missing")["count"] == 2
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == kept
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[kept]).max() < 1e-5


def test_a_cut_image_is_a_masked_row(takes):
    _, entry, demo, meta = takes["truncated-image"]
    assert finding(entry, "image-undecodable")["file"] == "rgbd/4.jpg"
    assert meta["streams/camera_image/valid"][:].tolist() == [number != 4 for number in range(len(demo["obs/pose"]))]
    assert not demo["obs/camera_image"][4].any()


def test_intrinsics_of_each_frame_are_preferred(takes):
    source, _, _, meta = takes["frame-intrinsics"]
    stored = json.loads((source / "metadata").read_text())["perFrameIntrinsicCoeffs"]
    assert np.allclose(meta["intrinsics"][:], stored, rtol=1e-6) and np.ptp(meta["intrinsics"][:, 0]) > 0.1


def test_a_world_that_begins_at_the_first_frame_claims_no_gravity(takes):
    source, _, demo, _ = takes["first-frame-world"]
    assert "first frame" in demo["obs/pose"].attrs["world_axes"] and "gravity" not in demo["obs/pose"].attrs["world_axes"]
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0]).max() < 1e-5


def test_what_other_programs_write_is_recognized(takes):
    _, entry, demo, meta = takes["no camera type"]
    assert finding(entry, "intrinsics-transposed") and meta["timestamp_ns"].attrs["clock"] == "phone-unix"
    assert meta["intrinsics"][0].tolist() == pytest.approx([108, 108, 72, 96]) and "obs/camera_depth_confidence" not in demo


def test_an_initial_pose_is_kept_and_not_applied(takes):
    source, entry, demo, _ = takes["initial pose"]
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(source)[0]).max() < 1e-5
    assert entry["details"]["init_pose"] == [0, 1, 0, 0, 1, 2, 3]


def with_images_of_half_the_size(take):
    for path in (take / "rgbd").glob("*.jpg"):
        Image.open(path).resize((72, 96)).save(path, quality=95)


def test_images_of_another_size_scale_the_intrinsics(takes):
    _, entry, _, meta = takes["half the images"]
    assert finding(entry, "intrinsics-scaled") and meta["intrinsics"][0].tolist() == pytest.approx([54, 54, 36, 48])


# Wrong takes


WRONG = broken("metadata") | {
    "no poses": (edited("metadata", lambda m: m.pop("poses")), "poses-missing", "poses"),
    "poses of text": (edited("metadata", lambda m: m.update(poses="none")), "json-type", "expected a list, found text"),
    "poses of six": (edited("metadata", lambda m: m.update(poses=[p[:6] for p in m["poses"]])), "too-few-poses", "unusable"),
    "long quaternions": (edited("metadata", lambda m: m.update(poses=[[2 * x for x in p] for p in m["poses"]])), "too-few-poses", "unusable"),
    "a pose less": (edited("metadata", lambda m: m["poses"].pop(3)), "count-mismatch", "expected one time for each pose"),
    "no times": (edited("metadata", lambda m: (m.pop("frameTimestamps"), m.pop("fps"))), "json-type", "neither frameTimestamps nor fps"),
    "times that stand": (edited("metadata", lambda m: m.update(frameTimestamps=[1] * len(m["poses"]))), "too-few-times", "do not ascend"),
    "a size of nothing": (edited("metadata", lambda m: m.update(w=0)), "json-type", "expected 1 to 65535 pixels"),
    "huge maps": (edited("metadata", lambda m: m.update(dw=60000, dh=60000)), "limit", "over the limit of 1000x1000"),
    "more poses than images": (
        edited("metadata", lambda m: m.update(poses=m["poses"] * 3, frameTimestamps=[n / 30 for n in range(3 * len(m["poses"]))])),
        "too-few-images", "at least half"),
    "a million frames": (edited("metadata", lambda m: m.update(frameTimestamps=[0] * 1_100_000)), "limit", ""),
}


def test_wrong_takes_fail_with_a_sentence(takes):
    takes.fail()
    for name, (_, code, _) in WRONG.items():
        assert problem(takes.entries[name])["file"] == ("rgbd" if code == "too-few-images" else "metadata"), name


@pytest.mark.parametrize("left", ["metadata", "rgbd/"])
def test_an_r3d_without_its_parts_fails_with_a_sentence(takeset, takes, tmp_path, left):
    source = copied(takes, tmp_path)
    for path in source.rglob("*"):
        if path.is_file() and not str(path.relative_to(source)).startswith(left):
            path.unlink()
    assert "no metadata, or no depth" in problem(converted(takeset, tmp_path, zipped(source, tmp_path / "t.r3d"), check=3))["message"]


def test_intrinsics_that_are_none_are_absent(takes):
    _, entry, _, meta = takes["no intrinsics"]
    assert finding(entry, "intrinsics-unusable")["field"] == ".K" and "intrinsics" not in meta


def with_maps_of_another_size(take):
    for number in 1, 2:
        data = b"bvx-" + (400 * number).to_bytes(4, "little") + bytes(400 * number) + b"bvx$"
        (take / f"rgbd/{number}.depth").write_bytes(data)


def test_maps_of_another_size_are_masked(takes):
    _, entry, demo, _ = takes["other maps"]
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
