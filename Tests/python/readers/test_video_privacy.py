"""Videos: places and names in the container do not reach the output."""

import json

import pytest
from conversions import pipeline
from outputs import codes, traces
from video_checks import convert
from videos import video_file

PLACES = {
    "QuickTime": ("-metadata", "location=+48.1374+011.5755/"),
    "Apple": ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.location.ISO6709=+48.1374+011.5755+519.000/"),
}


@pytest.mark.parametrize("container", ["mov", "mp4"])
@pytest.mark.parametrize("name", PLACES)
def test_places_do_not_reach_the_output(takeset, tmp_path, name, container):
    data = video_file(count=6, container=container, extra=PLACES[name])
    assert b"48.1374" in data or b"loci" in data
    entry, _, _, _ = convert(takeset, tmp_path, data, f"pour.{container}")
    assert "location-removed" in codes(entry, "info", "warning")
    assert traces(tmp_path / "out", "48.13", "11.57") == []


@pytest.mark.parametrize("name", PLACES)
def test_a_place_is_kept_when_that_is_asked_for(takeset, tmp_path, name):
    arguments = pipeline(tmp_path, {"name": "slow-motion-video", "keep-location": True})
    entry, _, _, _ = convert(takeset, tmp_path, video_file(count=6, extra=PLACES[name]), arguments=arguments)
    assert "48.1374" in json.dumps(entry["details"]["location"]) and "location-removed" not in codes(entry)


@pytest.mark.parametrize("extra", [
    ("-metadata", "artist=Ada Example"),
    ("-metadata", "author=Ada Example"),
    ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.author=Ada Example"),
    ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.artist=Ada Example"),
])
def test_names_do_not_reach_the_output(takeset, tmp_path, extra):
    data = video_file(count=6, extra=extra)
    assert b"Ada Example" in data
    entry, _, _, _ = convert(takeset, tmp_path, data)
    assert "name-removed" in codes(entry, "info", "warning") and traces(tmp_path / "out", "Ada Example") == []


def test_nothing_else_in_the_container_reaches_the_output(takeset, tmp_path):
    extra = ("-movflags", "use_metadata_tags", "-metadata", "com.apple.quicktime.title=At home", "-metadata", "comment=kitchen of Ada")
    convert(takeset, tmp_path, video_file(count=6, extra=extra))
    assert traces(tmp_path / "out", "At home", "kitchen of Ada") == []
