"""Stray Scanner: which image of the video belongs to which row."""

import numpy as np
import pytest
from conversions import fails, pipeline
from images import numbers
from outputs import codes, dropped, finding
from scan_checks import Scans, AT, convert, depth_of, maps, others, retimed_video, scan_codes
from scans import depth_map, scan_video, session
from videos import decoded

RETIMED = {
    "one missing": ([8], []), "one missing beside a gap": ([6], []), "first missing": ([0], []), "last missing": ([19], []),
    "several missing": ([0, 1, 8, 14, 15], []), "one more in a gap": ([], [AT[11] + 1]), "one more before": ([], [-1]),
    "two more behind": ([], [AT[19] + 1, AT[19] + 2]), "one missing and one more": ([8], [AT[11] + 2]),
}


def with_video(video):
    found = session(times="time")
    found.video = video
    return found


@pytest.fixture(scope="module")
def retimed(takeset, tmp_path_factory):
    found = {name: with_video(retimed_video(*RETIMED[name])[0]) for name in RETIMED}
    return Scans(takeset, tmp_path_factory.mktemp("retimed"), found)


@pytest.mark.parametrize("name", RETIMED)
def test_a_video_in_true_time_is_paired_by_time(retimed, name):
    gone, extra = RETIMED[name]
    _, shown = retimed_video(gone, extra)
    entry, demo, meta = retimed[name]
    rows = others(*gone)
    assert entry["details"]["movie_pairing"] == "time"
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    assert meta["streams/camera_image/source_index"][:].tolist() == [shown.index(n) for n in rows]
    assert np.abs(meta["streams/camera_image/dt_ns"][:]).max() <= 1e9 / 120
    expected = {"image-missing": len(gone), "pose-missing": len(extra)}
    assert dropped(entry) == {reason: count for reason, count in expected.items() if count}
    assert ("movie-count-mismatch" in scan_codes(entry)) == (len(gone) != len(extra))
    assert (entry["steps"][0]["frames_in"], entry["steps"][0]["frames_out"]) == (20 + len(extra), len(rows))
    assert (depth_of(demo) == maps(depth_map)[rows]).all()


@pytest.mark.parametrize("samples, lost", [(17, {"image-missing": 3}), (22, {"pose-missing": 2}), (11, {"image-missing": 9})])
def test_a_video_of_constant_rate_is_paired_by_number(takeset, tmp_path, samples, lost):
    """One with fewer frames than rows may lack the first or the last ones: only who knows it may say so."""
    found = session(times="number")
    found.video = scan_video(tuple(range(0, 10 * samples, 10)))
    assumed = pipeline(tmp_path, {"name": "stray-scanner", "ambiguous-movie": "assume"})
    entry, demo, meta = convert(takeset, tmp_path, found, assumed)
    rows = list(range(min(samples, 20)))
    assert entry["details"]["movie_pairing"] == "number" and dropped(entry) == lost
    assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:])
    message = finding(entry, "movie-count-mismatch" if samples > 20 else "movie-alignment-ambiguous")["message"]
    assert "20" in message and str(samples) in message
    if samples < 20:
        assert f"each image is of a frame {20 - samples} rows away" in message
        (tmp_path / "masked").mkdir()
        entry, demo, meta = convert(takeset, tmp_path / "masked", found)
        assert meta["source_index"][:].tolist() == list(range(20)) and not meta["streams/camera_image/valid"][:].any()
        assert "so all images are masked" in finding(entry, "movie-alignment-ambiguous")["message"] and dropped(entry) == {}


def shown(video, tmp_path):
    """The numbers of the images that players show."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "rgb.mp4").write_bytes(video)
    return numbers(decoded(tmp_path / "rgb.mp4"))


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("count", [10, 40])
def test_the_image_that_players_hide_belongs_to_the_first_row(takeset, tmp_path, codec, count):
    found = session(count, times="number")
    found.video = scan_video(tuple(range(0, 10 * count, 10)), codec=codec, hides=True)
    assert shown(found.video, tmp_path / "player") == list(range(1, count))
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["source_index"][:].tolist() == list(range(count)) == numbers(demo["obs/camera_image"][:])
    assert meta["streams/camera_image/source_index"][:].tolist() == list(range(count))
    assert (meta["streams/camera_image/dt_ns"][:] == 0).all() and dropped(entry) == {}
    assert entry["details"]["movie_first_row"] == 0 and entry["details"]["edit_list"] is True
    assert {"samples-hidden", "movie-count-mismatch"}.isdisjoint(scan_codes(entry))


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_video_encoded_again_lacks_the_first_image(takeset, tmp_path, b_frames):
    found = session(times="number")
    found.video = scan_video(tuple(range(0, 190, 10)), tuple(range(1, 20)), b_frames=b_frames)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["source_index"][:].tolist() == list(range(1, 20)) == numbers(demo["obs/camera_image"][:])
    assert meta["streams/camera_image/source_index"][:].tolist() == list(range(19)) and dropped(entry) == {"image-missing": 1}
    assert entry["details"]["movie_first_row"] == 1
    message = finding(entry, "movie-count-mismatch")["message"]
    assert "19" in message and "20" in message and "row 1" in message
    assert (depth_of(demo) == maps(depth_map)[1:]).all()


def test_lines_that_are_missing_do_not_shift_images(takeset, tmp_path):
    for times in "number", "time":
        found = session(times=times)
        found.rows = [row for row in found.rows if int(row["frame"]) not in (0, 9, 13)]
        entry, demo, meta = convert(takeset, tmp_path / times, found)
        rows = others(0, 9, 13)
        assert meta["source_index"][:].tolist() == rows == numbers(demo["obs/camera_image"][:]), times
        assert dropped(entry) == {"pose-missing": 3} and "movie-count-mismatch" in scan_codes(entry)
        assert (depth_of(demo) == maps(depth_map)[rows]).all()


def test_a_steady_recording_is_paired_by_number(takeset, tmp_path):
    entry, demo, meta = convert(takeset, tmp_path, session(times="time", long={}))
    assert entry["details"]["movie_pairing"] == "number" and entry["details"]["movie_first_row"] == 0 and codes(entry) == []
    assert meta["source_index"][:].tolist() == list(range(20)) == numbers(demo["obs/camera_image"][:]) and meta["gaps"].shape == (0, 2)


def test_images_are_in_presentation_order(takeset, tmp_path):
    for times in "number", "time":
        entry, demo, _ = convert(takeset, tmp_path / times, session(times=times, b_frames=3))
        assert numbers(demo["obs/camera_image"][:]) == list(range(20)) and entry["details"]["movie_pairing"] == times


def test_fewer_than_half_of_the_images(takeset, tmp_path):
    found = session(times="number")
    found.video = scan_video(tuple(range(0, 90, 10)))
    fails(takeset, found.write(tmp_path / "bad"), "too-few-images", 9, 20)


@pytest.mark.parametrize("damage, code", [
    (lambda data: data[: len(data) // 2], "movie-unfinished"), (lambda data: b"no movie", "not-a-movie"), (lambda data: b"", "file-empty"),
])
def test_a_video_that_cannot_be_read_fails_its_take_alone(takeset, tmp_path, damage, code):
    found = session(times="time")
    found.video = damage(found.video)
    fails(takeset, found.write(tmp_path / "bad"), code, "rgb.mp4")
