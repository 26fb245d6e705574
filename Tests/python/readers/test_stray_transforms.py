"""Stray Scanner: transforms, statistics, and the commands over scans."""

import json

from conversions import converted
from outputs import manifest
from scan_checks import every_problem, scan_codes
from scans import OLD, session
from schemas import STATISTICS, layout, validator


# The commands


def test_inspect_reports_what_a_run_finds_and_writes_nothing(takeset, tmp_path):
    directory = every_problem().write(tmp_path / "capture")
    before = {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    (reported,) = json.loads(takeset("inspect", directory, "--json", check=0).stdout)["takes"]
    entry, _, _ = converted(takeset, directory)
    assert set(scan_codes(entry)) >= {
        "depth-missing", "depth-undecodable", "confidence-missing", "confidence-undecodable", "pose-unusable",
        "imu-unusable", "intrinsics-unusable", "odometry-truncated"
    }
    assert {(f["code"], f.get("count")) for f in reported["findings"]} == {(f["code"], f.get("count")) for f in entry["findings"]}
    assert (reported["reader"], reported["variant"], reported["would_be"]) == ("stray-scanner", "rgbd", "written")
    assert reported["frames"] == entry["output"]["samples"]
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_a_plan_is_what_a_run_writes_and_the_manifest_fits_its_schema(takeset, tmp_path):
    root = tmp_path / "in"
    session(times="time").write(root / "both")
    session(columns=OLD).write(root / "depth")
    session(count=18, times="number", size=(800, 600), maps=False).write(root / "movie")
    every_problem().write(root / "odd")
    session(times="time").zip(root / "packed.zip")
    takeset.convert(root, output=tmp_path / "out")
    document = manifest(tmp_path / "out")
    validator("manifest.schema.json").validate(document)
    totals = document["record"]["totals"]
    assert totals["frames_in"] == totals["frames_out"] + totals["frames_dropped"] and totals["written"] == 5
    plan = {t["id"]: t for t in json.loads(takeset("plan", root, "--json", check=0).stdout)["takes"]}
    for entry in document["record"]["takes"]:
        planned = plan[entry["id"]]
        assert entry["reader"] == "stray-scanner"
        assert planned["frames"] == entry["output"]["samples"]
        assert layout(planned) == layout(entry["output"], without=STATISTICS)
        assert STATISTICS in [d["path"] for d in entry["output"]["datasets"]]
