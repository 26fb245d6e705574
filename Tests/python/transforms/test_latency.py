"""`align: {latency: …}`: a sensor that reports late is moved back by what is known, and nothing else is."""


from conversions import converted
from outputs import manifest, only
from resample_oracle import TOLERANCE, images_are, nearest, steps
from schemas import validator
from session_checks import joints_are
from stack_sessions import v2
from videos import video_file


def alignment(entry, stream):
    (found,) = [a for a in entry["alignment"] if a["stream"] == stream]
    return found


def test_the_record_keeps_the_clocks_offset_and_names_the_latency(takeset, tmp_path):
    """The clock of these readings is known by their first sample alone, which a latency must not move."""
    session = v2()
    session.write(tmp_path / "s")
    entries = {}
    for name, options in ("plain", {}), ("late", {"latency": {"joints": 0.02}}):
        takeset.convert(tmp_path / "s", output=tmp_path / name, arguments=steps(tmp_path, {"align": options}))
        entries[name] = only(tmp_path / name)
    plain, late = (alignment(entries[name][0], "joints") for name in ("plain", "late"))
    assert late.pop("latency_ns") == "20000000" and plain.pop("latency_ns", "0") == "0"
    assert late == plain and int(late["offset_ns"]) < -(10**18)
    _, demo, meta = entries["late"]
    first = session.encoders[0]["timestamp"]
    joints_are(demo, meta, session.encoders, [reading["timestamp"] - first - 0.02 for reading in session.encoders])
    step = entries["late"][0]["steps"][1]
    assert (step["name"], step["options"]["latency"]) == ("align", {"joints": 0.02})
    validator("manifest.schema.json").validate(manifest(tmp_path / "late"))


def test_a_videos_images_are_paired_with_other_rows(takeset, tmp_path):
    (tmp_path / "pour.mov").write_bytes(video_file(count=20, fps=30))
    _, demo, meta = converted(takeset, tmp_path / "pour.mov", steps(tmp_path, {"align": {"latency": {"camera_image": 0.0667}}}))
    at = meta["timestamp_ns"][:]
    position = nearest(at - 66_700_000, at, TOLERANCE)
    assert position[:5].tolist() == [2, 3, 4, 5, 6] and (position[-1], position[-2]) == (-1, 19)
    images_are(demo, position)
    assert meta["streams/camera_image/source_index"][:].tolist() == position.tolist()
