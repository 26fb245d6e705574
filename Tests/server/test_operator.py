"""An operator's first hour: the lines of docs/server.md, with the programs that were built here."""

import os
import re
import shutil
import subprocess

from conftest import BINARY, ROOT, TAKESET, free_port


def test_from_nothing_to_a_converted_capture(tmp_path):
    """The same lines are run with the packages in a bare Debian by `make test-packages`."""
    page = (ROOT / "docs/server.md").read_text().split("## From nothing to a converted capture")[1].split("\n## ")[0]
    server, laptop, reader = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in BINARY, TAKESET:
        (programs / program.name).symlink_to(program)
    # No packages, no service and no other user here.
    (programs / "runuser").write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    (programs / "systemctl").write_text(
        f'#!/bin/sh\ntakeset-server serve --config {tmp_path}/etc/server.yaml --reserve 0 --stranger-reserve 0 >{tmp_path}/log 2>&1 &\n'
        f'echo $! >{tmp_path}/pid\nuntil grep -q listening {tmp_path}/log; do sleep 0.1; done\n')
    for name in "apt-get", "chown":
        (programs / name).write_text("#!/bin/sh\n")
    for script in programs.iterdir():
        if not script.is_symlink():
            script.chmod(0o755)
    for folder in "etc", "data", "laptop":
        (tmp_path / folder).mkdir()
    port = free_port()

    def run(lines):
        for found, ours in ("/var/lib/takeset", tmp_path / "data"), ("/etc/takeset", tmp_path / "etc"), ("8443", port):
            lines = lines.replace(found, str(ours))
        return subprocess.run(
            ["sh", "-ec", lines], cwd=tmp_path / "laptop", capture_output=True, text=True, timeout=300,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path / "state")})

    assert shutil.which("openssl")
    try:
        done = run(server)
        assert done.returncode == 0, done.stderr
        done = run(laptop)
        assert done.returncode == 0 and done.stdout.split("\n")[1].startswith("uploaded\t"), (done.stdout, done.stderr)
        done = run(f"until test -e /var/lib/takeset/datasets/default/manifest.json; do sleep 0.2; done\n{reader}")
        assert done.returncode == 0 and "sound" in done.stdout, (done.stdout, done.stderr)
    finally:
        if (tmp_path / "pid").exists():
            subprocess.run(["kill", (tmp_path / "pid").read_text().strip()])
