"""Bundles: what their metadata must say, may say, and must not give away."""

import json

import pytest
from bundle_checks import convert, holds, reader
from bundles import SMALL, bundle, deflated, maps
from conversions import fails, together
from outputs import codes, record, traces
from videos import video_file


@pytest.mark.parametrize("text", [b"{", b'{"started_at": ', b"not JSON", b"{,}", b"\xff\xfe{}"])
def test_metadata_that_is_not_json(takeset, tmp_path, text):
    found = bundle(count=6, **SMALL)
    found.metadata = text
    fails(takeset, found.write(tmp_path / "bad"), "json-invalid", "metadata.json")


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 20_000, b"[]", b"7", b'{"frame_count": NaN}'])
def test_metadata_of_another_shape(takeset, tmp_path, text):
    found = bundle(count=6)
    found.metadata = text
    takeset.convert(found.write(tmp_path / "bad"), output=tmp_path / "out", check=3)
    assert record(tmp_path / "out")["findings"][-1]["code"] in ("json-invalid", "json-type", "metadata-invalid")


REQUIRED = {
    "started_at": [5, "yesterday"], "ended_at": [None, "2025-11-27"], "duration_ms": ["8333", 1.5], "frame_count": ["45", -1],
    "depth_keyframe_count": [[], "15"], "resolution": ["1920x1080", {"width": 1920}, {"width": "a", "height": 1}], "codec": [7],
    "device_model": [{}], "attestation_level": [None], "hash_chain_final": [12],
}


def without(field, *value):
    found = bundle(count=6, **SMALL)
    del found.metadata[field]
    if value:
        (found.metadata[field],) = value
    return found


@pytest.mark.parametrize("field", REQUIRED)
def test_metadata_must_have_its_fields(takeset, tmp_path, field):
    found = {"absent": without(field)} | {f"of another type {n}": without(field, value) for n, value in enumerate(REQUIRED[field])}
    for name, entry in together(takeset, tmp_path, found, check=3).items():
        assert codes(entry, "error") == ["metadata-invalid"] and field in entry["findings"][-1]["field"], name


@pytest.mark.parametrize("fields", [
    {"started_at": "2025-11-27T10:30:00Z", "ended_at": "2025-11-27T12:30:08+02:00"},
    {"duration_ms": 1540.0},
    {"location": None, "assertion": None, "checkpoints": [], "is_partial": False},
    {"type": "video", "ios_version": "18.1", "new": {"a": [1]}},
    {"codec": "H264"},
    {"device_model": "iPhone 15 Pro", "attestation_level": "unverified"},
])
def test_metadata_may_be_written_in_other_ways(takeset, tmp_path, fields):
    entry, _, _ = convert(takeset, tmp_path, bundle(**SMALL, **fields))
    assert entry["outcome"] == "written" and codes(entry, "error") == []


def other_counts(found):
    found.metadata["depth_keyframe_count"] = 14


def assumed_count(found):
    found.depth_data, found.metadata["depth_keyframe_count"] = deflated(maps(15).tobytes()), 7


MISMATCHES = {
    "depth-count-mismatch": other_counts,
    "depth-count-mismatch, no header": assumed_count,
    "frame-count-mismatch": lambda found: found.metadata.update(frame_count=47),
    "duration-mismatch": lambda found: found.metadata.update(duration_ms=3600),
    "resolution-mismatch": lambda found: found.metadata.update(resolution={"width": 1920, "height": 1440}),
    "codec-mismatch": lambda found: found.metadata.update(codec="hevc"),
    "chain-absent": lambda found: setattr(found, "hash_chain", None),
    "chain-absent, empty": lambda found: setattr(found, "hash_chain", b""),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_what_metadata_says_wrongly_is_a_warning(takeset, tmp_path, name):
    found = bundle(**SMALL)
    MISMATCHES[name](found)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert name.split(",")[0] in codes(entry, "warning") and entry["outcome"] == "written"
    holds(demo, meta, maps(15, 8, 6) if found.depth_data[:2] == b"\x1f\x8b" else maps(15), [k * 100_000_000 for k in range(15)])
    (reported,) = json.loads(takeset("inspect", tmp_path / "take", "--json", check=0).stdout)["takes"]
    assert name.split(",")[0] in [f["code"] for f in reported["findings"]]


def test_two_seconds_of_difference_are_within_tolerance(takeset, tmp_path):
    entry, _, _ = convert(takeset, tmp_path, bundle(duration_ms=3400, **SMALL))
    assert codes(entry) == []


@pytest.mark.parametrize("fps, reported", [(24, False), (25, False), (30, False), (20, True), (60, True)])
def test_another_frame_rate_is_reported(takeset, tmp_path, fps, reported):
    entry, _, _ = convert(takeset, tmp_path, bundle(fps=fps, **SMALL))
    assert codes(entry) == (["frame-rate"] if reported else [])


@pytest.mark.parametrize("fields", [{"frame_count": 601}, {"duration_ms": 20001}, {"depth_keyframe_count": 201}, {"device_model": " "}])
def test_strict_is_as_strict_as_the_server(takeset, tmp_path, fields):
    found = bundle(**SMALL, **fields)
    found.hash_chain, found.metadata["hash_chain_final"] = None, "AAAA"
    entry, _, _ = convert(takeset, tmp_path, found)
    assert entry["outcome"] == "written"
    output = tmp_path / "strict"
    takeset.convert(tmp_path / "take", output=output, arguments=reader(tmp_path, strict=True), check=3)
    (field,) = fields
    assert field in record(output)["reason"]


# Privacy


@pytest.mark.parametrize("location", [
    {"latitude": 48.137154, "longitude": 11.576124}, {"latitude": 48.137154, "longitude": 11.576124, "altitude": 519.25, "accuracy": 4.75},
    {"lat": 48.137154, "lng": 11.576124},
])
def test_places_in_metadata_do_not_reach_the_output(takeset, tmp_path, location):
    entry, _, _ = convert(takeset, tmp_path, bundle(location=location, **SMALL))
    assert codes(entry, "info", "warning") == ["location-removed"]
    assert traces(tmp_path / "out", "48.13", "11.57", "519.25") == []


def test_a_place_is_kept_when_that_is_asked_for(takeset, tmp_path):
    found = bundle(location={"latitude": 48.137154, "longitude": 11.576124}, **SMALL)
    entry, _, _ = convert(takeset, tmp_path, found, arguments=reader(tmp_path, keep_location=True))
    assert codes(entry) == [] and "48.137154" in json.dumps(entry["details"]["location"])


def test_places_and_names_in_the_video_do_not_reach_the_output(takeset, tmp_path):
    video = video_file(extra=("-metadata", "location=+48.1374+011.5755/", "-metadata", "artist=Ada Example"))
    entry, _, _ = convert(takeset, tmp_path, bundle(video=video, device_name="Ada's iPhone", **SMALL))
    assert {"location-removed", "name-removed"} <= set(codes(entry, "info", "warning"))
    assert traces(tmp_path / "out", "48.13", "11.57", "Ada Example", "Ada's iPhone") == []
