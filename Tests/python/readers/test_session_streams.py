"""Tables that somebody put into a session become streams: `streams/NAME.csv`."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conversions import Together
from outputs import demos, finding
from phone_takes import zipped

RESERVED = [
    "joints", "imu", "state_valid", "joints_valid", "camera_depth_valid", "x_raw", "camera_intrinsics", "obs", "next_obs", "action_dict", "actions", "rewards",
    "action", "row", "take", "clock", "valid", "timestamp_ns", "source_index", "intrinsics", "quality",
]  # fmt: skip
BAD_NAMES = {**dict.fromkeys(RESERVED, "something else of this name"), "My-State": "named after its stream", "9": "named after"}
BAD_TABLES = {
    "time,x\n1,2\n": 'the first column is "time"; expected timestamp',
    "timestamp\n1\n": "expected 1 to 60 columns after the time",
    "timestamp,x,x\n1,2,3\n": "with different names",
    "timestamp,X\n1,2\n": "lowercase letters",
    "timestamp,x\n1,2\n1,two\n1,3\n": 'line 3: column x: expected a number, found "two"',
    "timestamp,x\n1,2,3\n1,2\n": "line 2: expected 2 fields, found 3",
    "timestamp,x\nnan,2\n1,2\n": 'line 2: expected seconds, found "nan"',
    "timestamp,x\n1e300,2\n1,2\n": 'line 2: expected seconds, found "1e300"',
    "timestamp,x_acce": "the header has no line end",
    "": "the file is empty",
}
LATER, CUTS, CUT_NUMBERS = [-0.9, 0, 0.12, 0.31], [8, 3, 1], ["-", "na", "1e-", "", "-1", "nan"]


@dataclasses.dataclass
class WithTables:
    """A copy of a session with these tables."""

    session: Path
    tables: dict

    def write(self, path):
        shutil.copytree(self.session, path)
        (path / "streams").mkdir()
        for name, text in self.tables.items():
            (path / "streams" / name).write_text(text)
        return path


@pytest.fixture(scope="module")
def session(takeset, tmp_path_factory):
    return takeset.simulate(tmp_path_factory.mktemp("session") / "session_a", "--size", "64x48", "--seconds", "1", "--variant", "v2")


def frames(session):
    return np.array([pose["timestamp"] for pose in json.loads((session / "poses.json").read_text())])


def lines(times, values):
    return "".join(f"{t:.6f},{value}\n" for t, value in zip(times, values))


def joints_of(session, later):
    """A table of the joints' own readings, of which the first ones are missing, or with others before them."""
    readings = json.loads((session / "encoders.json").read_text())
    first = readings[0]["timestamp"] + later
    before = "".join(f"{first + k / 50:.6f},777\n" for k in range(int(-later * 50)))
    return "unix_time,index\n" + before + "".join(f"{one['timestamp']:.6f},{one['index_mcp']}\n" for one in readings if one["timestamp"] >= first)


@pytest.fixture(scope="module")
def takes(takeset, session, tmp_path_factory):
    """The session with each of these tables, converted in one run: those that fail cost no other."""
    root, times = tmp_path_factory.mktemp("tables"), frames(session)
    counted = "timestamp,count\n" + lines(times, range(len(times)))
    states = {"counted": counted, "other times": "timestamp,x\n" + lines(1_772_288_764 + np.arange(60) / 60, range(60)), "no times": "timestamp,x\n"}
    states["two columns"] = "timestamp,width,force_x\n" + lines(times + 0.004, (f"{k / 8},{-k}" for k in range(len(times))))
    states |= {f"later {later}": joints_of(session, later) for later in LATER}
    states |= {f"cut {cut}": counted[:-cut] for cut in CUTS}
    seven = "timestamp,x\n" + lines(times[:-1], [7] * len(times))
    states |= {f"cut number {k}": f"{seven}{times[-1]:.6f},{text}" for k, text in enumerate(CUT_NUMBERS)}
    states["too large"] = "timestamp,x\n" + lines(times, ("1e300" if k == 5 else "inf" if k == 6 else k for k in range(len(times))))
    states |= {f"bad table {k}": text for k, text in enumerate(BAD_TABLES)}
    found = {name: WithTables(session, {"state.csv": text}) for name, text in states.items()}
    found |= {f"bad name {name}": WithTables(session, {f"{name}.csv": "timestamp,x\n1,2\n"}) for name in BAD_NAMES}
    found["too many"] = WithTables(session, {f"table_{number}.csv": "timestamp,x\n1,2\n" for number in range(65)})
    found["others"] = WithTables(session, dict.fromkeys(["notes.txt", "._state.csv", ".state.csv"], "anything"))

    found["packed.zip"] = zipped(found["counted"].write(root / "session_a"), root / "packed.zip", "session_a/").read_bytes()
    return Together(takeset, root / "run", found, check=3)


def test_a_table_on_the_clock_of_the_poses_is_a_stream(takes, session):
    _, demo, _ = takes["two columns"]
    stored = demo["obs/state"]
    assert stored[:].tolist() == [[k / 8, -k] for k in range(len(frames(session)))]
    assert stored.attrs["order"] == "width force_x" and stored.attrs["unit"] == "as recorded"
    assert demo["obs/state_valid"][:].all()


def test_it_is_interpolated_and_masked_as_other_numbers(takeset, session, tmp_path):
    times = frames(session)
    known = np.arange(times[0] + 0.1, times[-1] - 0.1, 0.02)
    # 10 numbers are missing; an empty field is one, too.
    values = [("nan" if 10 <= k < 15 else "" if 15 <= k < 20 else f"{3 * (t - times[0]):.6f}") for k, t in enumerate(known)]
    WithTables(session, {"state.csv": "timestamp,height\n" + lines(known, values)}).write(tmp_path / "session_a")
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [{align: {method: linear, tolerance: 0.03}}]\n")
    takeset.convert(tmp_path / "session_a", "--pipeline", tmp_path / "p.yaml", output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["session_a"]
    found, valid = demo["obs/state"][:, 0], demo["obs/state_valid"][:, 0].astype(bool)
    inside = (times > known[0]) & (times < known[-1]) & ~((times > known[9]) & (times < known[20]))
    assert (valid == inside).all() and 5 < (~inside).sum() < len(times) - 20
    assert np.abs(found[valid] - 3 * (times - times[0])[valid]).max() < 1e-5 and np.isnan(found[~valid]).all()


@pytest.mark.parametrize("later", LATER)
def test_unix_times_are_put_on_the_clock_of_the_frames(takes, later):
    """Whenever the table begins. The joints' clock is that of the phone, too, but for the time that each reading was under way."""
    _, demo, _ = takes[f"later {later}"]
    valid = demo["obs/state_valid"][:, 0] & demo["obs/joints_valid"][:, 0]
    # The first rows of a table that begins later have its first sample, which is up to 50 ms away.
    apart = (demo["obs/state"][:, 0] - demo["obs/joints"][:, 0])[valid.astype(bool)][3 if later else 0 :]
    assert len(apart) > (30 if later else 50) and np.abs((apart + 180) % 360 - 180).max() < 1


@pytest.mark.parametrize("times, words", [("other times", "from 1772288764.0 to 1772288764.983 s"), ("no times", "samples are absent")])
def test_a_table_of_other_times_is_named(takes, times, words):
    entry, demo, _ = takes[times]
    found = finding(entry, "samples-outside")
    assert found["severity"] == "warning" and found["field"] == "state" and words in found["message"]
    assert not demo["obs/state_valid"][:].any()


@pytest.mark.parametrize("cut", CUTS)
def test_a_last_line_that_is_cut_short_is_skipped(takes, session, cut):
    entry, demo, _ = takes[f"cut {cut}"]
    assert finding(entry, "table-cut-short")
    # The tolerance of 50 ms reaches over the last row; what is stored is the line before.
    assert demo["obs/state_valid"][:].all() and demo["obs/state"][-1, 0] == len(frames(session)) - 2


@pytest.mark.parametrize("last", CUT_NUMBERS)
def test_a_number_that_is_cut_short_costs_its_line_alone(takes, last):
    _, demo, _ = takes[f"cut number {CUT_NUMBERS.index(last)}"]
    assert (demo["obs/state"][:] == 7).all() and demo["obs/state_valid"][:].all()


def test_a_number_too_large_for_32_bits_is_masked(takes):
    _, demo, _ = takes["too large"]
    assert np.flatnonzero(~demo["obs/state_valid"][:, 0].astype(bool)).tolist() == [5, 6] and np.isnan(demo["obs/state"][5:7]).all()


def test_a_row_of_it_is_traced_to_its_line(takeset, takes):
    done = takeset("trace", takes.inputs.parent / "out", "--episode", "counted", "--row", "7", "--stream", "state", check=0)
    assert "streams/state.csv" in done.stdout and "line 9" in done.stdout


def test_an_archive_is_as_its_folder(takes):
    one, other = (takes[name][1]["obs/state"][:] for name in ("counted", "packed.zip"))
    assert (one == other).all() and one[-1] == len(one) - 1


def failed(takes, name, *words):
    entry, demo, _ = takes[name]
    assert entry["outcome"] == "failed" and demo is None
    assert all(text in entry["reason"] for text in words), entry["reason"]


@pytest.mark.parametrize("text", BAD_TABLES)
def test_a_table_that_cannot_be_read_fails_its_take(takes, text):
    failed(takes, f"bad table {[*BAD_TABLES].index(text)}", "streams/state.csv", BAD_TABLES[text])


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_no_stream_can_have_fails_its_take(takes, name):
    failed(takes, f"bad name {name}", f"streams/{name}.csv", BAD_NAMES[name])


def test_too_many_tables_fail_their_take(takes):
    failed(takes, "too many", "65 tables; expected 64 or fewer")


def test_all_tables_together_have_a_limit(takeset, session, tmp_path):
    WithTables(session, dict.fromkeys(["one.csv", "other.csv"], "timestamp,x\n" + "1,2\n" * 150_000)).write(tmp_path / "session_a")
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: stack-session, max-json-mebibytes: 1}\ntransforms: [{align: {}}]\n")
    done = takeset("run", tmp_path / "session_a", "--output", tmp_path / "out", "--pipeline", tmp_path / "p.yaml", check=3)
    assert "streams/other.csv: the tables of the session up to this one are larger than max-json-mebibytes" in done.stdout, done.stdout


def test_other_files_in_the_folder_are_ignored(takes):
    assert "state" not in takes["others"][1]["obs"]
