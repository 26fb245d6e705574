"""The scripts for Slurm, Ray, Kubernetes and object storage, with what they are for; make test-cluster installs it."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import slurm_cluster
import yaml
from clusters import attempts, tiny_takes
from command import BINARY, ROOT
from outputs import manifest
from run_outputs import outputs

pytestmark = pytest.mark.slow
DEPLOY = ROOT / "deploy"

# A worker in the place of the command: it takes a second longer, one dies at its first attempt, and one finds the disk full.
# From the fourth task on, workers wait as long as there is a file named `hold`, so that what happens to them happens in their work.
SLOW = """#!/bin/bash
if [ "$1" = convert ]; then
  number=${SLURM_ARRAY_TASK_ID:-$(grep -oP -- '--task \\K[0-9]+' <<< "$*")}
  echo "$number $$" >> "$FAULTS/attempts"
  [ "$number" = 5 ] && mkdir "$FAULTS/killed" 2>/dev/null && kill -KILL $$
  [ "$number" = 7 ] && mkdir "$FAULTS/full" 2>/dev/null && exit 75
  while [ "$number" -gt 3 ] && [ -e "$FAULTS/hold" ]; do sleep 0.1; done
  sleep 1
fi
exec "$REAL" "$@"
"""


@pytest.fixture(scope="module")
def twenty(takeset, tmp_path_factory):
    """Twenty takes, of which one is bad, and what one machine makes of them."""
    root = tmp_path_factory.mktemp("twenty")
    tiny_takes(takeset, root / "takes", 20)
    (root / "takes/take11/poses.json").write_text("{")
    takeset.convert(root / "takes", output=root / "run", check=3)
    return root / "takes", outputs(root / "run")


@pytest.fixture
def slow(tmp_path):
    """The environment in which TAKESET is a worker that is slow and has faults."""
    script, faults = tmp_path / "takeset", tmp_path / "faults"
    faults.mkdir()
    script.write_text(SLOW)
    script.chmod(0o755)
    return {"TAKESET": str(script), "REAL": str(BINARY), "FAULTS": str(faults)}


def attempted(slow):
    lines = (Path(slow["FAULTS"]) / "attempts").read_text().splitlines()
    return [int(line.split()[0]) for line in lines]


def check_whole(takeset, output, expected):
    """Nothing is lost or doubled, and the bytes are those of one machine."""
    assert outputs(output) == expected
    ids = [entry["id"] for entry in manifest(output)["record"]["takes"]]
    assert ids == [f"take{number:02}" for number in range(20)]
    takeset("verify", output, check=0)
    assert attempts(output) == []


# Slurm


@pytest.mark.cluster
def test_slurm_loses_a_node_and_a_worker(takeset, slurm, slow, twenty, tmp_path):
    takes, expected = twenty
    output = tmp_path / "out"
    started, hold = time.monotonic(), Path(slow["FAULTS"]) / "hold"
    hold.touch()
    said = slurm(DEPLOY / "slurm/submit.sh", output, takes, environment=slow)
    assert "20 tasks" in said
    slurm._until(lambda: "n2" in slurm.running("takeset") and (output / "results").is_dir() and any((output / "results").iterdir()), "work on n2")
    slurm.kill_node("n2")
    slurm.preempt("takeset", output / "logs")
    hold.unlink()
    slurm.wait(240)
    print(f"{time.monotonic() - started:.0f} s")
    check_whole(takeset, output, expected)
    tried = attempted(slow)
    assert set(tried) == set(range(20)) and tried.count(5) >= 2 and tried.count(7) >= 2
    assert tried.count(11) < 4  # once and not four times, unless its own job lost its node or was preempted
    # The same again: nothing is left to do.
    said = slurm(DEPLOY / "slurm/submit.sh", output, takes, environment=slow)
    assert "takeset publish" in said and "tasks in jobs" not in said
    slurm.wait(60)
    assert attempted(slow) == tried
    check_whole(takeset, output, expected)


@pytest.mark.cluster
def test_slurm_in_chunks_gives_up_and_goes_on(takeset, slurm, twenty, tmp_path):
    """Seven tasks in each job; the disk stays full for one job, three times requeued; then it is mended."""
    takes, expected = twenty
    output, script, full = tmp_path / "out", tmp_path / "takeset", tmp_path / "full"
    script.write_text(f'#!/bin/sh\n[ "$1" = convert ] && echo x >> {tmp_path}/attempts.$SLURM_ARRAY_TASK_ID\n'
                      f'[ "$1$SLURM_ARRAY_TASK_ID" = convert1 ] && [ -e {full} ] && exit 75\nexec {BINARY} "$@"\n')
    script.chmod(0o755)
    full.write_text("")
    submit = [DEPLOY / "slurm/submit.sh", "--count", 7, "--limit", 2, "--sbatch=--time=10", "--convert=--isolate=always", output, takes, "--"]
    said = slurm(*submit, environment={"TAKESET": str(script)})
    assert "jobs 0-2, 7 in each" in said
    slurm.wait(180)
    assert len((tmp_path / "attempts.1").read_text().split()) == 4 and len((tmp_path / "attempts.0").read_text().split()) == 1
    log = "".join(path.read_text() for path in (output / "logs").glob("publish*"))
    assert "7-13" in log and not (output / "manifest.json").exists()
    full.unlink()
    said = slurm(submit[0], "--wait", *submit[1:], environment={"TAKESET": str(script)}, code=3)  # that of publish: a take is bad
    assert "jobs 1, 7 in each" in said
    check_whole(takeset, output, expected)


# Ray


def descendants(root):
    found, all_of = {root}, slurm_cluster.processes()
    while True:
        more = {number for number, (parent, _) in all_of.items() if parent in found} - found
        if not more:
            return {number: all_of[number][1] for number in found if number in all_of}
        found |= more


RAY = """
import os, runpy, sys, threading, time
import ray
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 80_000_000})
nodes = [cluster.add_node(num_cpus=2, object_store_memory=80_000_000) for _ in range(2)]
results = sys.argv[1] + "/results"

def lose_a_node():
    while not os.path.isdir(results) or len(os.listdir(results)) < 3:
        time.sleep(0.1)
    cluster.remove_node(nodes[1], allow_graceful=False)
    print("a node is lost", flush=True)
    cluster.add_node(num_cpus=2, object_store_memory=80_000_000)

threading.Thread(target=lose_a_node, daemon=True).start()
sys.argv = [sys.argv[2], sys.argv[1], *sys.argv[3:], "--address", cluster.address]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.mark.cluster
def test_ray_loses_a_node_and_a_worker(takeset, slow, twenty, tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray: make test-cluster installs it")
    takes, expected = twenty
    output, started, hold = tmp_path / "out", time.monotonic(), Path(slow["FAULTS"]) / "hold"
    hold.touch()
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_TMPDIR": tempfile.mkdtemp(prefix="ray-")}
    command = [sys.executable, "-c", RAY, output, DEPLOY / "ray/run.py", takes]
    log = open(tmp_path / "log", "w+")
    driver = subprocess.Popen([*map(str, command)], env=os.environ | quiet | slow, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline, killed = time.monotonic() + 120, None
        while killed is None and time.monotonic() < deadline and driver.poll() is None:
            workers = [number for number, words in descendants(driver.pid).items() if words.startswith("ray::convert")]
            if workers:
                killed = workers[0]
                os.kill(killed, signal.SIGKILL)
            time.sleep(0.1)
        while "a node is lost" not in (tmp_path / "log").read_text() and time.monotonic() < deadline and driver.poll() is None:
            time.sleep(0.1)
        hold.unlink()
        code = driver.wait(240)
        log.seek(0)
        text = log.read()
        assert killed and "a node is lost" in text, text[-3000:]
        assert code == 3, text[-3000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        shutil.rmtree(quiet["RAY_TMPDIR"], ignore_errors=True)
    print(f"{time.monotonic() - started:.0f} s")
    check_whole(takeset, output, expected)
    tried = attempted(slow)
    assert set(tried) == set(range(20)) and len(tried) > 22 and tried.count(11) <= 2


# Kubernetes


def test_kubernetes_jobs_are_valid():
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate: make test-cluster installs it")
    jobs = list(yaml.safe_load_all((DEPLOY / "kubernetes/takeset.yaml").read_text()))
    assert [job["metadata"]["labels"]["step"] for job in jobs] == ["plan", "convert", "publish"]
    for job in jobs:
        validate.validate(job, "1.31", strict=True)
    rules = {rule["action"]: rule.get("onExitCodes", {}).get("values") for rule in jobs[1]["spec"]["podFailurePolicy"]["rules"]}
    assert rules == {"FailJob": [64, 70, 78], "FailIndex": [65, 66], "Ignore": None}
    # The server refuses more failed indexes than there are, and exit codes that are not in order, which no schema says.
    assert jobs[1]["spec"].get("maxFailedIndexes", 0) <= jobs[1]["spec"]["completions"]
    for job in jobs:
        for rule in job["spec"].get("podFailurePolicy", {}).get("rules", []):
            values = rule.get("onExitCodes", {}).get("values", [])
            assert values == sorted(set(values))
    broken = json.loads(json.dumps(jobs[1]))
    broken["spec"]["podFailurePolicy"]["rules"][0]["action"] = ["FailJob"]
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.31", strict=True)


def test_kubernetes_commands_work(takeset, twenty, tmp_path):
    """The arguments of each job, with the volume at another place."""
    takes, expected = twenty
    (tmp_path / "captures").mkdir()
    os.symlink(takes, tmp_path / "captures/takes")
    (tmp_path / "bin").mkdir()
    os.symlink(BINARY, tmp_path / "bin/takeset")
    jobs = {job["metadata"]["labels"]["step"]: job["spec"]["template"]["spec"]["containers"][0]
            for job in yaml.safe_load_all((DEPLOY / "kubernetes/takeset.yaml").read_text())}
    here = lambda words: [word.replace("/captures", str(tmp_path / "captures")) for word in words]

    def run(step, **more):
        words = here(jobs[step].get("command", ["takeset"])) + here(jobs[step].get("args", []))
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(words, env=os.environ | {"PATH": path} | more, capture_output=True, text=True).returncode

    assert run("plan") == 0
    assert run("publish") == 75
    assert [run("convert", JOB_COMPLETION_INDEX=str(index)) for index in range(2)] == [0, 65]
    assert run("publish") == 0
    assert outputs(tmp_path / "captures/dataset") == expected
