"""Simulated bundles and videos: a reader finds what their truth files state."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from documents import blocks
from images import frame_code
from outputs import demos, manifest, take, traces

SMALL = ["--size", "160x120", "--seconds", 1]
FAULTS = {
    "missing-video": ("failed", "part-missing"), "missing-depth": ("failed", "part-missing"), "missing-metadata": ("failed", "part-missing"),
    "missing-chain": ("written", "chain-absent"), "empty-video": ("failed", "part-empty"), "empty-depth": ("failed", "part-empty"),
    "empty-metadata": ("failed", "part-empty"), "empty-chain": ("written", "chain-absent"), "truncated-movie": ("failed", "movie-truncated"),
    "no-moov": ("failed", "movie-unfinished"), "text-movie": ("failed", "not-a-movie"), "playlist-movie": ("failed", "not-a-movie"),
    "depth-dimensions": ("failed", "limit"), "depth-bomb": ("failed", "limit"), "depth-count": ("written", "depth-alignment-ambiguous"),
    "invalid-json": ("failed", "json-invalid"), "chain-base64": ("rejected", "chain-broken"), "chain-final": ("rejected", "chain-broken"),
    "chain-metadata": ("rejected", "chain-broken"), "chain-length": ("rejected", "chain-broken"),
}
# Need a checkpoint, which is at the 150th frame.
LONG_FAULTS = {"chain-checkpoint": ("rejected", "chain-broken"), "chain-order": ("written", "chain-reordered")}


@pytest.fixture(scope="module")
def faulty(takeset, tmp_path_factory):
    """A bundle with each fault, converted together with a valid one."""
    root = tmp_path_factory.mktemp("faults")
    for fault in FAULTS | LONG_FAULTS:
        length = ["--seconds", 6 if fault in LONG_FAULTS else 1]
        takeset("simulate", "realitycam-bundle", "--output", root / "in" / fault, "--size", "96x72", *length, "--fault", fault, check=0)
    takeset("simulate", "realitycam-bundle", "--output", root / "in/sound", *SMALL, check=0)
    takeset("run", root / "in", "--output", root / "out", "--progress", "none", check=3)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, *LONG_FAULTS])
def test_each_fault_has_its_outcome_and_stops_no_other(faulty, fault):
    outcome, code = (FAULTS | LONG_FAULTS)[fault]
    record = take(faulty / "out", fault)
    assert record["outcome"] == outcome
    assert code in [finding["code"] for finding in record["findings"]]
    assert take(faulty / "out", "sound")["outcome"] == "written"


def test_the_help_lists_every_fault(takeset):
    text = takeset("simulate", "realitycam-bundle", "--help", check=0).stdout
    listed = re.search(r"--fault <fault>.*?values:\s*(.*?)\)", text, re.S).group(1)
    assert set(re.split(r",\s*", re.sub(r"\s+", " ", listed).strip())) == set(FAULTS | LONG_FAULTS)


def test_a_session_starts_when_it_is_told(takeset, tmp_path):
    """Only its date differs, and what is measured on the epoch's clock; before 2026-02-18 nobody knows the signs of joints."""
    small = ["--variant", "v2", "--seconds", 0.5, "--size", "64x48"]
    for name, arguments in ("usual", []), ("early", ["--start-time", "2026-02-17T23:30:00+01:00"]), ("late", ["--start-time", "2027-01-01T00:00:00Z"]):
        takeset.simulate(tmp_path / name, *small, *arguments)
    starts = {name: json.loads((tmp_path / name / "metadata.json").read_text())["startTime"] for name in ("usual", "early", "late")}
    assert starts == {"usual": "2026-02-18T20:23:54Z", "early": "2026-02-17T22:30:00Z", "late": "2027-01-01T00:00:00Z"}
    usual = (tmp_path / "usual/poses.json").read_bytes()
    assert (tmp_path / "early/poses.json").read_bytes() == usual == (tmp_path / "late/poses.json").read_bytes()
    found = json.loads(takeset("inspect", *(tmp_path / name for name in starts), "--json", check=0).stdout)["takes"]
    assert {t["id"] for t in found if "joint-signs-unknown" in {f["code"] for f in t["findings"]}} == {"early"}
    said = takeset("simulate", "stack-session", "--output", tmp_path / "x", "--start-time", "yesterday", check=64).stderr
    assert "--start-time: expected a time with its zone" in said


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("app, names", [
    ("realitycam-bundle", ["depth.gz", "hash_chain.json", "metadata.json", "truth.json", "video.mp4"]), ("stray-scanner", ["odometry.csv", "rgb.mp4"]),
])
def test_the_same_seed_gives_the_same_bytes(takeset, tmp_path, app, names):
    for copy, seed in ("a", 5), ("b", 5), ("c", 6):
        keys = ["--keys", tmp_path / f"{copy}.json"] if app == "realitycam-bundle" else []
        takeset("simulate", app, "--output", tmp_path / copy, *SMALL, "--seed", seed, *keys, check=0)
    first, again, other = (files(tmp_path / copy) for copy in "abc")
    assert first == again and first.keys() >= set(names) and first[names[0]] != other[names[0]]
    if keys:
        assert sorted(first) == names and (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_videos_are_stored_upright_with_their_numbers_and_times(takeset, tmp_path, codec, rotation):
    size = ["--size", "120x160"] if rotation in (90, 270) else ["--size", "160x120"]
    takeset("simulate", "slow-motion-video", "--output", tmp_path / "in", "--seconds", 0.25, "--rate", 240, "--codec", codec, "--drop", 4,
            "--rotation", rotation, *size, check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    truth = json.loads((tmp_path / "in/truth.json").read_text())
    demo, meta = demos(tmp_path / "out")["video_1771446000"]
    images = demo["obs/camera_image"]
    assert images.attrs["rotation_applied"] == rotation
    assert [frame_code(image) for image in images[:]] == list(range(truth["pictures"]))
    ticks = np.array(truth["ticks"])
    assert (meta["timestamp_ns"][:] == np.round(ticks * (1e9 / 600)).astype(np.int64)).all()
    # Four frames of 240 Hz are missing after the tenth.
    assert meta["gaps"][:, 0].tolist() == [9] and meta["timestamp_ns"].attrs["unix_origin_ns"] == 1_771_446_000 * 10**9
    assert take(tmp_path / "out", "video_1771446000")["streams"][0]["rate_hz"] == 240


def test_a_doubly_rotated_video_is_stored_as_coded(takeset, tmp_path):
    takeset("simulate", "slow-motion-video", "--output", tmp_path / "in", "--seconds", 0.1, "--size", "120x160", "--rotation", 90, "--double-rotation",
            "--name", "recording_1771446000.mov", check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["recording_1771446000"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(12))
    assert [f["code"] for f in take(tmp_path / "out", "recording_1771446000")["findings"]] == ["rotation-suspect"]


@pytest.mark.parametrize("layout", ["folder", "storage", "multipart"])
@pytest.mark.parametrize("container", ["deflate", "gzip", *(pytest.param(name, marks=pytest.mark.slow) for name in ("zlib", "none"))])
def test_every_layout_and_wrapping_gives_the_same_rows(takeset, tmp_path, layout, container):
    for form in "headerless", "rldp":
        takeset("simulate", "realitycam-bundle", "--output", tmp_path / "in" / form, *SMALL, "--layout", layout, "--depth-container", container,
                "--depth-layout", form, check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    first, second = manifest(tmp_path / "out")["record"]["takes"]
    for dataset, other in zip(first["output"]["datasets"], second["output"]["datasets"]):
        assert dataset["path"] == other["path"] and dataset["sha256"] == other["sha256"]
    assert first["details"]["depth"]["keyframes"] == 10


def test_places_and_names_do_not_reach_the_output(takeset, tmp_path):
    takeset("simulate", "realitycam-bundle", "--output", tmp_path / "in", *SMALL, "--location", check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert traces(tmp_path / "out", "48.137", "11.576", "A. Person") == []


@pytest.mark.slow
def test_the_example_prints_what_it_says(takeset, tmp_path):
    document = "examples/bundles/README.md"
    for block in blocks(document, "console"):
        for command, expected in re.findall(r"^\$ takeset (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            assert takeset(*command.split(), cwd=tmp_path, check=0).stdout == expected, command
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    (code,) = blocks(document, "python")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "2025-11-27_whole assertion-ok complete 4 of 4", "2025-11-28_cut assertion-ok partial 10.0 of 12"]


@pytest.mark.parametrize("quirks", [
    ("poses-cut", "poses-flat"), ("poses-nan", "poses-transposed"), ("poses-missing", "poses-shuffled"), ("metadata-missing", "counts-wrong"), ("zip", "poses-cut"),
])
def test_quirks_combine_in_any_order(takeset, tmp_path, quirks):
    made = []
    for order in quirks, quirks[::-1]:
        root = tmp_path / str(len(made))
        takeset.simulate(root / "a", "--seconds", 0.3, "--size", "64x48", "--depth-size", "16x12", *(word for quirk in order for word in ("--quirk", quirk)))
        made.append(files(root))
    assert made[0] == made[1] and made[0]
