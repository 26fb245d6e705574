"""Tasks for a cluster: what workers make of them equals a run on one machine."""

import json
import os
import shutil
import subprocess

import pytest
from clusters import PIPELINE, attempts, convert_all, environment, mixed_takes, plan, status, tasks, tiny_takes
from command import BINARY
from outputs import manifest, traces
from run_outputs import outputs


@pytest.fixture(scope="module")
def mixed(takeset, tmp_path_factory):
    return mixed_takes(takeset, tmp_path_factory.mktemp("mixed") / "takes")


@pytest.fixture(scope="module")
def few(takeset, tmp_path_factory):
    return tiny_takes(takeset, tmp_path_factory.mktemp("few") / "takes", 4)


@pytest.fixture(scope="module")
def whole(takeset, few, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "out"
    takeset.convert(few, output=output)
    return outputs(output)


VARIANTS = {
    "defaults": [], "split into parts": ["--pipeline", "pipeline.yaml"], "keys": ["--keys", "keys"],
    "all": ["--pipeline", "pipeline.yaml", "--keys", "keys", "--split-file", "split.json"],
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("isolate", ["auto", "never"])
def test_tasks_give_the_bytes_of_a_run(takeset, mixed, keys, tmp_path, variant, isolate):
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "split.json").write_text(json.dumps({"train": ["t0", "signed"], "valid": ["t1"]}))
    known = {"keys": keys[1], "pipeline.yaml": tmp_path / "pipeline.yaml", "split.json": tmp_path / "split.json"}
    arguments = [known.get(word, word) for word in VARIANTS[variant]]
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    inputs = [mixed, tmp_path / "pipeline.yaml", nothing]  # in two of them there is no take
    takeset.convert(*inputs, output=tmp_path / "run", check=3, arguments=[*arguments, "--jobs", 1])
    listed, done = plan(takeset, *inputs, output=tmp_path / "out", arguments=arguments)
    assert "without a take" in done.stdout
    codes = {}
    for number in reversed(range(len(listed))):  # the order does not matter, nor does the number of threads
        done = takeset("convert", tmp_path / "out", "--task", number, "--jobs", 1 + number % 3, "--isolate", isolate)
        codes[listed[number]["id"]] = done.returncode
    assert codes.pop("bad") == 65 and set(codes.values()) == {0}
    takeset("publish", tmp_path / "out", check=3)
    assert outputs(tmp_path / "out") == outputs(tmp_path / "run")
    outcomes = {entry["outcome"] for entry in manifest(tmp_path / "out")["record"]["takes"]}
    assert outcomes == {"written", "failed"} | ({"rejected"} if "--pipeline" in arguments else set())
    takeset("verify", tmp_path / "out", check=0)
    assert attempts(tmp_path / "out") == []


@pytest.mark.slow
def test_many_tasks_by_one_worker_in_two_orders(takeset, few, whole, tmp_path):
    for name, counts in {"one": [(0, 4)], "two": [(2, 2), (0, 2)], "more than there are": [(3, 100), (0, 3)]}.items():
        plan(takeset, few, output=tmp_path / name)
        for first, count in counts:
            takeset("convert", tmp_path / name, "--task", first, "--count", count, check=0)
        takeset("publish", tmp_path / name, check=0)
        assert outputs(tmp_path / name) == whole, name


def test_another_split_needs_no_task_again(takeset, few, tmp_path):
    default = "align, resize-image: {width: 320, height: 240}, verify-hash-chain"
    for seed in 1, 2:
        (tmp_path / f"{seed}.yaml").write_text(f"version: 1\ntransforms: [{default}, split: {{group: take, valid: 0.5, seed: {seed}}}]\n")
    plan(takeset, few, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "1.yaml"])
    convert_all(takeset, tmp_path / "out")
    takeset("publish", tmp_path / "out", check=0)
    plan(takeset, few, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "2.yaml"])
    takeset("publish", tmp_path / "out", check=0)
    takeset.convert(few, output=tmp_path / "run", arguments=["--pipeline", tmp_path / "2.yaml"])
    assert outputs(tmp_path / "out") == outputs(tmp_path / "run")


@pytest.mark.parametrize("variable", ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"])
def test_the_engine_says_which_task(takeset, few, tmp_path, variable):
    listed, _ = plan(takeset, few, output=tmp_path / "out")
    takeset("convert", tmp_path / "out", check=0, env=environment(**{variable: "2"}))
    assert [path.stem for path in (tmp_path / "out/results").glob("*.json")] == [listed[2]["id"]]
    takeset("convert", tmp_path / "out", "--count", 2, check=0, env=environment(**{variable: "0"}))
    assert status(takeset, tmp_path / "out")["missing"] == [3]
    takeset("convert", tmp_path / "out", "--task", 3, check=0, env=environment(**{variable: "0"}))  # the option wins
    assert status(takeset, tmp_path / "out")["missing"] == []
    for value in "-1", "x", "", "99", "9223372036854775807":
        takeset("convert", tmp_path / "out", "--count", 2, check=64, env=environment(**{variable: value}))
    assert variable in takeset("convert", tmp_path / "out", check=64, env=environment()).stderr


@pytest.mark.slow
def test_status_names_what_is_missing(takeset, few, tmp_path):
    output = tmp_path / "out"
    shutil.copytree(few, tmp_path / "takes")
    (tmp_path / "takes/take01/poses.json").write_text("{")
    plan(takeset, tmp_path / "takes", output=output)
    array = lambda *more: takeset("status", output, "--format", "slurm", *more, check=0).stdout.strip()
    assert array() == "0-3" and array("--count", 2) == "0-1" and array("--count", 3) == "0-1" and array("--count", 9) == "0"
    takeset("convert", output, "--task", 1, check=65)
    assert array() == "0,2-3" and array("--count", 2) == "0-1"
    takeset("convert", output, "--task", 0, check=0)
    assert array("--count", 2) == "1"
    found = status(takeset, output)
    assert (found["tasks"], found["written"], found["missing"]) == (4, 1, [2, 3])
    assert [(entry["task"], entry["id"]) for entry in found["failed"]] == [(1, "take01")] and found["failed"][0]["reason"]
    text = takeset("status", output, check=0).stdout
    assert "1 written, 1 failed, 2 missing" in text and "missing: 2-3" in text
    convert_all(takeset, output)
    assert array() == ""


@pytest.mark.slow
def test_more_takes_keep_the_ids_and_results_of_the_earlier_ones(takeset, few, tmp_path):
    takes, output = tmp_path / "takes", tmp_path / "out"
    shutil.copytree(few / "take02", takes / "b/take")
    shutil.copytree(few / "take03", takes / "c/take")
    listed, _ = plan(takeset, takes, output=output)
    ids = {task["location"]["path"]: task["id"] for task in listed}
    takeset("convert", output, "--task", 0, check=0)
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in (output / "results").iterdir()}
    shutil.copytree(few / "take01", takes / "a/take")  # the first by name, which would have had the id of the others
    listed, _ = plan(takeset, takes, output=output)
    assert len(listed) == 3 and {task["location"]["path"]: task["id"] for task in listed}.items() >= ids.items()
    assert "done before" in "".join(takeset("convert", output, "--task", n, check=0).stdout for n in range(3))
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in before} == before
    takeset("publish", output, check=0)
    assert len(manifest(output)["record"]["takes"]) == 3
    # And after they are published; the same again.
    shutil.copytree(few / "take00", takes / "0/take")
    plan(takeset, takes, output=output)
    assert len(status(takeset, output)["missing"]) == 1
    convert_all(takeset, output)
    takeset("publish", output, check=0)
    takeset("verify", output, check=0)
    known = {task["location"]["path"]: task["id"] for task in tasks(output)}
    assert known.items() >= ids.items() and len(known) == 4


def test_another_keys_file_or_place_is_another_plan(takeset, mixed, keys, tmp_path):
    """What a result depends on: the keys, for a bundle that is signed, and where the take is, for a split by folder."""
    output, takes = tmp_path / "out", tmp_path / "takes"
    for name in "signed", "t0":
        shutil.copytree(mixed / name, takes / name)
    plan(takeset, takes, output=output)
    convert_all(takeset, output, "--quiet")
    listed, _ = plan(takeset, takes, output=output, arguments=keys)
    assert [listed[n]["id"] for n in status(takeset, output)["missing"]] == ["signed"]
    assert convert_all(takeset, output).returncode == 0
    takeset("publish", output, check=0)
    takeset.convert(takes, output=tmp_path / "run", arguments=keys)
    assert outputs(output) == outputs(tmp_path / "run")
    (takes / "day").mkdir()
    (takes / "t0").rename(takes / "day/t0")
    listed, _ = plan(takeset, takes, output=output, arguments=keys)
    assert [listed[n]["id"] for n in status(takeset, output)["missing"]] == ["t0"]


@pytest.mark.slow
def test_a_plan_for_another_pipeline_needs_replace(takeset, few, tmp_path):
    output, other = tmp_path / "out", tmp_path / "p.yaml"
    other.write_text(PIPELINE)
    plan(takeset, few, output=output)
    convert_all(takeset, output)
    done = takeset("plan", few, "--output", output, "--tasks", "--pipeline", other, check=64)
    assert "--replace" in done.stderr
    plan(takeset, few, output=output, arguments=["--pipeline", other, "--replace"])
    assert len(status(takeset, output)["missing"]) == 4
    convert_all(takeset, output)
    takeset("publish", output, check=0)
    takeset.convert(few, output=tmp_path / "run", arguments=["--pipeline", other])
    assert outputs(output) == outputs(tmp_path / "run")


@pytest.mark.slow
def test_publishing_again_changes_nothing_and_a_run_has_nothing_to_do(takeset, few, whole, tmp_path):
    output = tmp_path / "out"
    plan(takeset, few, output=output)
    convert_all(takeset, output)
    takeset("publish", output, check=0)
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in output.rglob("*") if path.is_file()}
    assert "nothing to do (4 written" in takeset("publish", output, check=0).stdout
    assert "nothing to do" in takeset.convert(few, output=output).stdout
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in output.rglob("*") if path.is_file()} == before
    assert outputs(output) == whole
    shutil.copytree(few / "take00", tmp_path / "more/other")
    takeset.convert(few, tmp_path / "more", output=output)  # a run may add takes, which publishing keeps
    assert len(manifest(output)["record"]["takes"]) == 5
    takeset("publish", output, check=0)
    assert len(manifest(output)["record"]["takes"]) == 5
    takeset("verify", output, check=0)


@pytest.mark.slow
def test_a_run_waits_until_tasks_are_published(takeset, few, whole, tmp_path):
    output = tmp_path / "out"
    plan(takeset, few, output=output)
    for arguments in [], ["--replace"]:
        done = takeset.convert(few, output=output, check=64, arguments=arguments)
        assert "not published" in done.stderr and "takeset publish" in done.stderr and not (output / "manifest.json").exists()
    convert_all(takeset, output)
    takeset.convert(few, output=output, check=64)
    takeset("publish", output, check=0)
    takeset.convert(few, output=output)
    plan(takeset, few, output=output)  # the same takes
    takeset.convert(few, output=output, arguments=["--prune"])
    plan(takeset, few / "take00", output=output)
    takeset.convert(few, output=output, check=64)
    (output / "tasks.json").unlink()
    shutil.rmtree(output / "results")
    takeset.convert(few, output=output)
    assert outputs(output) == whole


def test_two_that_publish_at_once(takeset, few, whole, tmp_path):
    output = tmp_path / "out"
    plan(takeset, few, output=output)
    convert_all(takeset, output)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    several = [subprocess.Popen([BINARY, "publish", output], **pipes) for _ in range(5)]
    for process in several:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0 or process.returncode == 75 and "another run is writing" in errors
    assert 0 in {process.returncode for process in several}
    assert outputs(output) == whole
    takeset("verify", output, check=0)


def test_nothing_names_the_machine(takeset, few, tmp_path):
    output = tmp_path / "out"
    plan(takeset, few, output=output)
    convert_all(takeset, output)
    takeset("publish", output, check=0)
    assert traces(output / "results", os.uname().nodename) == []
    assert "host" not in manifest(output)["run"]
    (output / "manifest.json").unlink()
    takeset("publish", output, "--record-host", check=0)
    assert manifest(output)["run"]["host"] == os.uname().nodename


def test_no_takes_are_no_tasks(takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    takeset("plan", tmp_path / "empty", "--output", tmp_path / "out", "--tasks", check=64)
    takeset("run", tmp_path / "empty", "--output", tmp_path / "run", check=64)
