"""Clients of every kind that upload at once and write down what each of them was promised, and what must be true afterwards.

Nothing here is the product's: requests are written by http.client, digests are hashlib's, the database is read by sqlite3.
"""

import collections
import hashlib
import http.client
import json
import random
import shutil
import threading
import time
import traceback
import uuid

import phone
from bundles import APP
from resumable import CHUNK, checksum, metadata, sha256, tarred, zipped

OPTIONS = ("--reserve", 0, "--app-id", APP, "--videos-per-hour", 100_000, "--timestamp-age", 86_400)
MOVIE = b"\0\0\0\x14ftypqt  \0\0\0\0qt  "


class Cut(Exception):
    """No answer came."""


class Client(threading.Thread):
    """A client that sends one capture after the other, each until it is acknowledged."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load, self.number = load, number
        self.random = random.Random(f"{load.seed} {number}")
        self.connection = None
        self.captures = 0

    def run(self):
        try:
            while not self.load.is_ending:
                self.captures += 1
                self.upload()
        except BaseException:
            self.load.problems.append(f"{type(self).__name__} {self.number}: {traceback.format_exc()}")
        finally:
            self.close()

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def send(self, method, path, body=b"", headers=None, cut_at=None):
        """Status, headers and body of an answer. Only the first `cut_at` bytes of the body are sent, if that is given."""
        if time.monotonic() > self.load.deadline:
            raise AssertionError("it takes too long")
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.load.server.port, timeout=300)
            self.connection.putrequest(method, path)
            for name, value in {"Content-Length": len(body), **(headers or {})}.items():
                self.connection.putheader(name, str(value))
            self.connection.endheaders(body if cut_at is None else body[:cut_at])
            if cut_at is not None:
                raise ConnectionAbortedError
            answer = self.connection.getresponse()
            found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
            if answer.will_close:
                self.close()
        except (OSError, http.client.HTTPException):
            self.close()
            self.load.counts["cuts"] += 1
            raise Cut from None
        self.load.counts[f"{found[0]}"] += 1
        if found[0] == 507 and self.load.is_patient:
            self.close()
            raise Cut
        return found

    def ask(self, *arguments, expect):
        """The answer, asked for until there is one."""
        while True:
            try:
                answer = self.send(*arguments)
                assert answer[0] in expect, (arguments[:2], answer)
                return answer
            except Cut:
                time.sleep(0.02)

    def data(self, most):
        return self.random.randbytes(self.random.randrange(1, most))

    def session(self):
        files = [(f"s/rgb/{index:06}.jpg", self.data(120_000)) for index in range(self.random.randrange(1, 5))]
        return [("s/metadata.json", b'{"client":%d,"capture":%d}' % (self.number, self.captures)), ("s/poses.json", b"[]"), *files]


class TusClient(Client):
    """tus with chunks of any size, with and without checksums; now and then it cuts the connection itself."""

    def contents(self):
        kind = self.random.choice(["zip", "tar", "movie", "form", "other"])
        if kind == "zip":
            return zipped(self.session()), {"filename": "s.zip"}
        if kind == "tar":
            return tarred(self.session()), {"filename": "s.tar"}
        if kind == "movie":
            return MOVIE + self.data(3_000_000), {"filename": "video_1771446000.mov"}
        if kind == "form":
            return phone.capture(self.number, video=self.data(400_000)).body(), {"kind": "bundle"}
        return self.data(1_000_000), {"filename": "note.txt"}

    def upload(self):
        body, values = self.contents()
        if self.random.random() < 0.5:
            values["sha256"] = sha256(body)
        common = {"Tus-Resumable": "1.0.0"}
        headers = {**common, "Upload-Length": len(body), "Upload-Metadata": metadata(**values)}
        path = self.ask("POST", "/files", b"", headers, expect=[201])[1]["location"]
        acknowledged = sent = 0
        capture = None
        while capture is None:
            part = body[acknowledged : acknowledged + self.random.choice([1000, 60_000, 300_000, 900_000])]
            headers = {**common, "Upload-Offset": acknowledged, "Content-Type": CHUNK}
            if self.random.random() < 0.3:
                headers["Upload-Checksum"] = checksum(part)
            cut_at = self.random.randrange(len(part) + 1) if self.random.random() < 0.05 else None
            sent = max(sent, acknowledged + len(part))
            try:
                status, answer, text = self.send("PATCH", path, part, headers, cut_at)
                # After a cut the server may still be busy with what came before it.
                assert status in (204, 409, 423), (status, text)
                if status == 204:
                    assert int(answer["upload-offset"]) == acknowledged + len(part)
                    acknowledged += len(part)
                    capture = answer.get("x-capture-id")
                    continue
            except Cut:
                pass
            time.sleep(0.02)
            answer = self.ask("HEAD", path, b"", common, expect=[200])[1]
            offset = int(answer["upload-offset"])
            assert acknowledged <= offset <= sent, (path, acknowledged, offset, sent)
            self.load.counts["resumed"] += offset > 0
            acknowledged, capture = offset, answer.get("x-capture-id")
        self.load.promise(capture, [sha256(body)], len(body))


class PhoneClient(Client):
    """Bundles, signed by a key of its own. A request without an answer is sent again word for word."""

    def __init__(self, load, number):
        super().__init__(load, number)
        self.phone = phone.Phone(load.server, number)

    def upload(self):
        bundle = phone.capture(self.number, video=self.data(600_000), depth_data=self.data(100_000))
        body = bundle.body()
        # Old signatures do not count; the same parts with a new one are the same capture.
        while True:
            headers = self.phone.headers(body)
            first = time.monotonic()
            while time.monotonic() - first < 120:
                try:
                    status, _, text = self.send("POST", phone.PATH, body, headers)
                    assert status == 202, (status, text)
                    capture = json.loads(text)["data"]["capture_id"]
                    self.load.promise(capture, [sha256(part) for part in bundle.parts().values()], len(body))
                    return
                except Cut:
                    self.load.counts["sent again"] += 1
                    time.sleep(0.02)


class ArchiveClient(Client):
    """Archives by PUT."""

    def upload(self):
        ending = self.random.choice(["zip", "tar"])
        body = zipped(self.session()) if ending == "zip" else tarred(self.session())
        headers = {"X-Content-SHA256": sha256(body)} if self.random.random() < 0.5 else {}
        path = f"/api/v1/sessions/s{self.number}-{self.captures}.{ending}"
        answer = self.ask("PUT", path, body, headers, expect=[200, 201])
        self.load.promise(answer[1]["x-capture-id"], [sha256(body)], len(body))


class FolderClient(Client):
    """Folders, file by file. What was acknowledged is asked for again after each cut."""

    def upload(self):
        path = f"/api/v1/sessions/f{self.number}-{self.captures}"
        files = dict(self.session())
        acknowledged = set()
        for name, data in files.items():
            while name not in acknowledged:
                try:
                    status, _, text = self.send("PUT", f"{path}/files/{name}", data)
                    assert status in (200, 201), (status, text)
                    acknowledged.add(name)
                except Cut:
                    time.sleep(0.02)
                    for known in acknowledged:
                        found = self.ask("HEAD", f"{path}/files/{known}", b"", {}, expect=[204])
                        assert found[1]["x-content-sha256"] == sha256(files[known])
                    self.load.counts["resumed"] += bool(acknowledged)
        listed = [{"name": name, "size": len(data), "sha256": sha256(data)} for name, data in files.items()]
        answer = self.ask("POST", f"{path}/complete", json.dumps(listed).encode(), {}, expect=[200, 201])
        self.load.promise(answer[1]["x-capture-id"], map(sha256, files.values()), sum(map(len, files.values())))


class MovieClient(Client):
    """Movies of the slow-motion app, which sends one again if no answer came."""

    def upload(self):
        body = MOVIE + self.data(1_500_000)
        boundary = str(uuid.UUID(int=self.random.getrandbits(128))).upper()
        name = f"video_{1_771_446_000 + self.captures}.mov"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="video"; filename="{name}"\r\nContent-Type: video/quicktime\r\n\r\n'
        form = head.encode() + body + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        answer = json.loads(self.ask("POST", "/upload", form, headers, expect=[200])[2])
        assert answer["success"] and answer["size"] == len(body)
        with phone.database(self.load.server) as database:
            (capture,) = database.execute("SELECT id FROM capture WHERE name = ?", [answer["filename"]]).fetchone()
        self.load.promise(capture, [sha256(body)], len(body))


KINDS = [TusClient] * 8 + [PhoneClient] * 4 + [ArchiveClient] * 3 + [FolderClient] * 3 + [MovieClient] * 2


class Load:
    """Twenty clients. `is_patient` ones take 507 for an answer that may change."""

    def __init__(self, server, seed, seconds=1800, is_patient=False):
        self.server, self.seed, self.is_patient = server, seed, is_patient
        self.deadline = time.monotonic() + seconds
        self.is_ending = False
        self.counts, self.problems = collections.Counter(), []
        self.promised, self.bytes = {}, 0
        self.lock = threading.Lock()
        self.clients = [kind(self, number + 1) for number, kind in enumerate(KINDS)]

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, kind, *_):
        self.is_ending = True
        for client in self.clients:
            client.join()
        if kind is None:
            assert not self.problems, "\n".join(self.problems)

    def promise(self, capture, digests, count):
        """A client was told that the server has this."""
        digests = frozenset(digests)
        with self.lock:
            assert self.promised.setdefault(capture, digests) == digests, "two captures have one id"
            self.bytes += count

    def until(self, captures):
        """Waits until so many more captures were acknowledged."""
        wanted = len(self.promised) + captures
        while len(self.promised) < wanted:
            assert not self.problems, "\n".join(self.problems)
            assert time.monotonic() < self.deadline, self.counts
            time.sleep(0.01)

    def check(self):
        """All that was promised is there, once, and nothing else. The clients have ended; the server may have been restarted."""
        server = self.server
        server.until(lambda: not list((server.data / "uploads").iterdir()))
        assert list((server.data / "staging").iterdir()) == []
        with phone.database(server) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert database.execute("PRAGMA foreign_key_check").fetchall() == []
            captures = [capture for (capture,) in database.execute("SELECT id FROM capture")]
            rows = database.execute("SELECT capture, name, bytes, sha256 FROM file").fetchall()
        folder = server.data / "captures"
        assert sorted(path.name for path in folder.iterdir()) == sorted(captures)
        found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        assert sorted(found) == sorted(f"{capture}/{name}" for capture, name, _, _ in rows)
        digests = collections.defaultdict(set)
        for capture, name, count, digest in rows:
            data = found[f"{capture}/{name}"].read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (count, digest)
            digests[capture].add(digest)
        # Each capture was acknowledged in the end, so more of them would be the same contents twice.
        assert sorted(captures) == sorted(self.promised)
        for capture, wanted in self.promised.items():
            assert wanted <= digests[capture], capture

    def summary(self, **more):
        figures = {**more, "captures": len(self.promised), "MB": round(self.bytes / 1e6), **dict(sorted(self.counts.items()))}
        return ", ".join(f"{name} {value}" for name, value in figures.items())


def remove(server):
    """The captures of a long load are many gigabytes."""
    if server.process.poll() is None:
        server.kill()
    shutil.rmtree(server.data, ignore_errors=True)
