"""The JSON schemas of the manifest and of pipelines, and the layout of an episode as plans and records describe it."""

import json

from command import ROOT
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

SCHEMAS = {name: json.loads((ROOT / "schemas" / name).read_text()) for name in ("manifest.schema.json", "pipeline.schema.json")}
REGISTRY = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items())


def validator(name):
    return Draft202012Validator(SCHEMAS[name], registry=REGISTRY)


STATISTICS = "/meta/demo_0/statistics"  # as long as the values are many, which a plan cannot know


def layout(found, without=None):
    """The datasets of a plan or a record."""
    return sorted([d[k] for k in ("path", "dtype", "shape", "chunk", "filters")] for d in found["datasets"] if d["path"] != without)
