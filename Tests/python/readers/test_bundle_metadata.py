"""Bundles: what their metadata must say, may say, and must not give away."""

import dataclasses
import json

import pytest
from bundle_checks import convert, holds, reader
from bundles import SMALL, bundle, deflated, maps
from conversions import Together, failed_with, together
from outputs import codes, take, traces
from videos import video_file


NO_JSON = [b"{", b'{"started_at": ', b"not JSON", b"{,}", b"\xff\xfe{}"]
OTHER_JSON = [b"[" * 100_000, b'{"a":' * 20_000, b"[]", b"7", b'{"frame_count": NaN}']


def saying(text):
    return dataclasses.replace(bundle(count=6, **SMALL), metadata=text)


def test_metadata_that_is_not_json(takeset, tmp_path):
    entries = together(takeset, tmp_path, {str(k): saying(text) for k, text in enumerate(NO_JSON)} | {"good": bundle(**SMALL)}, check=3)
    assert entries.pop("good")["outcome"] == "written"
    for entry in entries.values():
        failed_with(entry, "json-invalid", "metadata.json")


def test_metadata_of_another_shape(takeset, tmp_path):
    for entry in together(takeset, tmp_path, {str(k): saying(text) for k, text in enumerate(OTHER_JSON)}, check=3).values():
        assert entry["outcome"] == "failed" and entry["findings"][-1]["code"] in ("json-invalid", "json-type", "metadata-invalid"), entry["id"]


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


def test_metadata_must_have_its_fields(takeset, tmp_path):
    found = {f"{field} absent": without(field) for field in REQUIRED}
    found |= {f"{field} of another type {n}": without(field, value) for field, values in REQUIRED.items() for n, value in enumerate(values)}
    for name, entry in together(takeset, tmp_path, found, check=3).items():
        assert codes(entry, "error") == ["metadata-invalid"] and name.split()[0] in entry["findings"][-1]["field"], name


OTHER_WAYS = [
    {"started_at": "2025-11-27T10:30:00Z", "ended_at": "2025-11-27T12:30:08+02:00"},
    {"duration_ms": 1540.0},
    {"location": None, "assertion": None, "checkpoints": [], "is_partial": False},
    {"type": "video", "ios_version": "18.1", "new": {"a": [1]}},
    {"codec": "H264"},
    {"device_model": "iPhone 15 Pro", "attestation_level": "unverified"},
]


def test_metadata_may_be_written_in_other_ways(takeset, tmp_path):
    for entry in together(takeset, tmp_path, {str(k): bundle(**SMALL, **fields) for k, fields in enumerate(OTHER_WAYS)}).values():
        assert entry["outcome"] == "written" and codes(entry, "error") == [], entry["id"]


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


@pytest.fixture(scope="module")
def contradictory(takeset, tmp_path_factory):
    """Bundles that contradict their metadata, with what inspect finds in them."""
    found = {name: bundle(**SMALL) for name in MISMATCHES}
    for name, change in MISMATCHES.items():
        change(found[name])
    batch = Together(takeset, tmp_path_factory.mktemp("contradictory"), found)
    reported = json.loads(takeset("inspect", batch.inputs, "--json", check=0).stdout)["takes"]
    return batch, {one["id"]: codes(one) for one in reported}


@pytest.mark.parametrize("name", MISMATCHES)
def test_what_metadata_says_wrongly_is_a_warning(contradictory, name):
    batch, inspected = contradictory
    entry, demo, meta = batch[name]
    code = name.partition(",")[0]
    assert code in codes(entry, "warning") and entry["outcome"] == "written" and code in inspected[name]
    holds(demo, meta, maps(15) if name.endswith("no header") else maps(15, 8, 6), [k * 100_000_000 for k in range(15)])


def test_differences_that_are_tolerated_and_frame_rates_that_are_not(takeset, tmp_path):
    found = {"two seconds": bundle(duration_ms=3400, **SMALL)} | {str(fps): bundle(fps=fps, **SMALL) for fps in (24, 25, 30, 20, 60)}
    entries = together(takeset, tmp_path, found)
    assert [name for name, entry in entries.items() if codes(entry) == ["frame-rate"]] == ["20", "60"]
    assert [name for name, entry in entries.items() if codes(entry) == []] == ["24", "25", "30", "two seconds"]


def test_strict_is_as_strict_as_the_server(takeset, tmp_path):
    found = {}
    for field, value in {"frame_count": 601, "duration_ms": 20001, "depth_keyframe_count": 201, "device_model": " "}.items():
        found[field] = bundle(**SMALL, **{field: value})
        found[field].hash_chain, found[field].metadata["hash_chain_final"] = None, "AAAA"
    entries = together(takeset, tmp_path, found)
    assert all(entry["outcome"] == "written" for entry in entries.values())
    takeset.convert(tmp_path / "in", output=tmp_path / "strict", arguments=reader(tmp_path, strict=True), check=3)
    for field in found:
        assert field in take(tmp_path / "strict", field)["reason"]


# Privacy


def test_places_in_metadata_do_not_reach_the_output(takeset, tmp_path):
    place = {"latitude": 48.137154, "longitude": 11.576124}
    locations = {"plain": place, "exact": {**place, "altitude": 519.25, "accuracy": 4.75}, "short": {"lat": 48.137154, "lng": 11.576124}}
    for name, entry in together(takeset, tmp_path, {name: bundle(location=one, **SMALL) for name, one in locations.items()}).items():
        assert codes(entry, "info", "warning") == ["location-removed"], name
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
