"""Stray Scanner: depth maps and their confidence."""

import numpy as np
import pytest
from command import BINARY, measured
from outputs import finding, record
from scan_checks import Scans, INVALID_MAPS, confidence_of, convert, depth_of, maps, nearest_maps, others, scan_codes
from scans import confidence_map, depth_map, flood, png, session, wrong_crc


GONE = [[5], [0], [19], [5, 6, 7, 8, 9, 10, 11, 12, 13], [0, 1, 2, 3, 4, 5]]


def without_maps(gone):
    found = session()
    for number in gone:
        del found.depth[number]
    return found


def with_maps(name, numbers):
    """A scan in which these depth maps are damaged in this way."""
    found = session()
    for number in numbers:
        found.depth[number] = INVALID_MAPS[name](png(found.depth[number]))
    return found


def with_confidence(name):
    found = session()
    for number in 3, 11:
        data = found.confidence.pop(number)
        if name != "missing":
            found.confidence[number] = INVALID_CONFIDENCE[name](png(data))
    return found


@pytest.fixture(scope="module")
def scans(takeset, tmp_path_factory):
    """Scans whose maps are missing or invalid."""
    found = {f"gone {gone}": without_maps(gone) for gone in GONE}
    found |= {f"map {name}": with_maps(name, (3, 11)) for name in INVALID_MAPS}
    found |= {f"first map {name}": with_maps(name, [0]) for name in FIRST}
    found |= {f"confidence {name}": with_confidence(name) for name in ("missing", *INVALID_CONFIDENCE)}
    return Scans(takeset, tmp_path_factory.mktemp("scans"), found)


@pytest.mark.parametrize("gone", GONE)
def test_a_missing_map_is_the_nearest_other_within_the_tolerance(scans, gone):
    found = without_maps(gone)
    entry, demo, meta = scans[f"gone {gone}"]
    stamps = found.nanoseconds()
    expected = nearest_maps(stamps, others(*gone))
    stream = meta["streams/camera_depth"]
    assert finding(entry, "depth-missing")["count"] == len(gone) and len(meta["source_index"]) == 20
    assert stream["source_index"][:].tolist() == expected and stream["valid"][:].tolist() == [int(n >= 0) for n in expected]
    assert (-1 in expected) == (len(gone) > 1)
    for row, number in enumerate(expected):
        if number >= 0:
            assert stream["dt_ns"][row] == stamps[number] - stamps[row]
            assert (depth_of(demo)[row] == depth_map(number, (32, 24))).all()
            assert (confidence_of(demo)[row] == confidence_map(number, (32, 24))).all()
        else:
            assert not depth_of(demo)[row].any() and not demo["obs/camera_depth_valid"][row].any() and not confidence_of(demo)[row].any()
    confidence = meta["streams/camera_depth_confidence"]
    assert confidence["source_index"][:].tolist() == expected and confidence["valid"][:].tolist() == [int(n >= 0) for n in expected]


@pytest.mark.parametrize("name", INVALID_MAPS)
def test_an_invalid_map_masks_its_row(scans, name):
    entry, demo, meta = scans[f"map {name}"]
    assert finding(entry, "depth-undecodable")["count"] == 2 and finding(entry, "depth-undecodable")["file"] == "depth/000003.png"
    valid = meta["streams/camera_depth/valid"][:]
    assert valid.tolist() == [int(n not in (3, 11)) for n in range(20)]
    expected = maps(depth_map) * valid[:, None, None]
    assert (depth_of(demo) == expected).all() and (demo["obs/camera_depth_valid"][..., 0] == (expected > 0)).all()
    assert scan_codes(entry) == ["depth-undecodable"]


FIRST = ["text", "cut", "checksum", "size"]


@pytest.mark.parametrize("name", FIRST)
def test_an_invalid_first_map_does_not_affect_the_others(scans, name):
    entry, demo, meta = scans[f"first map {name}"]
    assert meta["streams/camera_depth/valid"][:].tolist() == [0] + [1] * 19 and finding(entry, "depth-undecodable")["count"] == 1
    assert (depth_of(demo)[1:] == maps(depth_map)[1:]).all()


def test_a_header_that_claims_a_huge_size_costs_no_memory(tmp_path):
    found = session()
    found.depth = {n: flood(60000) if n else data for n, data in found.depth.items()}
    found.confidence = {n: flood(60000) if n else data for n, data in found.confidence.items()}
    code, peak, seconds = measured(BINARY, "run", found.write(tmp_path / "capture"), "--output", tmp_path / "out")
    assert code in (0, 3) and peak < 300 << 20 and seconds < 20
    assert "depth-undecodable" in scan_codes(record(tmp_path / "out"))


def test_depth_is_whole_millimeters_up_to_65535(takeset, tmp_path):
    found = session()
    found.depth[4] = np.linspace(0, 65535, 32 * 24).astype(np.uint16).reshape(24, 32)
    found.depth[5] = np.zeros((24, 32), np.uint16)
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert (depth_of(demo)[4] == found.depth[4]).all() and not depth_of(demo)[5].any()
    # A map without any valid depth value is still a map.
    assert meta["streams/camera_depth/valid"][:].all() and not demo["obs/camera_depth_valid"][5].any() and scan_codes(entry) == []


# Confidence

INVALID_CONFIDENCE = {
    "cut": INVALID_MAPS["cut"], "checksum": wrong_crc, "empty": INVALID_MAPS["empty"], "text": INVALID_MAPS["text"], "RGB": INVALID_MAPS["RGB"],
    "16-bit": lambda data: png(depth_map(0, (32, 24))), "size": lambda data: png(confidence_map(0, (16, 12))),
    "flood": INVALID_MAPS["flood"],
}


@pytest.mark.parametrize("name", ["missing", *INVALID_CONFIDENCE])
def test_missing_or_invalid_confidence_is_reported_and_nothing_else_suffers(scans, name):
    entry, demo, meta = scans[f"confidence {name}"]
    code = "confidence-missing" if name == "missing" else "confidence-undecodable"
    assert scan_codes(entry) == [code] and finding(entry, code)["count"] == 2
    valid = meta["streams/camera_depth_confidence/valid"][:]
    assert valid.tolist() == [int(n not in (3, 11)) for n in range(20)]
    assert (confidence_of(demo) == maps(confidence_map) * valid[:, None, None]).all()
    assert (depth_of(demo) == maps(depth_map)).all() and meta["streams/camera_depth/valid"][:].all()


def test_confidence_belongs_to_the_map_that_is_used(takeset, tmp_path):
    found = session()
    del found.depth[5], found.confidence[4]
    entry, demo, meta = convert(takeset, tmp_path, found)
    # Row 5 gets map 4, the nearer one, which has no confidence; map 5's own stays out.
    assert meta["streams/camera_depth/source_index"][5] == 4 and not confidence_of(demo)[4:6].any()
    assert meta["streams/camera_depth_confidence/valid"][:].tolist() == [int(n not in (4, 5)) for n in range(20)]
    assert {"depth-missing", "confidence-missing"} == set(scan_codes(entry))


def test_confidence_beyond_its_range_is_invalid(takeset, tmp_path):
    found = session()
    found.confidence[6] = found.confidence[6].copy()
    found.confidence[6][2, 3:5] = [3, 255]
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert scan_codes(entry) == ["confidence-undecodable"] and not confidence_of(demo)[6].any() and (confidence_of(demo)[7] == found.confidence[7]).all()
    assert meta["streams/camera_depth_confidence/valid"][:].tolist() == [int(n != 6) for n in range(20)]


def test_a_recording_without_confidence_has_none(takeset, tmp_path):
    found = session()
    found.confidence = {}
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert set(demo["obs"]) == {"pose", "camera_depth", "camera_depth_valid"} and scan_codes(entry) == []
    assert set(meta["streams"]) == {"pose", "camera_depth"}


def test_one_confidence_map_is_enough_for_the_dataset(takeset, tmp_path):
    found = session()
    found.confidence = {7: found.confidence[7]}
    entry, demo, meta = convert(takeset, tmp_path, found)
    assert meta["streams/camera_depth_confidence/valid"][:].tolist() == [int(n == 7) for n in range(20)]
    assert (confidence_of(demo)[7] == found.confidence[7]).all() and finding(entry, "confidence-missing")["count"] == 19
