"""Tables that somebody put into a session become streams: `streams/NAME.csv`."""

import json
import zipfile

import numpy as np
import pytest
from outputs import demos, manifest

RESERVED = [
    "joints", "imu", "state_valid", "joints_valid", "camera_depth_valid", "x_raw", "camera_intrinsics", "obs", "next_obs", "action_dict", "actions", "rewards",
    "action", "row", "take", "clock", "valid", "timestamp_ns", "source_index", "intrinsics", "quality",
]  # fmt: skip
SMALL = ["--size", "64x48", "--seconds", "1", "--variant", "v2"]


@pytest.fixture
def session(takeset, tmp_path):
    takeset("simulate", "stack-session", "--output", tmp_path / "in/session_a", *SMALL, check=0)
    (tmp_path / "in/session_a/streams").mkdir()
    return tmp_path / "in/session_a"


def frames(session):
    return np.array([pose["timestamp"] for pose in json.loads((session / "poses.json").read_text())])


def write(session, text, name="state"):
    (session / f"streams/{name}.csv").write_text(text)


def failure(takeset, session, tmp_path):
    done = takeset("run", session.parent, "--output", tmp_path / "out", check=3)
    return done.stdout


def test_a_table_on_the_clock_of_the_poses_is_a_stream(takeset, session, tmp_path):
    times = frames(session)
    shifted = times + 0.004
    write(session, "timestamp,width,force_x\n" + "".join(f"{t:.6f},{k / 8},{-k}\n" for k, t in enumerate(shifted)))
    takeset.convert(session.parent, output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["session_a"]
    stored = demo["obs/state"]
    assert stored[:].tolist() == [[k / 8, -k] for k in range(len(times))]
    assert stored.attrs["order"] == "width force_x" and stored.attrs["unit"] == "as recorded"
    assert demo["obs/state_valid"][:].all()


def test_it_is_interpolated_and_masked_as_other_numbers(takeset, session, tmp_path):
    times = frames(session)
    known = np.arange(times[0] + 0.1, times[-1] - 0.1, 0.02)
    # 10 numbers are missing; an empty field is one, too.
    values = [("nan" if 10 <= k < 15 else "" if 15 <= k < 20 else f"{3 * (t - times[0]):.6f}") for k, t in enumerate(known)]
    write(session, "timestamp,height\n" + "".join(f"{t:.6f},{v}\n" for t, v in zip(known, values)))
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [{align: {method: linear, tolerance: 0.03}}]\n")
    takeset.convert(session.parent, "--pipeline", tmp_path / "p.yaml", output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["session_a"]
    found, valid = demo["obs/state"][:, 0], demo["obs/state_valid"][:, 0].astype(bool)
    inside = (times > known[0]) & (times < known[-1]) & ~((times > known[9]) & (times < known[20]))
    assert (valid == inside).all() and 5 < (~inside).sum() < len(times) - 20
    assert np.abs(found[valid] - 3 * (times - times[0])[valid]).max() < 1e-5 and np.isnan(found[~valid]).all()


def test_unix_times_are_put_on_the_clock_of_the_frames(takeset, session, tmp_path):
    readings = json.loads((session / "encoders.json").read_text())
    write(session, "unix_time,index\n" + "".join(f"{one['timestamp']:.6f},{one['index_mcp']}\n" for one in readings))
    takeset.convert(session.parent, output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["session_a"]
    valid = demo["obs/state_valid"][:, 0] & demo["obs/joints_valid"][:, 0]
    # The joints' clock is that of the phone, too, but for the time that each reading was under way.
    apart = (demo["obs/state"][:, 0] - demo["obs/joints"][:, 0])[valid.astype(bool)]
    assert len(apart) > 50 and np.abs((apart + 180) % 360 - 180).max() < 1


@pytest.mark.parametrize("later", [-0.9, 0, 0.12, 0.31])
def test_a_table_of_unix_times_may_begin_at_any_time(takeset, session, tmp_path, later):
    """A table of the joints' own readings, of which the first ones are missing, or with others before them."""
    readings = json.loads((session / "encoders.json").read_text())
    first = readings[0]["timestamp"] + later
    before = "".join(f"{first + k / 50:.6f},777\n" for k in range(int(-later * 50)))
    write(session, "unix_time,index\n" + before + "".join(f"{one['timestamp']:.6f},{one['index_mcp']}\n" for one in readings if one["timestamp"] >= first))
    takeset.convert(session.parent, output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["session_a"]
    valid = demo["obs/state_valid"][:, 0] & demo["obs/joints_valid"][:, 0]
    # The first rows of a table that begins later have its first sample, which is up to 50 ms away.
    apart = (demo["obs/state"][:, 0] - demo["obs/joints"][:, 0])[valid.astype(bool)][3:]
    assert len(apart) > 30 and np.abs((apart + 180) % 360 - 180).max() < 1


@pytest.mark.parametrize("times", ["unix", "none"])
def test_a_table_of_other_times_is_named(takeset, session, tmp_path, times):
    lines = "".join(f"{1_772_288_764 + k / 60:.6f},{k}\n" for k in range(60)) if times == "unix" else ""
    write(session, "timestamp,x\n" + lines)
    takeset.convert(session.parent, output=tmp_path / "out")
    [finding] = [one for one in manifest(tmp_path / "out")["record"]["takes"][0]["findings"] if one["code"] == "samples-outside"]
    assert finding["severity"] == "warning" and finding["field"] == "state"
    assert ("from 1772288764.0 to 1772288764.983 s" if lines else "samples are absent") in finding["message"]
    assert not demos(tmp_path / "out")["session_a"][0]["obs/state_valid"][:].any()


def test_a_last_line_that_is_cut_short_is_skipped(takeset, session, tmp_path):
    times = frames(session)
    lines = "".join(f"{t:.6f},{k}\n" for k, t in enumerate(times))
    for cut in [8, 3, 1]:
        write(session, ("timestamp,count\n" + lines)[:-cut])
        takeset.convert(session.parent, "--replace", output=tmp_path / "out")
        valid = demos(tmp_path / "out")["session_a"][0]["obs/state_valid"][:, 0]
        assert "table-cut-short" in {one["code"] for one in manifest(tmp_path / "out")["record"]["takes"][0]["findings"]}
        # The tolerance of 50 ms reaches over the last row; what is stored is the line before.
        assert valid.all() and demos(tmp_path / "out")["session_a"][0]["obs/state"][-1, 0] == len(times) - 2


@pytest.mark.parametrize("last", ["-", "na", "1e-", "", "-1", "nan"])
def test_a_number_that_is_cut_short_costs_its_line_alone(takeset, session, tmp_path, last):
    times = frames(session)
    write(session, "timestamp,x\n" + "".join(f"{t:.6f},7\n" for t in times[:-1]) + f"{times[-1]:.6f},{last}")
    takeset.convert(session.parent, output=tmp_path / "out")
    demo = demos(tmp_path / "out")["session_a"][0]
    assert (demo["obs/state"][:] == 7).all() and demo["obs/state_valid"][:].all()


def test_a_number_too_large_for_32_bits_is_masked(takeset, session, tmp_path):
    write(session, "timestamp,x\n" + "".join(f"{t:.6f},{'1e300' if k == 5 else 'inf' if k == 6 else k}\n" for k, t in enumerate(frames(session))))
    takeset.convert(session.parent, output=tmp_path / "out")
    demo = demos(tmp_path / "out")["session_a"][0]
    assert np.flatnonzero(~demo["obs/state_valid"][:, 0].astype(bool)).tolist() == [5, 6] and np.isnan(demo["obs/state"][5:7]).all()


def test_a_bad_name_costs_no_other_take(takeset, session, tmp_path):
    takeset("simulate", "stack-session", "--output", session.parent / "session_b", *SMALL, "--seed", "2", check=0)
    write(session, "timestamp,x\n1,2\n", "joints_valid")
    takeset("run", session.parent, "--output", tmp_path / "out", check=3)
    assert list(demos(tmp_path / "out")) == ["session_b"]


def test_a_row_of_it_is_traced_to_its_line(takeset, session, tmp_path):
    write(session, "timestamp,count\n" + "".join(f"{t:.6f},{k}\n" for k, t in enumerate(frames(session))))
    takeset.convert(session.parent, output=tmp_path / "out")
    done = takeset("trace", tmp_path / "out", "--episode", "session_a", "--row", "7", "--stream", "state", check=0)
    assert "streams/state.csv" in done.stdout and "line 9" in done.stdout


def test_an_archive_is_as_its_folder(takeset, session, tmp_path):
    write(session, "timestamp,count\n" + "".join(f"{t:.6f},{k}\n" for k, t in enumerate(frames(session))))
    (tmp_path / "zipped").mkdir()
    with zipfile.ZipFile(tmp_path / "zipped/session_a.zip", "w") as archive:
        for path in sorted(session.rglob("*")):
            archive.write(path, f"session_a/{path.relative_to(session)}")
    takeset.convert(session.parent, output=tmp_path / "out")
    takeset.convert(tmp_path / "zipped", output=tmp_path / "other")
    one, other = (demos(tmp_path / name)["session_a"][0]["obs/state"][:] for name in ("out", "other"))
    assert (one == other).all() and one[-1] == len(one) - 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,x\n1,2\n", 'the first column is "time"; expected timestamp'),
        ("timestamp\n1\n", "expected 1 to 60 columns after the time"),
        ("timestamp,x,x\n1,2,3\n", "with different names"),
        ("timestamp,X\n1,2\n", "lowercase letters"),
        ("timestamp,x\n1,2\n1,two\n1,3\n", 'line 3: column x: expected a number, found "two"'),
        ("timestamp,x\n1,2,3\n1,2\n", "line 2: expected 2 fields, found 3"),
        ("timestamp,x\nnan,2\n1,2\n", 'line 2: expected seconds, found "nan"'),
        ("timestamp,x\n1e300,2\n1,2\n", 'line 2: expected seconds, found "1e300"'),
        ("timestamp,x_acce", "the header has no line end"),
        ("", "the file is empty"),
    ],
)
def test_a_table_that_cannot_be_read_fails_its_take(takeset, session, tmp_path, text, words):
    write(session, text)
    said = failure(takeset, session, tmp_path)
    assert "streams/state.csv" in said and words in said, said


@pytest.mark.parametrize(("name", "words"), [*[(name, "something else of this name") for name in RESERVED], ("My-State", "named after its stream"), ("9", "named after")])
def test_a_name_that_no_stream_can_have_fails_its_take(takeset, session, tmp_path, name, words):
    write(session, "timestamp,x\n1,2\n", name)
    said = failure(takeset, session, tmp_path)
    assert f"streams/{name}.csv" in said and words in said, said


def test_too_many_tables_fail_their_take(takeset, session, tmp_path):
    for number in range(65):
        write(session, "timestamp,x\n1,2\n", f"table_{number}")
    assert "65 tables; expected 64 or fewer" in failure(takeset, session, tmp_path)


def test_all_tables_together_have_a_limit(takeset, session, tmp_path):
    for name in ["one", "other"]:
        write(session, "timestamp,x\n" + "1,2\n" * 150_000, name)
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: stack-session, max-json-mebibytes: 1}\ntransforms: [{align: {}}]\n")
    done = takeset("run", session.parent, "--output", tmp_path / "out", "--pipeline", tmp_path / "p.yaml", check=3)
    assert "streams/other.csv: the tables of the session up to this one are larger than max-json-mebibytes" in done.stdout, done.stdout


def test_other_files_in_the_folder_are_ignored(takeset, session, tmp_path):
    for name in ["notes.txt", "._state.csv", ".state.csv"]:
        (session / "streams" / name).write_text("anything")
    takeset.convert(session.parent, output=tmp_path / "out")
    assert "state" not in demos(tmp_path / "out")["session_a"][0]["obs"]
