"""Quirks of sessions, rows 36 to 44: joints and IMU."""

import csv
import datetime
import io

import numpy as np
import pytest
from outputs import finding, warnings
from quirks import SLAM, alone, pipeline, quirk
from session_checks import all_joints_masked, joints_are, methods, nanoseconds, rows_are, same
from stack_sessions import CHANNELS, COUNT, EPOCH, START, STEP, UPTIME, inertial, numbered_images, readings, slam_poses, v2, v3_slam
from videos import video_file


@quirk(36, of=v2)
def encoders_missing(session):
    session.encoders = None
    del session.metadata["encoderCount"]


@quirk(36, of=v2)
def encoders_empty(session):
    session.encoders = []
    del session.metadata["encoderCount"]


@pytest.mark.parametrize("build", [encoders_missing, encoders_empty])
def test_row_36_a_session_needs_no_encoders(batch, build):
    _, demo, meta = batch(build)
    rows_are(demo, meta, range(COUNT))
    assert "joints" not in demo["obs"] and "joints_raw" not in meta and "joints" not in meta["streams"]


@quirk(37)
def encoders_on_unix_time():
    return v2()


@quirk(37, of=v2)
def encoders_on_the_frames_clock(session):
    for reading in session.encoders:
        reading["timestamp"] = round(reading["timestamp"] - EPOCH + UPTIME + 0.013, 6)


def test_row_37_clocks_are_synchronized(batch):
    entry, demo, meta = batch(encoders_on_unix_time)
    near = joints_are(demo, meta, readings(), np.arange(len(readings())) / 50)
    (alignment,) = [a for a in entry["alignment"] if a["stream"] == "joints"]
    assert near.all() and "first-sample" in alignment["method"]
    assert abs(int(alignment["offset_ns"]) - round((UPTIME - EPOCH) * 1e9)) < 1000 and alignment["residual_ns"] == 50_000_000


def test_row_37_one_clock_is_used_as_it_is(batch):
    entry, demo, meta = batch(encoders_on_the_frames_clock)
    joints_are(demo, meta, readings(), 0.013 + np.arange(len(readings())) / 50)
    assert "same-clock" in methods(entry)["joints"]
    assert [a["offset_ns"] for a in entry["alignment"] if a["stream"] == "joints"] == ["0"]


@quirk(38, "joints-late", *SLAM, of=v3_slam)
def connected_late_with_an_imu(session):
    session.poses, session.rgb, session.imu, session.video = slam_poses(range(91)), numbered_images(range(91)), inertial(91 / 60), video_file(91, 60)
    session.encoders = [r for r in readings(91 / 60, late=0.003) if r["timestamp"] > START + 1.2]


@quirk(38, "joints-gap", of=v2)
def disconnected_for_a_while(session):
    del session.encoders[9:23]


def test_row_38_an_imu_aligns_the_late_readings(batch):
    entry, demo, meta = batch(connected_late_with_an_imu)
    found = connected_late_with_an_imu().encoders
    near = joints_are(demo, meta, found, [r["timestamp"] - EPOCH for r in found])
    assert not near[:40].any() and near[-20:].all() and "first-imu" in methods(entry)["joints"]


def test_row_38_frames_without_the_radio_are_masked(batch):
    entry, demo, meta = batch(disconnected_for_a_while)
    found = disconnected_for_a_while().encoders
    near = joints_are(demo, meta, found, [r["timestamp"] - EPOCH for r in found])
    assert 0 < (~near).sum() < 20 and finding(entry, "joints-gap")["count"] == 1


def failed_reads():
    """A read fails as the first joint passes through 0; the angles next to -1 are angles."""
    found = readings()
    angles = np.array([r["index_mcp"] for r in found])
    crossing = int(np.abs(np.diff(angles)).argmax())
    for k in crossing, crossing + 1:
        found[k]["index_mcp"] = -1
    found[4]["three_finger_pip"] = -1
    found[20]["index_pip"], found[21]["index_pip"] = -11 * STEP, -12 * STEP
    return found


@quirk(39, "joint-read-failed", of=v2)
def reads_that_failed(session):
    session.encoders = failed_reads()


@quirk(39, "joint-dead", of=v2)
def dead_sensor(session):
    for reading in session.encoders:
        reading["index_pip"] = -1.0


def test_row_39_failed_reads_are_masked_before_unwrapping(batch):
    entry, demo, meta = batch(reads_that_failed)
    joints_are(demo, meta, failed_reads(), np.arange(len(readings())) / 50)
    invalid = demo["obs/joints_valid"][:] == 0
    assert invalid.any(0).tolist() == [True, False, False, True]
    counts = {f["field"]: f["count"] for f in entry["findings"] if f["code"] == "joint-read-failed"}
    assert counts == {".index_mcp": 2, ".three_finger_pip": 1}


def test_row_39_a_dead_sensor_is_named(batch):
    entry, demo, meta = batch(dead_sensor)
    joints_are(demo, meta, dead_sensor().encoders, np.arange(len(readings())) / 50)
    assert not demo["obs/joints_valid"][:, 1].any() and demo["obs/joints_valid"][:][:, [0, 2, 3]].all()
    assert finding(entry, "joint-dead")["field"] == ".index_pip"


@quirk(40)
def angles_up_to_360():
    return v2()


@quirk(40, of=v2)
def angles_with_a_sign(session):
    for k, reading in enumerate(session.encoders):
        reading["index_mcp"] = -180.0 if k == 0 else (-180 + k * 8 * STEP + 180) % 360 - 180
        reading["three_finger_pip"] = 180.0 - k % 2 * STEP


@quirk(40, of=v2)
def angles_without_evidence(session):
    for reading in session.encoders:
        reading["index_mcp"] = reading["three_finger_pip"] = 90.0


@pytest.mark.parametrize("build, expected", [
    (angles_up_to_360, "0..360"), (angles_with_a_sign, "signed"), (angles_without_evidence, "unknown"),
])
def test_row_40_raw_and_unwrapped_angles_and_their_range(batch, build, expected):
    entry, demo, meta = batch(build)
    found = build().encoders
    joints_are(demo, meta, found, np.arange(len(found)) / 50)
    index = meta["streams/joints/source_index"][:]
    assert np.array_equal(meta["joints_raw"][:], np.array([[r[c] for c in CHANNELS] for r in found], "f4")[index])
    assert entry["details"]["joint_range"] == expected
    first = demo["obs/joints"][0]
    assert (first > -180).all() and (first <= 180).all()


SIGNS_CHANGED = 1771401600  # 2026-02-18T08:00:00Z


def recorded(start):
    session = v2()
    times = [datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for time in (start, start + 1)]
    session.metadata |= {"startTime": times[0], "endTime": times[1]}
    for reading in session.encoders:
        reading["timestamp"] = round(reading["timestamp"] - START + start, 6)
    return session


@quirk(41, "joint-signs-unknown")
def before_the_signs_changed():
    """Recorded with firmware whose third and fourth joints may run the other way."""
    return recorded(SIGNS_CHANGED - 1)


@quirk(41)
def as_the_signs_changed():
    return recorded(SIGNS_CHANGED)


@quirk(41)
def before_the_signs_changed_without_joints():
    session = recorded(SIGNS_CHANGED - 1)
    session.encoders, session.metadata["encoderCount"] = [], 0
    return session


def test_row_41_signs_are_not_changed_unasked(takeset, batch, tmp_path):
    _, demo, meta = batch(before_the_signs_changed)
    joints_are(demo, meta, readings(), np.arange(len(readings())) / 50)
    arguments = pipeline(tmp_path, **{"joint-signs": "++--"})
    entry, negated, other = alone(takeset, batch, before_the_signs_changed, tmp_path / "out", arguments)
    assert np.array_equal(negated["obs/joints"][:], demo["obs/joints"][:] * [1, 1, -1, -1])
    assert np.array_equal(other["joints_raw"][:], meta["joints_raw"][:]) and not warnings(entry)


@pytest.mark.parametrize("build", [before_the_signs_changed, as_the_signs_changed, before_the_signs_changed_without_joints])
def test_row_41_a_date_of_early_firmware_is_a_finding(batch, build):
    batch(build)


@quirk(42, "joints-recalibrated", of=v2)
def zero_set_again(session):
    for reading in session.encoders[20:]:
        for channel in CHANNELS:
            reading[channel] = (reading[channel] + 45) % 360


def test_row_42_a_new_zero_is_detected_and_copied_to_the_output(batch):
    entry, demo, meta = batch(zero_set_again)
    joints_are(demo, meta, zero_set_again().encoders, np.arange(len(readings())) / 50)
    assert finding(entry, "joints-recalibrated")["count"] == 1


LAPTOP = 3.25  # seconds that the laptop's clock is behind the phone's


def csv_text(found, extra=()):
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["local_time", "esp_timestamp_ms", *CHANNELS])
    for reading in found:
        writer.writerow([f"{reading['timestamp']:.2f}", reading["esp_timestamp_ms"], *[f"{reading[c]:.2f}" for c in CHANNELS]])
    lines = lines.getvalue().splitlines()
    for at, line in extra:
        lines.insert(at, line)
    return "\n".join(lines) + "\n"


def csv_readings():
    """As the laptop writes them, with two decimals."""
    return [r | {"timestamp": round(r["timestamp"] - LAPTOP, 2)} | {c: round(r[c], 2) for c in CHANNELS} for r in readings()]


def with_csv(encoders, extra=()):
    session = v2()
    session.encoders = encoders
    del session.metadata["encoderCount"]
    session.files["encoders_20260218_202354.csv"] = csv_text(csv_readings(), extra)
    return session


@quirk(43, "encoder-csv-unaligned", "clock-unaligned")
def encoders_from_a_laptop():
    return with_csv(None)


@quirk(43, "encoder-csv-unaligned", "encoder-csv-lines-skipped", "clock-unaligned")
def encoders_from_a_laptop_with_remarks():
    return with_csv([], [(0, "# gripper 2"), (10, "# calibrated"), (20, "ERROR: sensor 1 not found")])


@quirk(43)
def encoders_from_both():
    session = with_csv(readings())
    session.metadata["encoderCount"] = None
    return session


@quirk(43, of=v2)
def encoders_as_the_csv_should_read(session):
    session.encoders = [r | {"timestamp": round(r["timestamp"] + LAPTOP, 2)} for r in csv_readings()]


@quirk(43, of=v2)
def encoders_by_other_names(session):
    for reading in session.encoders:
        reading["local_time"], reading["timestamp_ms"] = reading.pop("timestamp"), reading.pop("esp_timestamp_ms")


@pytest.mark.parametrize("build", [encoders_from_a_laptop, encoders_from_a_laptop_with_remarks])
def test_row_43_a_laptops_clock_is_not_the_phones(batch, build):
    entry, demo, meta = batch(build)
    assert all_joints_masked(demo, meta) and methods(entry)["joints"].split("+")[0] == "unaligned"
    assert "encoders_20260218_202354.csv" in [i["path"] for i in entry["inputs"] if i["role"] == "encoders"]
    if build is encoders_from_a_laptop_with_remarks:
        assert finding(entry, "encoder-csv-lines-skipped")["count"] == 3


@pytest.mark.parametrize("build", [encoders_from_a_laptop, encoders_from_a_laptop_with_remarks])
def test_row_43_with_the_laptops_offset_a_csv_is_as_good_as_json(takeset, batch, tmp_path, build):
    arguments = pipeline(tmp_path, **{"csv-clock-offset": LAPTOP})
    entry, demo, meta = alone(takeset, batch, build, tmp_path / "csv", arguments)
    same((demo, meta), alone(takeset, batch, encoders_as_the_csv_should_read, tmp_path / "json", arguments)[1:])
    joints_are(demo, meta, csv_readings(), np.arange(len(readings())) / 50)
    assert "encoder-csv-unaligned" not in warnings(entry) and "first-sample" in methods(entry)["joints"]


def test_row_43_an_offset_of_zero_is_an_offset(takeset, batch, tmp_path):
    _, demo, meta = alone(takeset, batch, encoders_from_a_laptop, tmp_path / "out", pipeline(tmp_path, **{"csv-clock-offset": 0}))
    # The laptop's clock is then 3.25 s early: the first reading is before the start, and nothing relates it to the frames.
    assert all_joints_masked(demo, meta)


def test_row_43_other_names_and_additional_files_change_nothing(batch):
    for build in encoders_from_both, encoders_by_other_names:
        _, demo, meta = batch(build)
        same((demo, meta), batch.demos["clean-v2"])


@quirk(44, *SLAM)
def imu_in_g():
    return v3_slam()


def test_row_44_the_imu_is_stored_in_si_units_at_its_own_rate(batch):
    entry, _, meta = batch(imu_in_g)
    found = inertial()
    assert np.allclose(meta["imu/accel"][:], np.array([r["accel"] for r in found]) * 9.80665, atol=1e-6)
    assert np.allclose(meta["imu/gyro"][:], [r["gyro"] for r in found], atol=1e-6)
    assert (meta["imu/accel"].attrs["unit"], meta["imu/gyro"].attrs["unit"]) == ("m/s^2", "rad/s")
    times = np.array([nanoseconds(r["timestamp"]) - nanoseconds(EPOCH) for r in found])
    assert np.abs(meta["imu/timestamp_ns"][:] - times).max() <= 1000
    (stream,) = [s for s in entry["streams"] if s["name"] == "imu"]
    assert abs(stream["rate_hz"] - 100) < 1 and stream["samples"] == len(found)


def test_row_44_the_unit_it_came_in_is_recorded(batch):
    _, _, meta = batch(imu_in_g)
    assert meta["imu/accel"].attrs["source_unit"] == "g" and "source_unit" not in meta["imu/gyro"].attrs
