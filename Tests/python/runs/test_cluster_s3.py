"""Takes and datasets on object storage: moto's server, which boto3 talks to."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from clusters import mixed_takes, plan
from command import BINARY, ROOT
from run_outputs import outputs

pytestmark = pytest.mark.slow
boto3 = pytest.importorskip("boto3", reason="needs boto3 and moto: make test-cluster installs them")
moto = pytest.importorskip("moto.server", reason="needs boto3 and moto: make test-cluster installs them")
STAGE = ROOT / "deploy/s3/stage.py"


@pytest.fixture(scope="module")
def storage():
    """The environment of programs that use an S3 server of this machine, and a client."""
    server = moto.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    settings = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    client = boto3.client("s3", endpoint_url=address, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    yield os.environ | settings | {"TAKESET": str(BINARY)}, client
    server.stop()


class Bucket:
    def __init__(self, storage, name):
        self.environment, self.client = storage
        self.name = name
        self.client.create_bucket(Bucket=name)

    def put_folder(self, folder, prefix):
        for path in folder.rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), self.name, f"{prefix}/{path.relative_to(folder)}")

    def keys(self, prefix=""):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def download(self, prefix, folder):
        for key in self.keys(prefix):
            path = folder / key[len(prefix) :]
            path.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(self.name, key, str(path))
        return folder

    def stage(self, work, *words, code=0):
        at = words.index("--") if "--" in words else len(words)
        command = [sys.executable, STAGE, *words[:at], "--work", work, *words[at:]]
        done = subprocess.run([*map(str, command)], env=self.environment, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def local(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("local")
    mixed_takes(takeset, root / "takes")
    shutil.make_archive(root / "takes/t1", "zip", root / "takes/t1")  # an archive beside its own folder
    takeset.simulate(root / "takes/session_X", "--seconds", 0.2, "--size", "48x32", "--variant", "v2")
    shutil.make_archive(root / "takes/session_X", "zip", root / "takes/session_X")
    shutil.copy(root / "takes/session_X/metadata.json", root / "takes/session_X.metadata.json")
    shutil.rmtree(root / "takes/session_X")
    takeset("simulate", "stray-scanner", "--output", root / "takes/scan", "--seconds", 0.2, "--size", "64x48", "--depth-size", "16x12", check=0)
    takeset.convert(root / "takes", output=root / "run", check=3)
    return root / "takes", outputs(root / "run")


def test_a_dataset_on_object_storage(takeset, storage, local, tmp_path):
    takes, expected = local
    bucket, work = Bucket(storage, "captures"), tmp_path / "scratch"
    bucket.put_folder(takes, "some/takes")
    out = "s3://captures/some/dataset"
    bucket.stage(work, "plan", "s3://captures/some/takes/", out)
    # The list is that of a plan which sees all of every file.
    listed = json.loads(bucket.client.get_object(Bucket="captures", Key="some/dataset/tasks.json")["Body"].read())
    plan(takeset, takes, output=tmp_path / "planned")
    text = (tmp_path / "planned/tasks.json").read_text().replace(str(takes.resolve()), str(work.resolve() / "inputs/captures/some/takes"))
    assert listed == json.loads(text)

    bucket.stage(work, "publish", out, code=75)
    count = listed["count"]
    codes = {}
    for number in range(count):
        environment = {"JOB_COMPLETION_INDEX": str(number)}
        done = subprocess.run([sys.executable, STAGE, "convert", out, "--work", work], env=bucket.environment | environment, capture_output=True, text=True)
        codes[listed["tasks"][number]["id"]] = done.returncode
        assert done.returncode in (0, 65), done.stdout + done.stderr
    assert [name for name, code in codes.items() if code] == ["bad"]
    done = next(number for number, task in enumerate(listed["tasks"]) if task["id"] == "t1")
    assert "done before" in bucket.stage(work, "convert", out, "--task", done).stdout
    bucket.stage(work, "publish", out, code=3)
    found = bucket.download("some/dataset/", tmp_path / "found")
    assert outputs(found) == expected
    takeset("verify", found, check=0)
    assert not (work / "inputs").exists()

    # A shard that is lost, or whose bytes are not those that were uploaded, is made again.
    shard = next(key for key in bucket.keys("some/dataset/episodes/") if key.endswith("/t2.h5"))
    number = next(n for n, task in enumerate(listed["tasks"]) if task["id"] == "t2")
    bucket.client.delete_object(Bucket="captures", Key=shard)
    assert ": " + str(number) + ";" in bucket.stage(work, "publish", out, code=75).stderr
    assert "written" in bucket.stage(work, "convert", out, "--task", number).stdout
    bucket.stage(work, "publish", out, code=3)
    assert outputs(bucket.download("some/dataset/", tmp_path / "again")) == expected


def test_exit_codes_of_staging(takeset, storage, local, tmp_path):
    takes, _ = local
    bucket, work, out = Bucket(storage, "second"), tmp_path / "scratch", "s3://second/out"
    bucket.stage(work, "convert", out, "--task", 0, code=66)
    bucket.put_folder(takes / "t2", "takes/t2")
    bucket.stage(work, "plan", "s3://second/takes", out)
    bucket.stage(work, "convert", out, "--task", 1, code=64)
    bucket.stage(work, "convert", out, code=64)
    bucket.stage(work, "convert", out, "--task", 0, "--", "--jobs", "0", code=64)
    for key in bucket.keys("takes/"):
        bucket.client.delete_object(Bucket="second", Key=key)
    bucket.stage(work, "convert", out, "--task", 0, code=66)
    bucket.stage(work, "publish", "s3://nowhere/out", code=75)
    # An object that differs from its checksum is not used.
    bucket.put_folder(takes / "t2", "takes/t2")
    key = bucket.keys("takes/")[0]
    bucket.client.put_object(Bucket="second", Key=key, Body=b"other", Metadata={"sha256": "0" * 64})
    assert "arrived damaged" in bucket.stage(work, "convert", out, "--task", 0, code=75).stderr
    assert not [key for key in bucket.keys("out/") if "results" in key]
    broken = bucket.environment | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    done = subprocess.run([sys.executable, STAGE, "convert", out, "--task", "0", "--work", work], env=broken, capture_output=True, text=True)
    assert done.returncode == 75 and "stage.py: " in done.stderr
    bucket.client.put_object(Bucket="second", Key="evil/../../x", Body=b"x")
    assert "is not that of a file" in bucket.stage(work, "plan", "s3://second/evil", out, code=75).stderr


def test_a_command_that_is_killed_is_not_done(takeset, storage, local, tmp_path):
    """Whatever becomes of the other tasks of the worker."""
    takes, _ = local
    bucket, work, out = Bucket(storage, "third"), tmp_path / "scratch", "s3://third/out"
    for name in "t0", "t1", "t2":
        bucket.put_folder(takes / name, f"takes/{name}")
    bucket.stage(work, "plan", "s3://third/takes", out)
    script = tmp_path / "takeset"
    script.write_text(f'#!/bin/bash\n[ "$1$4" = convert0 ] && kill -KILL $$\nexec {BINARY} "$@"\n')
    script.chmod(0o755)
    bucket.stage(work, "convert", out, "--task", 0, "--count", 3, "--takeset", script, code=137)
    assert [key for key in bucket.keys("out/") if "results/t0" in key] == []
    bucket.stage(work, "convert", out, "--task", 0, "--count", 3)
    bucket.stage(work, "publish", out)


def test_the_scratch_folder_is_no_folder_of_others(storage, tmp_path):
    """Its inputs and its dataset are removed, so they must be from here."""
    bucket = Bucket(storage, "fourth")
    for name in "inputs", "dataset":
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / name / "precious").write_text("x")
        assert "not from here" in bucket.stage(tmp_path / name, "publish", "s3://fourth/out", code=64).stderr
        assert (tmp_path / name / name / "precious").read_text() == "x"


def test_steps_in_python_travel(takeset, storage, local, tmp_path):
    """Each worker downloads the files of the steps with the list of tasks."""
    takes, _ = local
    (tmp_path / "step.py").write_text(
        "from takeset import steps\nimport beside\n@steps.rows(reads=['pose'], writes=steps.Vector('x', ['x']))\ndef f(block):\n    return beside.two * block.pose[:, 0]\n"
    )
    (tmp_path / "beside.py").write_text("two = 2\n")
    (tmp_path / "pipeline.yaml").write_text("version: 1\ntransforms: [align: {}, python: {file: step.py}]\n")
    some = tmp_path / "some"
    for name in ("t0", "t2"):
        shutil.copytree(takes / name, some / name)
    bucket, work = Bucket(storage, "stepped"), tmp_path / "scratch"
    bucket.put_folder(some, "takes")
    out, python = "s3://stepped/dataset", ("--", "--python", sys.executable)
    bucket.stage(work, "plan", "s3://stepped/takes", out, *python, "--pipeline", tmp_path / "pipeline.yaml")
    (tmp_path / "step.py").unlink()
    bucket.stage(work, "convert", out, "--task", 0, "--count", 2, *python)
    bucket.stage(work, "publish", out)
    found = json.loads((bucket.download("dataset/", tmp_path / "found") / "manifest.json").read_text())["record"]
    assert [take["outcome"] for take in found["takes"]] == 2 * ["written"] and "x" in found["statistics"]
    takeset("verify", tmp_path / "found", check=0)
