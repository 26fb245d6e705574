"""HDR videos in SDR, against the formulas of ITU-R BT.2100 in 64-bit floats on the planes that ffmpeg decodes."""

import struct
from functools import cache

import h5py
import numpy as np
import phone_takes
import pytest
from conversions import same_for_all_jobs
from outputs import codes, finding, only, record
from phone_takes import problem
from videos import boxes, box, changed, ffmpeg, made

HLG, PQ = "arib-std-b67", "smpte2084"
BT2020 = np.array([0.2627, 0.6780, 0.0593])
TO_BT709 = np.array([[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]])  # BT.2087, rounded
SIZE = (192, 128)


def encoded(frames, transfer, *arguments, size=SIZE, suffix=".mov"):
    """A video of 10-bit 4:2:0 frames, in 64ths of their codes exact to the encoder."""
    color = ["-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", transfer, "-color_range", "tv"]
    source = ["-f", "rawvideo", "-pix_fmt", "yuv420p10le", "-s", f"{size[0]}x{size[1]}", "-r", 30, "-i", "-"]
    codec = ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:lossless=1", "-tag:v", "hvc1"]
    return made(suffix, *source, *codec, *color, *arguments, contents=b"".join(frame.astype("<u2").tobytes() for frame in frames))


@cache
def colors(transfer):
    """Blocks of random colors, each of 16 pixels, as large as the range of the codes allows."""
    chance = np.random.default_rng(1)
    frames = []
    for _ in range(3):
        rgb = chance.random((SIZE[1] // 16, SIZE[0] // 16, 3)).repeat(16, 0).repeat(16, 1)
        y = rgb @ BT2020
        cb, cr = (rgb[..., 2] - y) / 1.8814, (rgb[..., 0] - y) / 1.4746
        planes = [64 + 876 * y, 512 + 896 * cb[::2, ::2], 512 + 896 * cr[::2, ::2]]
        frames.append(np.concatenate([np.rint(plane).ravel() for plane in planes]))
    return encoded(frames, transfer)


def signals(y, cb, cr):
    """Red, green and blue of 10-bit codes, all at the same pixels."""
    y, cb, cr = (y - 64) / 876, (cb - 512) / 896, (cr - 512) / 896
    red, blue = y + 1.4746 * cr, y + 1.8814 * cb
    return np.clip(np.stack([red, (y - 0.2627 * red - 0.0593 * blue) / 0.6780, blue], -1), 0, 1)


def levels(signal, transfer):
    if transfer == HLG:
        scene = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12)
        light = 1000 / 203 * scene * np.maximum(scene @ BT2020, 1e-12)[..., None] ** 0.2
    else:
        power = signal ** (1 / 78.84375)
        light = 10_000 / 203 * (np.maximum(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power)) ** (1 / 0.1593017578125)
    light = np.maximum(light @ TO_BT709.T, 0)
    greatest = light.max(-1, keepdims=True)
    peak, knee = 1000 / 203, 0.5
    u, slope = (greatest - knee) / (peak - knee), (peak - knee) / (1 - knee)
    tone = np.where(greatest < knee, greatest, np.where(greatest > peak, 1, knee + (1 - knee) * u * slope / (1 + u * (slope - 1))))
    return 255 * np.clip(light * tone / np.maximum(greatest, 1e-12), 0, 1) ** (1 / 2.4)


def converted(takeset, root, data, reader="", check=0, steps=""):
    (root / "in").mkdir(exist_ok=True)
    (root / "in/video.mov").write_bytes(data)
    return phone_takes.converted(takeset, root, root / "in/video.mov", check, f"{{name: slow-motion-video, {reader}}}", steps)


@pytest.mark.parametrize("transfer", [HLG, PQ])
def test_colors_are_the_formula(takeset, tmp_path, transfer):
    entry, demo, _ = converted(takeset, tmp_path, colors(transfer))
    raw = np.frombuffer(ffmpeg("-i", tmp_path / "in/video.mov", "-f", "rawvideo", "-pix_fmt", "yuv420p10le", "-"), "<u2").reshape(3, -1).astype(float)
    count = SIZE[0] * SIZE[1]
    inner = slice(8, None, 16)  # the middle of each block, where resizing chroma changes nothing
    for image, frame in zip(demo["obs/camera_image"][:], raw, strict=True):
        y = frame[:count].reshape(SIZE[1], SIZE[0])[inner, inner]
        cb, cr = (plane.reshape(SIZE[1] // 2, SIZE[0] // 2)[4::8, 4::8] for plane in np.split(frame[count:], 2))
        signal = signals(y, cb, cr)
        # The table is coarse where a color leaves BT.709's triangle.
        error = np.abs(image[inner, inner] - levels(signal, transfer))
        assert np.median(error) < 0.6 and np.percentile(error, 95) < 4, (np.median(error), np.percentile(error, 95), error.max())
    assert finding(entry, "hdr-mapped") and "color-primaries" not in codes(entry)
    assert entry["details"]["hdr"] == {
        "mapping": f"{'HLG' if transfer == HLG else 'PQ'} of bt2020 to SDR of bt709", "peak_cd_m2": 1000, "reference_white_cd_m2": 203}
    assert entry["details"]["color"]["transfer"] == transfer


def test_downscaled_images_are_the_mean_of_the_signal(takeset, tmp_path):
    """Colors are mapped after downscaling: of a still gray, that changes nothing; of stripes of two grays, the mean code decides."""
    luma = np.tile(np.repeat([[300, 700]], SIZE[0] // 2, 0).ravel(), (SIZE[1], 1))
    data = encoded([np.concatenate([luma.ravel(), np.full(SIZE[0] * SIZE[1] // 2, 512)])] * 2, HLG)
    _, demo, _ = converted(takeset, tmp_path, data, steps="{resize-image: {width: 48, height: 32}}")
    inside = demo["obs/camera_image"][0][:, 4:-4].astype(int)
    exact = levels(signals(np.array([500.0]), np.array([512]), np.array([512])), HLG)
    assert np.abs(inside - exact).max() < 2


def test_the_bytes_are_the_same_for_any_number_of_threads(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/hdr.mov").write_bytes(colors(HLG))
    assert same_for_all_jobs(takeset, tmp_path / "in", jobs=(1, 2, 7)) == 1


def test_eight_bits_and_other_primaries_are_mapped_too(takeset, tmp_path):
    color = ["-colorspace", "bt709", "-color_primaries", "smpte432", "-color_trc", HLG, "-color_range", "tv"]
    gray = ["-f", "lavfi", "-i", "color=c=0xBFBFBF:size=64x48:rate=30:duration=0.2,format=yuv420p", "-c:v", "libx264", "-crf", "1"]
    entry, demo, _ = converted(takeset, tmp_path, made(".mov", *gray, *color))
    image = demo["obs/camera_image"][0].astype(int)
    assert entry["details"]["hdr"]["mapping"] == "HLG of smpte432 to SDR of bt709" and (image.max(-1) - image.min(-1)).max() <= 2
    assert 200 <= np.median(image) <= 245


def test_what_the_container_alone_declares_counts(takeset, tmp_path):
    (tmp_path / "coded.mov").write_bytes(colors(HLG))
    # The coded frames say "unspecified", the box colr says HLG.
    unsaid = "hevc_metadata=colour_primaries=2:transfer_characteristics=2:matrix_coefficients=2"
    data = made(".mov", "-i", tmp_path / "coded.mov", "-c", "copy", "-bsf:v", unsaid, "-color_primaries", "bt2020", "-color_trc", HLG, "-colorspace", "bt2020nc", "-movflags", "write_colr", "-tag:v", "hvc1")
    assert b"colrnclx" in data or b"colrnclc" in data
    entry, demo, _ = converted(takeset, tmp_path, data)
    (tmp_path / "both").mkdir()
    _, other, _ = converted(takeset, tmp_path / "both", colors(HLG))
    assert finding(entry, "hdr-mapped") and np.array_equal(demo["obs/camera_image"][:], other["obs/camera_image"][:])
    (tmp_path / "refused").mkdir()
    assert problem(converted(takeset, tmp_path / "refused", data, "hdr: refuse", check=3))["code"] == "color-unsupported"


def test_refusing_is_an_option(takeset, tmp_path):
    found = problem(converted(takeset, tmp_path, colors(HLG), "hdr: refuse", check=3))
    assert found["code"] == "color-unsupported" and "hdr: refuse" in found["message"] and HLG in found["message"]


def test_formats_that_are_not_mapped_say_so(takeset, tmp_path):
    source = ["-f", "lavfi", "-i", "testsrc2=size=64x48:rate=30:duration=0.2,format=yuv422p10le", "-c:v", "libx265", "-x265-params", "log-level=error"]
    data = made(".mov", *source, "-tag:v", "hvc1", "-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", PQ)
    found = problem(converted(takeset, tmp_path, data, check=3))
    assert found["code"] == "color-unsupported" and "yuv422p10le" in found["message"] and "4:2:0" in found["message"]


def dolby_vision(data, profile, compatibility):
    """The video with a configuration of Dolby Vision beside that of HEVC: profile, level 4, metadata and base layer, and what the base layer is."""
    bits = profile << 9 | 4 << 3 | 0b101
    configuration = box("dvvC" if profile > 7 else "dvcC", bytes([1, 0]) + struct.pack(">H", bits) + bytes([compatibility << 4]) + bytes(19))

    def add(payload):
        ((kind, entry),) = boxes(payload[8:])
        assert kind == "hvc1"
        return payload[:8] + box(kind, entry + configuration)

    return changed(data, "moov/trak/mdia/minf/stbl/stsd", add)


@pytest.mark.parametrize("profile, compatibility, words", [(8, 4, None), (8, 1, None), (5, 0, "profile 5")])
def test_dolby_vision_is_read_by_its_base_layer(takeset, tmp_path, profile, compatibility, words):
    data = dolby_vision(colors(HLG), profile, compatibility)
    if words:
        found = problem(converted(takeset, tmp_path, data, check=3))
        assert found["code"] == "color-unsupported" and words in found["message"]
    else:
        entry, demo, _ = converted(takeset, tmp_path, data)
        assert finding(entry, "hdr-mapped") and len(demo["obs/camera_image"]) == 3


def test_hdr_in_other_readers(takeset, tmp_path):
    """An option of every reader of videos: a Stray Scanner recording whose video is HLG."""
    takeset("simulate", "stray-scanner", "--seconds", 0.5, "--size", "192x128", "--output", tmp_path / "scan", check=0)
    path = tmp_path / "scan/rgb.mp4"
    color = ["-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", HLG]
    data = made(".mp4", "-ignore_editlist", "1", "-i", path, "-c:v", "libx265", "-x265-params", "log-level=error:bframes=0", "-pix_fmt", "yuv420p10le", "-tag:v", "hvc1", *color)
    path.write_bytes(data)
    takeset.convert(tmp_path / "scan", output=tmp_path / "out", check=0)
    entry, demo, _ = only(tmp_path / "out")
    assert finding(entry, "hdr-mapped") and isinstance(demo["obs/camera_image"], h5py.Dataset)
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: stray-scanner, hdr: refuse}\ntransforms: [align]\n")
    takeset.convert(tmp_path / "scan", output=tmp_path / "other", check=3, arguments=["--pipeline", tmp_path / "p.yaml"])
    assert problem(record(tmp_path / "other"))["code"] == "color-unsupported"
