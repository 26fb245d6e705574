"""What must not pass for something else: keys that anybody can sign with, envelopes in other texts, statements and manifests that contradict themselves."""

import base64
import json
import shutil

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sealing import rewrite

# Encodings of the points of order 1, 2, 4 and 8, also with numbers that are not reduced and with the other sign of x.
SMALL = [
    "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "00" * 31 + "80", "ed" + "ff" * 30 + "7f", "ed" + "ff" * 31, "ee" + "ff" * 30 + "7f", "01" + "00" * 30 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
PREFIX = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of Ed25519


def pem(der):
    body = base64.encodebytes(der).decode().replace("\n", "")
    lines = [body[i : i + 64] for i in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""])


def message(body, kind="application/vnd.in-toto+json"):
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(body), body)


def sealed(directory, body, signature):
    found = {"payload": base64.b64encode(body).decode(), "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": base64.b64encode(signature).decode()}]}
    (directory / "attestation.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def key():
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def original(tmp_path_factory, takeset, tiny_dataset, key):
    root = tmp_path_factory.mktemp("signed")
    shutil.copytree(tiny_dataset, root / "out")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (root / "key.pem").write_bytes(key.private_bytes(*form))
    (root / "key.pub").write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    takeset("sign", root / "out", "--key", root / "key.pem", check=0)
    takeset("verify", root / "out", "--public-key", root / "key.pub", check=0)
    return root


@pytest.fixture
def signed(original, tmp_path):
    return shutil.copytree(original / "out", tmp_path / "out")


@pytest.mark.parametrize("point", SMALL)
def test_a_key_of_small_order_proves_nothing(takeset, signed, tmp_path, point):
    """For such a key R = identity, S = 0 is a signature of many messages, and nobody needs a private key."""
    (tmp_path / "key.pub").write_text(pem(PREFIX + bytes.fromhex(point)))
    body = json.loads((signed / "attestation.json").read_text())["payload"]
    sealed(signed, base64.b64decode(body), bytes([1] + [0] * 63))
    done = takeset("verify", signed, "--public-key", tmp_path / "key.pub")
    assert done.returncode == 64 and "small order" in done.stderr


def test_a_key_with_other_bytes_behind_it_is_refused(takeset, original, signed, tmp_path):
    der = base64.b64decode("".join((original / "key.pub").read_text().splitlines()[1:-1]))
    for behind in b"\0", b"more":
        (tmp_path / "key.pub").write_text(pem(der + behind))
        assert takeset("verify", signed, "--public-key", tmp_path / "key.pub").returncode == 64


@pytest.mark.parametrize("text", ["utf-16", "utf-16-le", "utf-32"])
def test_an_envelope_is_utf_8(takeset, original, signed, text):
    path = signed / "attestation.json"
    path.write_bytes(path.read_text().encode(text))
    done = takeset("verify", signed, "--public-key", original / "key.pub")
    assert done.returncode == 2 and "not a DSSE envelope" in done.stdout + done.stderr


@pytest.mark.parametrize("part", ["buildType", "internalParameters"])
def test_every_part_of_the_statement_is_compared(takeset, original, signed, key, part):
    body = json.loads(base64.b64decode(json.loads((signed / "attestation.json").read_text())["payload"]))
    build = body["predicate"]["buildDefinition"]
    assert part in build
    build[part] = "https://example.org/other" if part == "buildType" else {"split": {"rule": "other", "seed": 7}}
    text = json.dumps(body).encode()
    sealed(signed, text, key.sign(message(text)))
    done = takeset("verify", signed, "--public-key", original / "key.pub")
    assert done.returncode == 2 and part in done.stdout


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


@pytest.mark.parametrize("text", ["0.05", ".5", "5e-2", "1", "+0.5", "3."])
def test_usual_numbers_are_read(takeset, tiny_takes, tmp_path, text):
    (tmp_path / "p.yaml").write_text(f"\ufeffversion: 1\ntransforms: [{{align: {{tolerance: {text}}}}}]\n")
    takeset("plan", tiny_takes, "--pipeline", tmp_path / "p.yaml", check=0)


@pytest.mark.parametrize("condition", ["frames > 0x10", "frames > nan", "frames > 1_0", "seconds < inf", "frames > 010"])
def test_numbers_of_conditions_are_in_decimal_digits(takeset, tiny_dataset, tmp_path, condition):
    done = takeset("select", tiny_dataset, "--where", condition, "--output", tmp_path / "out")
    assert done.returncode == 64 and "expected a number" in done.stderr


# Exports


@pytest.mark.parametrize("arguments", [["zarr", "--keys", "pose,pose"], ["webdataset", "--name", "x" * 300], ["webdataset", "--name", "a\nb"]])
def test_options_that_no_file_can_hold_are_usage_errors(takeset, tiny_dataset, tmp_path, arguments):
    done = takeset("export", tiny_dataset, "--to", *arguments, "--output", tmp_path / "out")
    assert done.returncode == 64 and not (tmp_path / "out").exists(), done.stderr
