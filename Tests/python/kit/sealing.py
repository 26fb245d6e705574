"""Datasets that somebody has changed and given digests of the change, so that commands read them."""

import hashlib
import json

import h5py
from outputs import canonical


def rewrite(directory, change):
    """Changes the record of a manifest, and gives it the digests of the change."""
    path = directory / "manifest.json"
    found = json.loads(path.read_text())
    change(found["record"])
    record, run = canonical(found["record"]), canonical(found["run"])
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (record, run)]
    path.write_text(f'{{\n"record":\n{record},\n"record_sha256":"{digests[0]}",\n"run":{run},\n"run_sha256":"{digests[1]}"\n}}\n')


def structure(shard):
    """SHA-256 of the bytes that belong to no chunk."""
    chunks = []

    def note(_, item):
        if isinstance(item, h5py.Dataset) and item.chunks:
            found = [item.id.get_chunk_info(n) for n in range(item.id.get_num_chunks())]
            chunks.extend((c.byte_offset, c.size) for c in found)

    with h5py.File(shard) as f:
        f.visititems(note)
    data, position, digest = shard.read_bytes(), 0, hashlib.sha256()
    for offset, size in sorted(chunks):
        digest.update(data[position:offset])
        position = offset + size
    digest.update(data[position:])
    return digest.hexdigest()


def recorded(shard, arrays):
    """The records of a shard's arrays, with those of arrays that were added to it."""
    found = {array["path"]: array for array in arrays}

    def note(name, item):
        if isinstance(item, h5py.Dataset) and "/row_sha256/" not in name and f"/{name}" not in found:
            found[f"/{name}"] = {
                "path": f"/{name}", "dtype": item.dtype.str, "shape": list(item.shape), "chunk": item.chunks and list(item.chunks),
                "filters": [], "sha256": "0" * 64, "sha256_of": "bytes"}

    with h5py.File(shard) as f:
        f.visititems(note)
    return [found[path] for path in sorted(found)]


def seal(dataset, *takes):
    """Gives the manifest the sizes, the arrays and the structure's digests of changed shards, of all without names."""
    def change(record):
        for take in record["takes"]:
            if take["outcome"] == "written" and (not takes or take["id"] in takes):
                shard = dataset / take["output"]["path"]
                arrays = recorded(shard, take["output"]["datasets"])
                take["output"].update(bytes=shard.stat().st_size, structure_sha256=structure(shard), datasets=arrays)

    rewrite(dataset, change)
