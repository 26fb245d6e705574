"""What must not pass for something else: manifests that contradict themselves, results of other tasks, numbers in other forms, names that no file can have."""

import shutil

import pytest
from sealing import rewrite

# Manifests


@pytest.mark.parametrize("change", ["takes", "written", "failed", "frames_in", "frames_out", "frames_dropped", "twice"])
def test_totals_and_takes_agree(takeset, tiny_dataset, tmp_path, change):
    copy = shutil.copytree(tiny_dataset, tmp_path / "out")

    def lie(record):
        if change == "twice":
            record["takes"] = [take for take in record["takes"] for _ in range(2)]
        else:
            record["totals"][change] += 1

    rewrite(copy, lie)
    done = takeset("verify", copy)
    assert done.returncode == 2 and ("more than once" if change == "twice" else "totals") in done.stdout


# Results of tasks


@pytest.mark.parametrize("field", ["id", "outcome", "reader", "input_sha256"])
def test_a_result_whose_record_is_another_ones_is_not_published(takeset, tiny_takes, tmp_path, field):
    """Somebody has changed the record of a result and computed its checksum anew."""
    import zlib

    output = tmp_path / "out"
    takeset("plan", tiny_takes, "--output", output, "--tasks", check=0)
    takeset("convert", output, "--task", 0, "--count", 4, check=0)
    path = output / "results/v2.json"
    first, line, last = path.read_bytes().split(b"\n", 2)
    body = line[: line.index(b',"crc32":"')]
    other = {
        "id": (b'"record":{', b'"id":"v2"', b'"id":"v9"'), "outcome": (b'"record":{', b'"outcome":"written"', b'"outcome":"failed"'),
        "reader": (b'"record":{', b'"reader":"stack-session"', b'"reader":"slow-motion-video"'), "input_sha256": (b'"record":{', b'"input_sha256":"', b'"input_sha256":"0'),
    }[field]
    start = body.index(other[0])
    record = body[start:]
    assert other[1] in record
    changed = record.replace(other[1], other[2], 1)
    if field == "input_sha256":
        at = changed.index(other[2]) + len(other[2])
        changed = changed[: at + 63] + changed[at + 64 :]
    body = body[:start] + changed
    path.write_bytes(first + b"\n" + body + b',"crc32":"%08x"}' % zlib.crc32(body) + line[line.rindex(b"}") + 1 :] + b"\n" + last)
    done = takeset("publish", output)
    assert done.returncode == 75 and "1 of 4 tasks" in done.stderr


# Numbers


@pytest.mark.parametrize("text", ["1:30", "0o17", "0x10", "1_000", "010", ".inf", "nan", "1e", "0b1"])
def test_a_number_is_in_decimal_digits(takeset, tiny_takes, tmp_path, text):
    """YAML 1.1 reads more as numbers, and not as people mean it."""
    (tmp_path / "p.yaml").write_text(f"version: 1\ntransforms: [{{align: {{tolerance: {text}}}}}]\n")
    done = takeset("run", tiny_takes, "--output", tmp_path / "out", "--pipeline", tmp_path / "p.yaml")
    assert done.returncode == 64 and "transforms[0].align.tolerance" in done.stderr and not (tmp_path / "out").exists()


# Exports


@pytest.mark.parametrize("arguments", [["zarr", "--keys", "pose,pose"], ["webdataset", "--name", "x" * 300], ["webdataset", "--name", "a\nb"]])
def test_options_that_no_file_can_hold_are_usage_errors(takeset, tiny_dataset, tmp_path, arguments):
    done = takeset("export", tiny_dataset, "--to", *arguments, "--output", tmp_path / "out")
    assert done.returncode == 64 and not (tmp_path / "out").exists(), done.stderr
