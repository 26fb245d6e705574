"""Videos: places and names in the container do not reach the output."""

import json

import pytest
from conversions import Together, pipeline
from outputs import codes, traces
from video_checks import convert
from videos import video_file

PLACES = {
    "QuickTime": ("-metadata", "location=+48.1374+011.5755/"),
    "Apple": ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.location.ISO6709=+48.1374+011.5755+519.000/"),
}
NAMES = {
    "artist": ("-metadata", "artist=Ada Example"),
    "author": ("-metadata", "author=Ada Example"),
    "Apple author": ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.author=Ada Example"),
    "Apple artist": ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.artist=Ada Example"),
}
OTHERS = ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.title=At home", "-metadata", "comment=kitchen of Ada")


def test_places_names_and_others_do_not_reach_the_output(takeset, tmp_path):
    kinds = [(name, container) for name in PLACES for container in ("mov", "mp4")]
    placed = {f"{name} {container}.{container}": video_file(count=6, container=container, extra=PLACES[name]) for name, container in kinds}
    named = {f"{name}.mov": video_file(count=6, extra=extra) for name, extra in NAMES.items()}
    assert all(b"48.1374" in data or b"loci" in data for data in placed.values()) and all(b"Ada Example" in data for data in named.values())
    takes = Together(takeset, tmp_path, placed | named | {"others.mov": video_file(count=6, extra=OTHERS)})
    for name in placed:
        assert "location-removed" in codes(takes[name][0], "info", "warning"), name
    for name in named:
        assert "name-removed" in codes(takes[name][0], "info", "warning"), name
    assert traces(tmp_path / "out", "48.13", "11.57", "Ada Example", "At home", "kitchen of Ada") == []


@pytest.mark.parametrize("name", PLACES)
def test_a_place_is_kept_when_that_is_asked_for(takeset, tmp_path, name):
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", "keep-location": True})
    entry, _, _, _ = convert(takeset, tmp_path, video_file(count=6, extra=PLACES[name]), arguments=arguments)
    assert "48.1374" in json.dumps(entry["details"]["location"]) and "location-removed" not in codes(entry)
