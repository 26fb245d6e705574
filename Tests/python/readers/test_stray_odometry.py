"""Stray Scanner: the forms of odometry.csv, and what is not a valid table."""

import dataclasses
import json
import os

import pytest
from conversions import failed_with
from images import numbers
from outputs import dropped, finding, manifest, record
from scan_checks import Scans, absolute, convert, depth_of, maps, scan_codes
from scans import NEW, OLD, depth_map, session

FORMS = {
    "as written": {}, "no spaces": dict(separator=","), "CRLF": dict(newline="\r\n"), "mark": dict(mark="\ufeff"),
    "mark and CRLF": dict(mark="\ufeff", newline="\r\n", separator=","), "numbers without zeros": dict(padded=False),
    "no newline at the end": dict(last_newline=False), "header without blanks": dict(blank_header=False), "one blank": dict(blanks=[""]),
}


def test_every_form_of_the_table_gives_the_same_rows(takeset, tmp_path):
    for columns, age in (OLD, "old"), (NEW, "new"):
        for name, form in FORMS.items():
            # Whether the last field of an unterminated line is complete is known only if blank columns follow.
            if age == "old" and name == "no newline at the end":
                continue
            found = session(columns=columns)
            found.odometry = found.table(**form)
            found.write(tmp_path / "in" / f"{age} {name}")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert len(entries) == 2 * len(FORMS) - 1
    digests = {"old": set(), "new": set()}
    for entry in entries:
        assert entry["outcome"] == "written" and scan_codes(entry) == [], (entry["id"], entry["reason"], scan_codes(entry))
        digests[entry["id"][:3]].add(json.dumps(sorted((d["path"], d["sha256"]) for d in entry["output"]["datasets"])))
    assert {age: len(found) for age, found in digests.items()} == {"old": 1, "new": 1}


def test_columns_go_by_their_names(takeset, tmp_path):
    found = session()
    found.columns = ("frame", "timestamp", *NEW[9:], *NEW[2:9])
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert absolute(meta) == found.nanoseconds() and (demo["obs/pose"][:, :3] == found.numbers("x", "y", "z").astype("f4")).all()
    assert (depth_of(demo) == maps(depth_map)).all() and scan_codes(entry) == []


@pytest.mark.parametrize("columns", [OLD, NEW])
def test_a_last_line_that_is_cut_short_is_dropped_wherever_it_is_cut(takeset, tmp_path, columns):
    found = session(columns=columns, depth_size=(8, 6))
    found.depth, found.confidence, found.imu = {0: found.depth[0]}, {}, None
    whole = found.table()
    line = whole.rindex(b"\n", 0, -1) + 1
    end = whole.rindex(found.rows[-1][columns[-1]].encode())
    for cut in range(line + 1, end, 3):
        found.odometry = whole[:cut]
        found.write(tmp_path / "in" / f"cut-{cut:04d}")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    entries = manifest(tmp_path / "out")["record"]["takes"]
    assert len(entries) > 30 and all(entry["outcome"] == "written" for entry in entries)
    used = {int(entry["id"][4:]): whole[line : int(entry["id"][4:])] for entry in entries if entry["output"]["samples"] != 19}
    assert not used, f"lines that were used though they are cut: {used}"
    assert all(finding(entry, "odometry-truncated")["file"] == "odometry.csv" for entry in entries)


def test_a_cut_line_drops_its_image_and_depth(takeset, tmp_path):
    found = session(times="number")
    found.odometry = found.table()[:-60]
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["source_index"][:].tolist() == list(range(19)) == numbers(demo["obs/camera_image"][:])
    assert dropped(entry).get("pose-missing") == 1 and "odometry-truncated" in scan_codes(entry)


def with_header(header):
    found = session(columns=OLD)
    lines = found.table().split(b"\n")[1:]
    found.odometry = b"\n".join(([header.encode()] if header else []) + lines)
    return found


def with_field(column, text):
    found = session(depth_size=(8, 6))
    found.rows[6][column] = text
    return found


INVALID = {
    "a field": (lambda: with_field("z", "0x10"), "csv-invalid", ["line 8", "column z", "0x10"]),
    "a header": (lambda: with_header(", ".join(OLD[:-1])), "csv-invalid", ["line 1", "column qw"]),
    "no header": (lambda: with_header(None), "csv-invalid", []),
    "no rows": (lambda: dataclasses.replace(session(), odometry=(", ".join(OLD) + "\n").encode()), "no-frames", ["no rows"]),
    "nothing": (lambda: dataclasses.replace(session(), odometry=b""), "no-frames", ["empty"]),
}


def test_an_invalid_table_fails_its_take_by_line_and_column(takeset, tmp_path):
    """Which tables are invalid is in Swift's OdometryFileTests."""
    takes = {name: make() for name, (make, _, _) in INVALID.items()}
    batch = Scans(takeset, tmp_path, takes | {"good": session(depth_size=(8, 6))}, check=3)
    assert list(batch.demos) == ["good"]
    for name, (_, code, words) in INVALID.items():
        failed_with(batch.entries[name], code, "odometry.csv", *words)


@pytest.mark.parametrize("name", ["odometry.csv", "imu.csv"])
def test_a_table_over_the_limit_is_refused_by_its_size(takeset, tmp_path, name):
    session().write(tmp_path / "capture")
    os.truncate(tmp_path / "capture" / name, (64 << 20) + 1)
    takeset.convert(tmp_path / "capture", output=tmp_path / "out", check=3)
    failed_with(record(tmp_path / "out"), "input-too-large", name)
