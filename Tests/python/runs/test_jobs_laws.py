"""Damaged and odd videos and images: the same records and bytes whatever the jobs that share the parts of a take."""

import pytest
from conversions import same_for_all_jobs
from odd_images import every_image, with_alpha, with_damaged_images
from odd_videos import changing
from scans import png
from stack_sessions import still
from videos import FRAGMENTS, flipped, rotated, samples, video_file

SIMULATED = {
    "anysense": ["--size", "96x128"], "iphumi": ["--size", "128x96"], "record3d": ["--size", "96x128", "--depth-size", "48x64"],
    "spectacular-rec": ["--size", "96x72"], "stray-scanner": ["--size", "96x72"], "transforms-json": ["--form", "nerfcapture", "--size", "96x72"],
}


def with_a_flipped_bit(data, number):
    at, size = samples(data)[number]
    out = bytearray(data)
    out[at + 5 + size // 10] ^= 8
    return bytes(out)


def videos():
    found = changing()
    for kind, options in {"h264": {}, "reordered": {"b_frames": 2}, "hevc": {"codec": "hevc"}, "fragments": FRAGMENTS}.items():
        data = video_file(count=130, **options)
        found |= {f"{kind}.mp4": data, f"{kind} damaged twice.mp4": flipped(data, [40, 100])}
        found |= {f"{kind} with a bit of {n} turned.mp4": with_a_flipped_bit(data, n) for n in (20, 75, 121)}
    return found | {"upright.mov": rotated(video_file(count=90), 90)}


@pytest.mark.slow
def test_outcomes_findings_and_bytes_do_not_depend_on_the_jobs(takeset, tmp_path):
    inputs = tmp_path / "in"
    inputs.mkdir()
    for name, data in videos().items():
        (inputs / name).write_bytes(data)
    ways = ["cut", "noise", "zeros", "tables", "png"]
    for offset in range(2):
        with_damaged_images(still(), dict(zip(range(3 + offset, 36, 7), ways))).write(inputs / f"damaged {offset}")
    for app, options in SIMULATED.items():
        takeset("simulate", app, "--seconds", 1.5, *options, "--output", inputs / app, check=0)
    for offset, app in enumerate(["record3d", "stray-scanner"]):
        for n, path in enumerate(sorted([*(inputs / app).rglob("*.jpg"), *(inputs / app).rglob("*.png")])[offset::5]):
            path.write_bytes(path.read_bytes()[: -10 - 100 * (n % 3)])
    # Each image lets another one through where it is transparent.
    layer = iter(range(10_000))
    every_image(lambda pixels: png(with_alpha(pixels, (0, next(layer) * 7 % 256))))(inputs / "transforms-json")
    written = same_for_all_jobs(takeset, inputs, check=3, jobs=(1, 2, 4, 7), arguments=["--isolate", "never"])
    assert 12 <= written <= 30
