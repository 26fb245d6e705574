"""Converts takes on a Ray cluster; all nodes see the inputs and the dataset at the same paths.

    python run.py DATASET INPUT... [--address auto] [-- OPTION OF takeset plan...]

Run it again to convert what is missing or new. Exits with the code of takeset publish.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import ray

PERMANENT = {0, 65, 66}  # done; the take is bad; its inputs are gone
STOP = {64, 70, 78}  # a mistake in the command, a fault of Takeset, another version


class Transient(Exception):
    """Another attempt, on any node, may succeed."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--address", help="of the cluster, or auto; without it, a cluster of this machine is started")
    parser.add_argument("--takeset", default=os.environ.get("TAKESET", "takeset"), help="the command, at the same path on every node")
    parser.add_argument("--cpus", type=int, default=1, help="processors for each task")
    parser.add_argument("--convert", action="append", default=[], help="an option of takeset convert, as --convert=--take-memory=8G")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    found = parser.parse_args(words[:end])
    found.dataset = os.path.abspath(found.dataset)
    return found, words[end + 1 :]


@ray.remote(max_retries=5, retry_exceptions=[Transient])
def convert(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in PERMANENT | STOP:
        raise Transient(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.returncode, done.stdout + done.stderr


def main():
    options, plan = arguments()
    takeset = [options.takeset]
    listed = subprocess.run([*takeset, "plan", *options.inputs, "--output", options.dataset, "--tasks", *plan])
    if listed.returncode:
        return listed.returncode
    status = subprocess.run([*takeset, "status", options.dataset, "--format", "json"], capture_output=True, text=True, check=True)
    ray.init(address=options.address, log_to_driver=False)
    worker = convert.options(num_cpus=options.cpus)
    command = [*takeset, "convert", options.dataset, "--jobs", str(options.cpus), *options.convert]
    waiting = [worker.remote([*command, "--task", str(task)]) for task in json.loads(status.stdout)["missing"]]
    are_given_up = False
    while waiting:
        (ended,), waiting = ray.wait(waiting)
        try:
            code, words = ray.get(ended)
        except ray.exceptions.RayError as error:
            print(f"given up: {error}", file=sys.stderr)  # publish names the task
            are_given_up = True
            continue
        print(words, end="", flush=True)
        if code in STOP:
            return code
        are_given_up |= code == 66
    for pause in 0, 10, 20, 40:  # a network file system may show what other nodes have written a minute late
        time.sleep(pause)
        code = subprocess.run([*takeset, "publish", options.dataset]).returncode
        if code != 75 or are_given_up:
            break
    return code


if __name__ == "__main__":
    sys.exit(main())
