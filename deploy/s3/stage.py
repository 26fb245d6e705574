"""Converts takes that are on object storage into a dataset there; every machine has a scratch folder only.

    python stage.py plan s3://captures/takes/ s3://captures/dataset --work /scratch/takeset [-- OPTION OF takeset plan...]
    python stage.py convert s3://captures/dataset --work /scratch/takeset --task N [--count K] [-- OPTION OF takeset convert...]
    python stage.py publish s3://captures/dataset --work /scratch/takeset

The scratch folder has the same path on every machine, and belongs to one command at a time. Exit codes are those of takeset; 75 where the
storage fails. Credentials, region and endpoint come from the environment, as for every program with boto3.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import boto3
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

INDEX = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"]
# A take is recognized by the names of these and not by their content: a plan needs their sizes only.
PLACEHOLDERS = {".jpg", ".jpeg", ".png", ".bin"}

# The folder of a pipeline's steps in Python, in the dataset.
STEPS = "task-steps"


class Store:
    """Objects below an address such as s3://bucket/some/folder."""

    def __init__(self, address):
        scheme, _, rest = address.partition("://")
        self.bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not self.bucket:
            sys.exit(f"stage.py: {address}: expected s3://bucket/prefix")
        self.prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self.address = f"s3://{self.bucket}/{self.prefix}"
        self.client = boto3.client("s3")

    def list(self, below=""):
        """Names and sizes of the objects whose names start so; a name that would leave the folder is an error."""
        found = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + below):
            for entry in page.get("Contents", []):
                name = entry["Key"][len(self.prefix) :]
                if name and not name.endswith("/"):
                    if name.startswith("/") or {"", ".", ".."} & set(name.split("/")):
                        raise OSError(f"{self.address}{name}: this name is not that of a file")
                    found[name] = entry["Size"]
        return found

    def get(self, name, path):
        """Downloads an object under a temporary name, and compares its size and, where it has one, its checksum."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.download")
        answer = self.client.get_object(Bucket=self.bucket, Key=self.prefix + name, ChecksumMode="ENABLED")
        digest, size = hashlib.sha256(), 0
        with open(partial, "wb") as file:
            for block in answer["Body"].iter_chunks(1 << 20):  # boto compares the store's own checksum at the end
                file.write(block)
                digest.update(block)
                size += len(block)
        expected = answer["Metadata"].get("sha256", digest.hexdigest())
        if size != answer["ContentLength"] or digest.hexdigest() != expected:
            partial.unlink()
            raise OSError(f"{self.address}{name}: arrived damaged")
        partial.rename(path)

    def put(self, path, name):
        """Uploads a file; the store compares the checksum of each part before the object exists."""
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        more = {"ChecksumAlgorithm": "SHA256", "Metadata": {"sha256": digest}}
        self.client.upload_file(str(path), self.bucket, self.prefix + name, ExtraArgs=more)


class Scratch:
    def __init__(self, folder, dataset, takeset):
        self.root = Path(os.path.realpath(folder))
        self.inputs, self.output = self.root / "inputs", self.root / "dataset"
        self.dataset, self.takeset = dataset, takeset
        mark = self.root / ".takeset-scratch"
        if not mark.exists() and (self.inputs.exists() or self.output.exists()):
            print(f"stage.py: {self.root} has an inputs or a dataset that is not from here; give another --work", file=sys.stderr)
            sys.exit(64)
        for stale in self.inputs, self.output:
            shutil.rmtree(stale, ignore_errors=True)
        self.root.mkdir(parents=True, exist_ok=True)
        mark.touch()

    def run(self, *words):
        """The exit code; 128 and the number of the signal for a command that was killed, as shells have it."""
        code = subprocess.run([self.takeset, *map(str, words)]).returncode
        return 128 - code if code < 0 else code

    def fetch(self, *names):
        """Downloads those of these files of the dataset that there are."""
        for name in names:
            try:
                self.dataset.get(name, self.output / name)
            except ClientError as error:
                if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
                    raise

    def place(self, store, name):
        """Where an input is on this machine: the bucket's name is part of the path, because it may be the take's folder."""
        return self.inputs / store.bucket / (store.prefix + name)


def plan(scratch, sources, more):
    for source in sources:
        for name, size in source.list().items():
            path = scratch.place(source, name)
            if path.suffix.lower() in PLACEHOLDERS:
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "wb") as file:
                    file.truncate(size)
            else:
                source.get(name, path)
    # An earlier list and the journal keep the ids of earlier takes.
    scratch.fetch("tasks.json", "journal.jsonl")
    folders = [scratch.place(source, "") for source in sources]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    code = scratch.run("plan", *folders, "--output", scratch.output, "--tasks", *more)
    if code == 0:
        # Before the list that needs them.
        for path in sorted(path for path in (scratch.output / STEPS).rglob("*") if path.is_file()):
            scratch.dataset.put(path, path.relative_to(scratch.output).as_posix())
        scratch.dataset.put(scratch.output / "tasks.json", "tasks.json")
    return code


def stage(scratch, location):
    """Downloads a take: the objects of its folder; or a file, and what is beside it under the same name."""
    bucket, _, key = os.path.relpath(location["path"], scratch.inputs).partition("/")
    if location["isDirectory"]:
        source = Store(f"s3://{bucket}/{key}")
        for name in source.list():
            source.get(name, scratch.place(source, name))
        return
    folder, _, file = key.rpartition("/")
    source = Store(f"s3://{bucket}/{folder}")
    for name in source.list(file.partition(".")[0]):
        if "/" not in name:
            source.get(name, scratch.place(source, name))


def shards_of(take, names):
    """The shards of a take: one, or one for each of its parts."""
    ends = (name.removeprefix(f"episodes/{take}").removesuffix(".h5").removeprefix(".") for name in names)
    return [name for name, end in zip(names, ends) if name.startswith(f"episodes/{take}.") and name.endswith(".h5") and (not end or end.isdigit())]


def convert_one(scratch, number, task, more):
    result = f"results/{task['id']}.json"
    there = list(scratch.dataset.list(f"episodes/{task['id']}."))
    scratch.fetch(result, *shards_of(task["id"], there))
    command = ["convert", scratch.output, "--task", number, *more]
    if (scratch.output / result).exists():
        done = subprocess.run([scratch.takeset, "status", str(scratch.output), "--format", "json"], capture_output=True, text=True)
        if done.returncode == 0 and number not in json.loads(done.stdout)["missing"]:
            return scratch.run(*command)  # says that it is done, without the inputs
    for location in filter(None, [task["location"], task.get("duplicateFolder")]):
        stage(scratch, location)
    code = scratch.run(*command)
    if code in (0, 65):
        made = [f"episodes/{path.name}" for path in (scratch.output / "episodes").iterdir()]
        for name in [*shards_of(task["id"], made), result]:  # the result comes last
            scratch.dataset.put(scratch.output / name, name)
    return code


def convert(scratch, first, count, more):
    scratch.fetch("tasks.json", *scratch.dataset.list(STEPS + "/"))
    path = scratch.output / "tasks.json"
    if not path.exists():
        print(f"stage.py: there is no list of tasks in {scratch.dataset.address}", file=sys.stderr)
        return 66
    tasks = json.loads(path.read_text())["tasks"]
    if not 0 <= first < len(tasks):
        print(f"stage.py: there is no task {first}; there are {len(tasks)}", file=sys.stderr)
        return 64
    codes = set()
    for number in range(first, min(first + count, len(tasks))):
        code = convert_one(scratch, number, tasks[number], more)
        if code not in (0, 65, 66, 75):
            return code  # not of this task alone
        codes.add(code)
        for used in scratch.inputs, scratch.output / "episodes", scratch.output / "results":
            shutil.rmtree(used, ignore_errors=True)
    return next(code for code in (75, 66, 65, 0) if code in codes)


def publish(scratch, more):
    known = scratch.dataset.list()
    wanted = {"tasks.json", "journal.jsonl", "manifest.json", "dataset.h5"}
    scratch.fetch(*(name for name in known if name in wanted or name.startswith(("results/", "episodes/"))))
    code = scratch.run("publish", scratch.output, *more)
    if code in (0, 3):
        for name in "journal.jsonl", "dataset.h5", "manifest.json", "results/.published":  # a reader begins with the manifest
            scratch.dataset.put(scratch.output / name, name)
    return code


def main():
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["plan", "convert", "publish"])
    parser.add_argument("address", nargs="+", help="the inputs, for plan, and the dataset")
    parser.add_argument("--work", required=True, help="the scratch folder; its inputs/ and dataset/ are emptied")
    parser.add_argument("--task", type=int, help=f"as for takeset convert; without it {', '.join(INDEX)} times --count")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--takeset", default=os.environ.get("TAKESET", "takeset"))
    given, more = parser.parse_args(words[:end]), words[end + 1 :]
    if (len(given.address) > 1) != (given.command == "plan") or given.count < 1:
        parser.print_usage(sys.stderr)
        return 64
    first = given.task
    if given.command == "convert" and first is None:
        index = next((os.environ[name] for name in INDEX if name in os.environ), "")
        if not index.isdigit():
            print(f"stage.py: give --task, or set one of {', '.join(INDEX)}", file=sys.stderr)
            return 64
        first = int(index) * given.count
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    try:
        *sources, dataset = map(Store, given.address)
        scratch = Scratch(given.work, dataset, given.takeset)
        if given.command == "plan":
            return plan(scratch, sources, more)
        return convert(scratch, first, given.count, more) if given.command == "convert" else publish(scratch, more)
    except (BotoCoreError, Boto3Error, ClientError, OSError) as error:
        print(f"stage.py: {error}", file=sys.stderr)
        return 75


if __name__ == "__main__":
    sys.exit(main())
