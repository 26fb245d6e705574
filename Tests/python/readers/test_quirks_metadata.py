"""Quirks of sessions, rows 50 to 55 and 60: parts of uploads, files of others, what metadata say, and names."""


import pytest
from outputs import dropped, finding, traces, warnings
from quirks import (
    ASSUMED, CLEAN, SLAM, arkit_with_depth_maps, arkit_with_depth_values, packed_folder, quirk, slam_with_a_scale, synthetic_session,
    two_cameras,
)
from session_checks import rows_are, same
from stack_sessions import COUNT, START, numbered_images, slam_alone, still, uptimes, v1, v2, v3_slam


def uploaded(count, session=None):
    session = session or still()
    session.rgb = numbered_images(range(count))
    session.metadata |= {"rgbFrameCount": COUNT}
    return session


@quirk(50, "partial-upload", "count-mismatch", "image-missing")
def upload_of_the_beginning():
    return uploaded(25)


@quirk(50, "partial-upload", "count-mismatch", "image-missing")
def upload_of_half():
    return uploaded(20)


@quirk(50, "too-few-images", outcome="failed")
def upload_of_less_than_half():
    return uploaded(19)


@quirk(50, "partial-upload", *ASSUMED, "count-mismatch", "image-missing")
def upload_of_the_beginning_of_slam():
    return uploaded(25, slam_alone())


@pytest.mark.parametrize("build, count", [(upload_of_the_beginning, 25), (upload_of_half, 20), (upload_of_the_beginning_of_slam, 25)])
def test_row_50_what_arrived_is_used(batch, build, count):
    entry, demo, meta = batch(build)
    rows_are(demo, meta, range(count))
    assert entry["details"]["coverage"] == pytest.approx(count / COUNT, abs=1e-9)
    assert sum(dropped(entry).values()) == COUNT - count


def test_row_50_less_than_half_fails_the_take(batch):
    entry, _, _ = batch(upload_of_less_than_half)
    assert "19 of the 40" in entry["reason"]


def test_row_50_a_complete_session_is_not_partial(batch):
    for name in CLEAN:
        assert not {"partial-upload", "image-missing"} & warnings(batch.entries[name])


STRANGE = [".DS_Store", "._poses.json", "notes.txt", "rgb/.DS_Store", "rgb/._000003.jpg", "rgb/000003.small.jpg", "rgb/Thumbs.db"]


@quirk(51, of=v2)
def files_of_others(session):
    below = ["viz/0001.png", "viz/stats.txt", "viz/more/x", "__MACOSX/._rgb", "__MACOSX/rgb/._000001.jpg"]
    session.files |= {path: b"\0nothing\xff" for path in [*STRANGE, *below]}


def test_row_51_files_of_others_are_listed_and_not_read(batch):
    entry, demo, meta = batch(files_of_others)
    same((demo, meta), batch.demos["clean-v2"])
    assert entry["details"]["ignored"] == sorted([*STRANGE, "viz/", "__MACOSX/"])
    clean = batch.entries["clean-v2"]
    assert entry["inputs"] == clean["inputs"] and entry["input_sha256"] == clean["input_sha256"]
    assert not any(entry["details"].get("ignored") for name, entry in batch.entries.items() if name in CLEAN)


def started(text):
    session = v1()
    del session.metadata["endTime"]
    session.metadata.pop("startTime")
    if text:
        session.metadata["startTime"] = text
    return session


@quirk(52)
def no_start_time():
    return started(None)


@quirk(52)
def start_time_with_a_fraction():
    return started("2026-02-18T20:23:54.789Z")


@quirk(52)
def start_time_with_an_offset():
    return started("2026-02-18T15:23:54-05:00")


def test_row_52_a_start_time_is_optional(batch):
    _, demo, meta = batch(no_start_time)
    assert "unix_origin_ns" not in meta["timestamp_ns"].attrs
    rows_are(demo, meta, range(COUNT))


@pytest.mark.parametrize("build", [start_time_with_a_fraction, start_time_with_an_offset])
def test_row_52_other_forms_of_the_start_time(batch, build):
    _, _, meta = batch(build)
    found = meta["timestamp_ns"].attrs
    assert 0 <= found["unix_origin_ns"] - START * 10**9 <= (789_000_000 if build is start_time_with_a_fraction else 0)
    assert found["unix_origin_resolution_ns"] == 10**9


@quirk(53, of=v1)
def no_duration(session):
    del session.metadata["durationSeconds"]


@quirk(53, of=v1)
def another_duration(session):
    session.metadata["durationSeconds"] = 999.5


def test_row_53_the_length_is_measured_and_theirs_kept(batch):
    first, *demo = batch(no_duration)
    second, *other = batch(another_duration)
    same(demo, other)
    assert "durationSeconds" not in first["details"]["declared"] and second["details"]["declared"]["durationSeconds"] == 999.5
    reported = [batch.inspected[entry["id"]]["seconds"] for entry in (first, second)]
    times = uptimes()
    assert reported == pytest.approx([times[-1] - times[0]] * 2, abs=1e-6)


@quirk(54, "capture-source-unknown", *ASSUMED, of=slam_alone)
def another_source(session):
    session.metadata |= {"captureSource": "stereo_usb"}


@quirk(54, of=v2)
def more_keys(session):
    session.metadata |= {"zoomFactor": 1.5, "operator": "Wilhelmina Quist", "app": {"build": 7, "channel": "wq-secret"}}


def test_row_54_an_unknown_source_is_not_arkit(batch):
    entry, demo, meta = batch(another_source)
    rows_are(demo, meta, range(COUNT))
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y down, z forward" and entry["variant"] == "v3-slam"
    assert "stereo_usb" in finding(entry, "capture-source-unknown")["message"]


def test_row_54_unknown_keys_are_named_and_their_values_kept_out(batch):
    entry, demo, meta = batch(more_keys)
    same((demo, meta), batch.demos["clean-v2"])
    assert entry["details"]["unknown_keys"] == ["app", "operator", "zoomFactor"]
    assert traces(batch.root / "out", "Wilhelmina", "wq-secret") == []


def test_row_54_what_the_apps_write_is_known(batch):
    for build in arkit_with_depth_maps, arkit_with_depth_values, slam_with_a_scale, two_cameras, packed_folder, synthetic_session:
        entry, _, _ = batch(build)
        assert not entry["details"].get("unknown_keys")


def first_frames(count):
    session = still()
    session.poses, session.rgb = session.poses[:count], numbered_images(range(count))
    return session


@quirk(55, "short-episode")
def seventeen_frames():
    return first_frames(17)


@quirk(55)
def eighteen_frames():
    return first_frames(18)


@quirk(55, "short-episode", "image-missing")
def eighteen_poses_and_fewer_images():
    session = first_frames(18)
    for number in 4, 9:
        del session.rgb[number]
    return session


def test_row_55_few_frames_are_written_and_noted(batch):
    for build, count in (seventeen_frames, 17), (eighteen_frames, 18):
        _, demo, meta = batch(build)
        rows_are(demo, meta, range(count))


def test_row_55_frames_count_and_not_poses(batch):
    _, demo, meta = batch(eighteen_poses_and_fewer_images)
    rows_are(demo, meta, [i for i in range(18) if i not in (4, 9)])


@quirk(60, *SLAM, of=v3_slam)
def video_in_capitals(session):
    session.files["VIDEO.MOV"], session.video = session.video, None


def test_row_60_capitals_make_no_difference(batch):
    entry, demo, meta = batch(video_in_capitals)
    same((demo, meta), batch.demos["clean-v3-slam"])
    assert "times-from-movie" in [f["code"] for f in entry["findings"]]
    assert [i["path"] for i in entry["inputs"] if i["role"] == "movie"] == ["VIDEO.MOV"]
