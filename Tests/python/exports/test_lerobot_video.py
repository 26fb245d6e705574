"""Videos of exports for LeRobot, seen by ffprobe and decoded by FFmpeg: constant rate, first frame at 0, key frames, places of episodes.

LeRobot finds a frame by its time, to 0.1 ms: the nearest whole frame at the file's average rate."""

import json
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from images import psnr
from lerobot_datasets import ACTIONS, CAMERA, FPS, NAMES, STEPS, Export, dataset, export, recordings
from outputs import demos

SIZE = (160, 120)


@pytest.fixture(scope="module")
def root(takeset, tmp_path_factory):
    return recordings(takeset, tmp_path_factory.mktemp("lerobot-video"), "160x120", "16x12", 1, 0.7, 0.9)


@pytest.fixture(scope="module")
def sessions(takeset, root):
    return dataset(takeset, root, *STEPS, *ACTIONS, image="raw")


@pytest.fixture(scope="module", params=["av1", "h264"])
def exported(request, sessions, root):
    export(sessions, root / request.param, "--images", "video", "--codec", request.param)
    return Export(root / request.param)


def probe(path):
    """The stream and the packets of a video."""
    command = ["ffprobe", "-v", "error", "-show_streams", "-show_packets", "-of", "json", str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (stream,) = found["streams"]
    return stream, found["packets"]


def frames(path, size=SIZE):
    """Decoded images (n, H, W, 3)."""
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    data = subprocess.run(command, check=True, capture_output=True).stdout
    return np.frombuffer(data, "u1").reshape(-1, size[1], size[0], 3)


def video_of(exported, row):
    return exported.path / exported.info["video_path"].format(
        video_key=CAMERA, chunk_index=row[f"videos/{CAMERA}/chunk_index"], file_index=row[f"videos/{CAMERA}/file_index"]
    )


def check_timing(path, fps):
    """What LeRobot's decoders rely on."""
    stream, packets = probe(path)
    base = Fraction(stream["time_base"])
    assert base <= Fraction(1, 10_000) and stream["start_pts"] == 0
    assert [packet["pts"] * base for packet in packets] == [Fraction(number, fps) for number in range(len(packets))]
    assert {packet["duration"] * base for packet in packets} == {Fraction(1, fps)}
    assert stream["duration_ts"] * base == Fraction(len(packets), fps)
    assert Fraction(stream["avg_frame_rate"]) == Fraction(stream["r_frame_rate"]) == fps
    return stream, packets


def test_videos_have_a_constant_rate_and_episodes_follow_each_other(exported):
    path = exported.path / f"videos/{CAMERA}/chunk-000/file-000.mp4"
    stream, packets = check_timing(path, FPS)
    codec = exported.record["options"]["codec"]
    assert (stream["codec_name"], stream["pix_fmt"], stream["width"], stream["height"]) == (codec, "yuv420p", *SIZE)
    assert stream["codec_tag_string"] == {"av1": "av01", "h264": "avc1"}[codec]
    keys, starts = {number for number, packet in enumerate(packets) if "K" in packet["flags"]}, []
    for row in exported.episodes:
        assert video_of(exported, row) == path
        starts.append(round(row[f"videos/{CAMERA}/from_timestamp"] * FPS))
        assert row[f"videos/{CAMERA}/from_timestamp"] == starts[-1] / FPS
        assert row[f"videos/{CAMERA}/to_timestamp"] == (starts[-1] + row["length"]) / FPS
        # An episode needs no frame of another, and each frame at most one before it.
        assert {starts[-1] + number for number in range(0, row["length"], 2)} <= keys
    assert starts == [0, *np.cumsum([row["length"] for row in exported.episodes])[:-1]] and len(packets) == exported.info["total_frames"]


def test_each_frame_is_its_row(exported, sessions):
    decoded = frames(exported.path / f"videos/{CAMERA}/chunk-000/file-000.mp4")
    for row in exported.episodes:
        images = demos(sessions)[row["takeset/episode_id"]][0]["obs/camera_image"][:]
        first = round(row[f"videos/{CAMERA}/from_timestamp"] * FPS)
        shown = decoded[first : first + row["length"]]
        for number, image in enumerate(shown):
            found = [psnr(image, other) for other in images]
            assert np.argmax(found) == number and found[number] > 27, (number, max(found))
    assert any(line.startswith("images: video is lossy") for line in exported.record["lost"])


def test_info_describes_the_video_and_parquet_has_none(exported):
    codec = exported.record["options"]["codec"]
    feature = exported.features[CAMERA]
    quality, preset = {"av1": (30, 12), "h264": (23, "medium")}[codec]
    assert feature == {
        "dtype": "video", "shape": [120, 160, 3], "names": ["height", "width", "channels"],
        "info": {
            "video.height": 120, "video.width": 160, "video.codec": codec, "video.pix_fmt": "yuv420p", "video.fps": FPS,
            "video.channels": 3, "has_audio": False, "video.g": 2, "video.crf": quality, "video.preset": preset, "video.fast_decode": 0,
            "video.video_backend": "pyav", "video.extra_options": {}, "is_depth_map": False,
        },
    }  # fmt: skip
    assert exported.info["video_path"] == "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    assert CAMERA not in exported.rows[0] and f"{CAMERA}_depth" in exported.rows[0]
    assert exported.features[f"{CAMERA}_depth"]["dtype"] == "image"


def test_statistics_are_those_of_the_images_before_encoding(exported, sessions):
    for row in exported.episodes:
        images = demos(sessions)[row["takeset/episode_id"]][0]["obs/camera_image"][:].reshape(-1, 3) / 255
        found = {name: np.array(row[f"stats/{CAMERA}/{name}"]).reshape(-1) for name in ("mean", "std", "min", "max")}
        for name, value in {"mean": images.mean(0), "std": images.std(0), "min": images.min(0), "max": images.max(0)}.items():
            assert np.allclose(found[name], value, rtol=1e-9), name
        assert row[f"stats/{CAMERA}/count"] == [row["length"]]


def test_jpeg_files_become_video_too(takeset, root):
    source = dataset(takeset, root, *STEPS, *ACTIONS, name="jpegs")
    export(source, root / "from-jpegs", "--images", "video", "--episodes", NAMES[0])
    found = Export(root / "from-jpegs")
    raw = demos(root / "dataset")[NAMES[0]][0]["obs/camera_image"][:]
    assert psnr(frames(found.path / f"videos/{CAMERA}/chunk-000/file-000.mp4"), raw) > 27 and found.record["options"]["codec"] == "av1"


def test_an_episode_that_does_not_fit_begins_a_video(sessions, root):
    from takeset.lerobot import export as export_here

    export_here(sessions, root / "full", images="video", video_file_mb=0.01, files_per_chunk=2)
    found = Export(root / "full")
    names = [path.relative_to(found.path / f"videos/{CAMERA}").as_posix() for path in sorted(found.path.rglob("*.mp4"))]
    assert names == ["chunk-000/file-000.mp4", "chunk-000/file-001.mp4", "chunk-001/file-000.mp4"]
    for row in found.episodes:
        _, packets = check_timing(video_of(found, row), FPS)
        assert len(packets) == row["length"]
        assert (row[f"videos/{CAMERA}/from_timestamp"], row[f"videos/{CAMERA}/to_timestamp"]) == (0, row["length"] / FPS)


@pytest.mark.parametrize("fps", [7, 24, 50, 240])
def test_other_rates_have_exact_times_too(takeset, root, fps):
    source = dataset(takeset, root, {"resample": {"rate": fps}}, *STEPS[1:], *ACTIONS, name=f"at-{fps}")
    export(source, root / f"export-{fps}", "--fps", fps, "--images", "video", "--codec", "h264")
    found = Export(root / f"export-{fps}")
    _, packets = check_timing(found.path / f"videos/{CAMERA}/chunk-000/file-000.mp4", fps)
    assert len(packets) == found.info["total_frames"] == len(found.rows) and found.info["fps"] == fps


def test_odd_sizes(takeset, root, tmp_path):
    """AV1 takes them, H.264 does not."""
    resized = {"resize-image": {"width": 97, "height": 73, "mode": "stretch"}}
    source = dataset(takeset, root, *STEPS, resized, *ACTIONS, image="raw", name="odd")
    for codec, code in ("h264", 65), ("av1", 0):
        done = export(source, tmp_path / codec, "--images", "video", "--codec", codec, check=code)
        assert codec == "av1" or "camera_image: H.264 needs even sizes, found 97x73" in done.stderr
    images = demos(source)[NAMES[0]][0]["obs/camera_image"][:]
    decoded = frames(tmp_path / f"av1/videos/{CAMERA}/chunk-000/file-000.mp4", (97, 73))
    assert psnr(decoded[: len(images)], images) > 25


def test_without_an_encoder_of_av1_it_is_h264(sessions, tmp_path, monkeypatch):
    import av

    from takeset import TakesetError
    from takeset.lerobot import export as export_here

    monkeypatch.setattr(av, "codecs_available", av.codecs_available - {"libsvtav1"})
    export_here(sessions, tmp_path / "out", images="video", episodes=NAMES[:1])
    assert probe(tmp_path / f"out/videos/{CAMERA}/chunk-000/file-000.mp4")[0]["codec_name"] == "h264"
    with pytest.raises(TakesetError, match="has no encoder libsvtav1"):
        export_here(sessions, tmp_path / "other", images="video", codec="av1")


def test_a_video_of_several_episodes_is_short_enough_for_float32_times(tmp_path):
    """LeRobot compares times as float32. Where their step is more than its 0.1 ms, it misses frames of later episodes of a file."""
    from takeset.lerobot import _video

    videos = _video.VideoFiles(str(tmp_path), "camera", _video.codec("h264"), 5, 200, 1000)
    images = np.zeros((16, 16, 3), "u1")
    lengths = [400, 590, 500, 1300, 20]
    found = [videos.add((images for _ in range(seconds * 5)), "") for seconds in lengths]
    videos.close()
    assert [(row["videos/camera/file_index"], row["videos/camera/from_timestamp"], row["videos/camera/to_timestamp"]) for row in found] == [
        (0, 0, 400), (0, 400, 990), (1, 0, 500), (2, 0, 1300), (3, 0, 20)]  # fmt: skip
    assert np.spacing(np.float32(1000)) < 1e-4 < np.spacing(np.float32(1025))
