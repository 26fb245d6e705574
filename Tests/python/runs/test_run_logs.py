"""What a run says while it runs and at its end: the log in JSON, progress in JSON, metrics, and the summary grouped by reason."""

import json
import re
import shutil
import subprocess
import time
from datetime import datetime, timedelta, timezone

import pytest
from command import BINARY, ROOT
from run_outputs import outputs
from watching import Watch, small_takes

# The grammar of Prometheus' text format 0.0.4, as far as the file uses it.
HELP = re.compile(r"# HELP (takeset_[a-z_]+) [A-Z0-9].*\.")
TYPE = re.compile(r"# TYPE (takeset_[a-z_]+) (counter|gauge)")
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(takeset_[a-z_]+)\{{({LABEL}(?:,{LABEL})*)\}} ([0-9]+(?:\.[0-9]+)?)")


def metrics(path):
    """The samples of a file, after a strict check: every metric has its HELP and TYPE directly before its samples, and none comes twice."""
    text = path.read_text()
    assert text.endswith("\n")
    found, current = {}, None
    lines = iter(text[:-1].split("\n"))
    for line in lines:
        if (help_line := HELP.fullmatch(line)) is not None:
            kind = TYPE.fullmatch(next(lines))
            assert kind and kind[1] == help_line[1] and kind[1] not in {name for name, _ in found}
            assert (kind[2] == "counter") == kind[1].endswith("_total")
            current = kind[1]
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample and sample[1] == current, line
        labels = dict(re.findall(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"', sample[2]))
        key = (sample[1].removeprefix("takeset_"), labels.get("outcome"))
        assert key not in found and "dataset" in labels
        found[key] = float(sample[3])
    return found


@pytest.fixture(scope="module")
def mixed(takeset, tmp_path_factory):
    """Three takes to write, two that fail."""
    root = tmp_path_factory.mktemp("mixed")
    for take in small_takes(takeset, root, 5)[3:]:
        (take / "poses.json").write_text("[{")
    return root


def log(done):
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_every_line_of_the_log_is_an_object_with_the_documented_fields(mixed, takeset, tmp_path):
    before = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    lines = log(takeset("run", mixed, "--output", tmp_path / "out", "--log-format", "json", check=3))
    page = (ROOT / "docs/watching.md").read_text()
    for line in lines:
        when = datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%f%z")
        assert before <= when <= datetime.now(timezone.utc)
        assert line["level"] in ("info", "warning", "error") and line["message"]
        assert f"| `{line['event']}`" in page, line["event"]
        assert all(f"`{field}`" in page for field in line), line
    takes = {line["take"]: line for line in lines if line["event"] == "take"}
    assert sorted(takes) == [f"t{n}" for n in range(5)]
    assert {takes[f"t{n}"]["outcome"] for n in range(3)} == {"written"} and takes["t0"]["rows"] == 12
    assert takes["t4"]["outcome"] == "failed" and takes["t4"]["level"] == "error" and takes["t4"]["code"] == "json-invalid"
    assert "poses.json" in takes["t4"]["reason"] and takes["t4"]["seconds"] >= 0
    end = lines[-1]
    assert end["event"] == "end" and (end["written"], end["failed"], end["rows"]) == (3, 2, 36)
    failed = [r for r in end["reasons"] if r["outcome"] == "failed"]
    assert failed == [{"outcome": "failed", "code": "json-invalid", "count": 2, "takes": failed[0]["takes"]}]
    assert sorted(failed[0]["takes"]) == ["t3", "t4"]


def test_an_error_that_ends_the_run_is_in_the_log_too(takeset, mixed, tmp_path):
    (line,) = [e for e in log(takeset("run", tmp_path / "none", "--output", tmp_path / "out", "--log-format", "json", check=1)) if e["event"] == "error"]
    assert "no such file" in line["message"] and line["level"] == "error"
    done = takeset("run", mixed, "--output", mixed / "out", "--log-format", "json", check=64)
    assert log(done)[-1]["event"] == "error" and "inside the input" in log(done)[-1]["message"]


@pytest.mark.parametrize("mistake", [["--watch", "--prune"], ["--nonsense"], ["--jobs", "x"], ["--pipeline", "/nonexistent"]])
def test_a_mistake_in_the_command_is_an_object_too(takeset, mixed, tmp_path, mistake):
    done = takeset("run", mixed, "--output", tmp_path / "out", *mistake, "--log-format", "json", check=64)
    (line,) = log(done)
    assert (line["event"], line["level"]) == ("error", "error") and "Usage" not in line["message"] and done.stdout == ""
    assert mistake[0] in line["message"] or mistake[1] in line["message"]
    assert log(takeset("run", "--log-format=json", check=64))[0]["event"] == "error"
    assert takeset("run", mixed, "--output", tmp_path / "out", "--log-format", "text", *mistake, check=64).stderr.startswith("takeset: ")
    assert not (tmp_path / "out").exists()


def test_progress_in_json_has_totals_and_rates(mixed, takeset, tmp_path):
    done = takeset("run", mixed, "--output", tmp_path / "out", "--progress", "json", "--jobs", "1", check=3)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    takes = [e for e in events if e["event"] == "take"]
    # Progress comes every other second, on a slow machine; the summary at the end is a log.
    assert [e["event"] for e in events if e["event"] != "progress"] == ["take"] * 5 + ["log"]
    assert [e["done"] for e in takes] == [1, 2, 3, 4, 5] and {e["takes"] for e in takes} == {5}
    assert sorted(e["outcome"] for e in takes) == ["failed"] * 2 + ["written"] * 3
    last = takes[-1]
    assert (last["failed"], last["rejected"], last["rows"]) == (2, 0, 36) and last["bytes"] > 0
    assert last["rows_per_second"] > 0 and last["bytes_per_second"] > 0 and last["elapsed_seconds"] > 0
    # The time is rounded to a millisecond, the rate to a tenth.
    assert 36 / (last["elapsed_seconds"] + 0.001) - 0.1 <= last["rows_per_second"] <= 36 / max(last["elapsed_seconds"] - 0.001, 0.001) + 0.1
    assert all("eta_seconds" in e for e in takes) and takes[3]["eta_seconds"] is not None


@pytest.mark.slow
def test_progress_in_json_is_nothing_but_json_in_a_watch_too(mixed, takeset, tmp_path):
    process = subprocess.Popen(
        [BINARY, "run", mixed, "--output", tmp_path / "out", "--watch", "--settle", "0.2", "--progress", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True)
    events = []
    try:
        for line in process.stderr:
            events.append(json.loads(line))
            if events[-1].get("message", "").endswith("with warnings"):
                process.terminate()
        assert process.wait(timeout=300) == 3
    finally:
        process.kill()
    assert [e["message"] for e in events if e["event"] == "log"][0].startswith("watching") and len([e for e in events if e["event"] == "take"]) == 5


def test_metrics_of_a_run_are_in_prometheus_text(mixed, takeset, tmp_path):
    output, file = tmp_path / 'o"u\\t', tmp_path / "takeset.prom"
    started = time.time()
    takeset("run", mixed, "--output", output, "--metrics", file, check=3)
    found = metrics(file)
    assert {k[1]: v for k, v in found.items() if k[0] == "takes_total"} == {"written": 3, "failed": 2, "rejected": 0, "unchanged": 0}
    assert found["rows_total", None] == 36 and found["bytes_total", None] > 0 and found["take_seconds_total", None] > 0
    assert started - 1 < found["last_success_timestamp_seconds", None] < time.time() + 1
    assert found["busy", None] == 0 and found["output_blocked", None] == 0
    free = shutil.disk_usage(tmp_path).free
    assert abs(found["output_free_bytes", None] - free) < max(0.2 * free, 1e9)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    takeset("run", mixed, "--output", output, "--metrics", file, check=3)
    assert metrics(file)["takes_total", "unchanged"] == 3 and metrics(file)["rows_total", None] == 0
    done = takeset("run", mixed, "--output", output, "--metrics", tmp_path / "no/where.prom", check=64)
    assert "--metrics" in done.stderr


def test_a_run_that_begins_or_fails_leaves_the_time_of_the_last_success(mixed, takeset, tmp_path):
    """Or an alert on that time would fire in every nightly run."""
    file, (key, last) = tmp_path / "takeset.prom", [(f"last_{name}_timestamp_seconds", None) for name in ("success", "take")]
    takeset("run", mixed, "--output", tmp_path / "out", "--metrics", file, check=3)
    before = metrics(file)
    takeset("run", tmp_path / "none", "--output", tmp_path / "out", "--metrics", file, check=1)
    after = metrics(file)
    assert (after[key], after[last]) == (before[key], before[last]) and after["start_time_seconds", None] > before["start_time_seconds", None]
    takeset("run", mixed, "--output", tmp_path / "other", "--metrics", file, "--jobs", 1, check=3)
    text = file.read_text().replace("/other", "/elsewhere")
    file.write_text(text)
    takeset("run", tmp_path / "none", "--output", tmp_path / "other", "--metrics", file, check=1)
    assert metrics(file)[key] == 0  # of another dataset


@pytest.mark.slow
def test_metrics_are_whole_whenever_they_are_read(mixed, tmp_path):
    """Read all the time while they are replaced; counters never go back."""
    file, incoming = tmp_path / "takeset.prom", tmp_path / "in"
    incoming.mkdir()
    with Watch(incoming, output=tmp_path / "out", settle=0.1, arguments=["--metrics", file]) as watch:
        last, reads = 0, 0
        for index in range(3):
            shutil.copytree(mixed / f"t{index}", incoming / f"t{index}")
            end = time.monotonic() + 30
            while last <= index:
                written = metrics(file)["takes_total", "written"]
                assert written >= last and time.monotonic() < end
                last, reads = written, reads + 1
        assert watch.stop() == 0
    assert reads > 20 and metrics(file)["takes_total", "written"] == 3


def test_rows_of_isolated_takes_count_too(mixed, takeset, tmp_path):
    more = ["--isolate", "always", "--metrics", tmp_path / "m.prom", "--progress", "none"]
    assert takeset("run", mixed / "t0", "--output", tmp_path / "out", *more, check=0).stderr == ""
    found = metrics(tmp_path / "m.prom")
    assert found["rows_total", None] == 12 and found["bytes_total", None] > 0


def test_many_problems_are_grouped_by_reason(takeset, tmp_path):
    takes = tmp_path / "takes"
    (source,) = small_takes(takeset, tmp_path / "source", 1)
    for index in range(30):
        shutil.copytree(source, takes / f"t{index:02}")
        if index < 23:
            (takes / f"t{index:02}/poses.json").write_text("[{")
        elif index < 25:
            (takes / f"t{index:02}/poses.json").unlink()
    done = takeset("run", takes, "--output", tmp_path / "out", "--progress", "none", check=3)
    *lines, last = done.stdout.splitlines()
    assert last.endswith("takeset explain json-invalid")
    (line,) = [l for l in lines if "json-invalid" in l]
    assert re.fullmatch(r"  failed    json-invalid +23 takes +t\d\d, t\d\d, t\d\d and 20 others", line)
    assert len(re.findall(r"(?m)^  failed ", done.stdout)) == 2 and "poses-missing" in done.stdout
    every = takeset("run", takes, "--output", tmp_path / "all", "--progress", "none", "--verbose", check=3)
    assert len(re.findall(r"(?m)^  failed ", every.stdout)) == 25


def test_a_run_that_was_killed_before_it_published_is_published_by_the_next(takeset, tmp_path):
    """A second take is sealed and in the journal; the index and the manifest are still those of the first."""
    a, b = small_takes(takeset, tmp_path / "takes", 2)
    takeset.convert(a, output=tmp_path / "out")
    takeset.convert(a, b, output=tmp_path / "whole")
    shutil.copy2(tmp_path / "whole/episodes/t1.h5", tmp_path / "out/episodes")
    shutil.copy2(tmp_path / "whole/journal.jsonl", tmp_path / "out")
    assert "nothing to do" not in takeset.convert(a, b, output=tmp_path / "out").stdout
    assert outputs(tmp_path / "out") == outputs(tmp_path / "whole")
    assert "nothing to do" in takeset.convert(a, b, output=tmp_path / "out").stdout


@pytest.mark.parametrize("unit", ["takeset-watch.service", "takeset-run.service", "takeset-run.timer"])
def test_units_are_sound(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    units = tmp_path / "etc/systemd/system"
    shutil.copytree(ROOT / "deploy/systemd", units)
    (tmp_path / "usr/bin").mkdir(parents=True)
    shutil.copy2("/bin/true", tmp_path / "usr/bin/takeset")
    system = tmp_path / "usr/lib/systemd/system"
    system.mkdir(parents=True)
    for target in "sysinit", "basic", "shutdown", "local-fs", "remote-fs", "multi-user", "timers", "time-sync", "time-set":
        (system / f"{target}.target").write_text(f"[Unit]\nDescription={target}\n")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", unit], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == "", done.stderr
