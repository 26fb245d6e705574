"""The host of steps: Takeset starts it, and it calls the user's functions. docs/steps.md has the protocol.

It reads messages from descriptor 3 and answers each; arrays are in the shared memory at descriptor 4. Both, and the confinement in which it runs, are there
before Python starts.
"""

import sys

sys.path[:] = [place for place in sys.path if place]  # The working directory is nobody's.

import hashlib
import importlib.abc
import importlib.util
import json
import mmap
import os
import random
import resource
import struct
import types

CHANNEL, MEMORY = 3, 4
MOST_WORDS = 1 << 16  # characters that a step may print for each call


class Said:
    """What a step prints, up to a limit."""

    encoding, errors = "utf-8", "replace"

    def __init__(self):
        self.parts, self.left, self.lost = [], MOST_WORDS, 0

    def write(self, text):
        text = str(text)
        if self.left > 0:
            self.parts.append(text[: self.left])
        self.lost += max(0, len(text) - max(self.left, 0))
        self.left -= len(text)
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False

    def take(self):
        text = "".join(self.parts) + (f"\n... and {self.lost} characters more" if self.lost else "")
        self.__init__()
        return text


class Mistake(Exception):
    """A sentence about the step, with the kind of the mistake."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Folder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of the step's folder, loaded from their source, after all others of the same name. Their bytes are digested."""

    def __init__(self, path):
        self.path, self.digests = path, {}

    def find_spec(self, name, path=None, target=None):
        base = os.path.join(self.path, *name.split("."))
        for file, places in ((os.path.join(base, "__init__.py"), [base]), (base + ".py", None)):
            if os.path.isfile(file):
                spec = importlib.util.spec_from_loader(name, self, origin=file, is_package=places is not None)
                spec.has_location = True
                if places:
                    spec.submodule_search_locations = places
                return spec
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.run(module.__spec__.origin, module)

    def run(self, file, module):
        with open(file, "rb") as opened:
            source = opened.read()
        self.digests[os.path.relpath(file, self.path)] = hashlib.sha256(source).hexdigest()
        module.__file__ = file
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)


class Host:
    def __init__(self):
        self.steps, self.folders, self.passes, self.said = {}, [], {}, Said()

    def load(self, request):
        """Imports the files and describes the steps in them."""
        try:
            import numpy
        except ImportError as error:
            raise Mistake("numpy", str(error)) from None
        global np
        np = numpy
        known = set(sys.modules)
        package = types.ModuleType("takeset")
        package.__path__ = []
        steps = types.ModuleType("takeset.steps")
        package.steps = steps
        sys.modules.update({"takeset": package, "takeset.steps": steps})
        exec(compile(request["module"], "takeset/steps.py", "exec", dont_inherit=True), steps.__dict__)
        self.module = steps
        described = []
        for number, step in enumerate(request["steps"]):
            folder = Folder(os.path.dirname(step["file"]))
            self.folders.append(folder.path)
            sys.meta_path.append(folder)
            try:
                module = types.ModuleType(f"step_{number}")
                sys.modules[module.__name__] = module
                folder.run(step["file"], module)
            finally:
                sys.meta_path.remove(folder)
            described.append(self.describe(step, module, folder.digests))
            # Another step's folder may have modules of the same names.
            for name in [name for name, found in sys.modules.items() if isinstance(getattr(found, "__loader__", None), Folder)]:
                del sys.modules[name]
        self.limit(request.get("memory"))
        return {
            "python": ".".join(map(str, sys.version_info[:3])), "numpy": np.__version__, "steps": described,
            "distributions": self.distributions(set(sys.modules) - known) if request.get("describes") else {},
        }  # fmt: skip

    def describe(self, step, module, digests):
        found = {name: value for name, value in vars(module).items() if isinstance(getattr(value, "takeset_step", None), self.module.Step)}
        # One object may have several names.
        found = {name: value for name, value in found.items() if getattr(value, "__module__", None) == module.__name__}
        name = step.get("function")
        if name is None:
            if len(found) != 1:
                names = ", ".join(found)
                raise Mistake("function", f"it has the steps {names}; name one by function" if found else "it has no step; decorate a function by takeset.steps")
            name = next(iter(found))
        if name not in found:
            raise Mistake("function", f"it has no step {name}" + (f"; it has {', '.join(found)}" if found else "; decorate a function by takeset.steps"))
        declared, function = found[name].takeset_step, found[name]
        self.steps[step["key"]] = (function, declared, step.get("options") or {})
        members = {"kind": declared.kind, "function": name, "reads": [str(stream) for stream in declared.reads], "digests": digests}
        if declared.reason is not None:
            members["reason"] = str(declared.reason)
        output = declared.writes
        if output is not None:
            members["writes"] = {"kind": type(output).__name__.lower(), "name": str(output.name)}
            if isinstance(output, self.module.Vector):
                members["writes"].update(elements=[str(element) for element in output.elements], unit=str(output.unit))
            elif output.size is not None:
                members["writes"]["size"] = [int(side) for side in output.size]
        return members

    def distributions(self, names):
        """Versions of the packages that the steps have imported."""
        import importlib.metadata

        tops = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"takeset"}
        owners = importlib.metadata.packages_distributions() if any(not top.startswith("step_") for top in tops) else {}
        wanted = {owner for top in tops for owner in owners.get(top, ())}
        return {owner: importlib.metadata.version(owner) for owner in sorted(wanted) if owner.lower() != "numpy"}

    def limit(self, memory):
        if memory:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * mmap.PAGESIZE
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            wanted = used + memory
            if hard == resource.RLIM_INFINITY or wanted < hard:
                resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted))

    def begin(self, request):
        function, declared, options = self.steps[request["step"]]
        take = self.module.Take(request["take"]["id"], request["take"]["reader"])
        options = json.loads(json.dumps(options))
        # Random numbers are the same for each take, whatever the host has done before.
        random.seed(0)
        np.random.seed(0)
        self.passes[request["pass"]] = [function(options, take) if isinstance(function, type) else function, declared, options, take]
        return {}

    def reset(self, request):
        self.passes.clear()
        return {"nonce": request["nonce"]}

    def end(self, request):
        self.passes.pop(request["pass"], None)
        return {}

    def block(self, request):
        function, declared, options, take = self.passes[request["pass"]]
        count = request["rows"]
        with Shared(request["offset"], request["bytes"]) as shared:
            streams = {name: shared.array(place) for name, place in request["streams"].items()}
            valid = {name: shared.array(place).astype(bool) for name, place in request["valid"].items()}
            block = self.module.Block(
                streams, valid=valid, time_ns=shared.array(request["time_ns"]), first=request["first"], options=options, take=take
            )
            result = function(block)
            if declared.kind == "labels":
                return {"labels": self.dictionary(result)}
            mask = np.ones(count, bool)
            if declared.kind == "rows" and isinstance(result, tuple):
                if len(result) != 2:
                    raise Mistake("invalid", f"it returned a tuple of {len(result)}; expected an array, or (array, valid)")
                result, mask = result[0], self.truth(result[1], count, "valid")
            if declared.kind == "keep":
                mask = self.truth(result, count, "the result")
            else:
                self.store(result, mask, declared.writes, request["result"], shared)
            shared.place(request["mask"])[...] = mask
        return {}

    def dictionary(self, labels):
        if not isinstance(labels, dict):
            raise Mistake("invalid", f"it returned {type(labels).__name__}; expected a dictionary of labels")

        def plain(value):
            if isinstance(value, np.generic):
                return value.item()
            raise Mistake("invalid", f"a label is a {type(value).__name__}; expected text, numbers, truth values, lists and dictionaries of these")

        try:
            return json.loads(json.dumps(labels, default=plain, allow_nan=False))
        except (ValueError, TypeError) as error:
            raise Mistake("invalid", f"its labels cannot be recorded: {error}") from None

    def truth(self, values, count, what):
        values = np.asarray(values)
        if values.shape != (count,) or values.dtype != bool:
            raise Mistake("invalid", f"{what} is {words(values)}; expected ({count},) bool")
        return values

    def store(self, values, mask, output, place, shared):
        values, target = np.asarray(values), shared.place(place)
        if isinstance(output, self.module.Vector):
            if target.shape[1] == 1 and values.shape == target.shape[:1]:
                values = values[:, None]
            if values.shape != target.shape or values.dtype.kind not in "fiub":
                raise Mistake("invalid", f"it returned {words(values)}; expected {target.shape} numbers for {output.name}")
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
            bad = mask & ~np.isfinite(values).all(axis=1)
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise Mistake("invalid", f"{output.name} is {values[row].tolist()} in row {row} of the block, which is said to be valid; return (array, valid) with False there")
            target[...] = np.where(mask[:, None], values, np.float32(np.nan))
            return
        if values.shape != target.shape or values.dtype != np.uint8:
            raise Mistake("invalid", f"it returned {words(values)}; expected {target.shape} uint8 for {output.name}")
        target[...] = values
        target[~mask] = 0


class Shared:
    """A range of the shared memory, for one block."""

    def __init__(self, offset, length):
        self.map = mmap.mmap(MEMORY, length, offset=offset)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # A view that lives on keeps the map; no other block is ever in it.
        try:
            self.map.close()
        except BufferError:
            pass

    def place(self, place):
        count = int(np.prod(place["shape"]))
        return np.frombuffer(self.map, np.dtype(place["type"]), count, place["offset"]).reshape(place["shape"])

    def array(self, place):
        # A copy, which the step may keep and change.
        return self.place(place).copy()


def words(values):
    return f"{values.shape} {values.dtype}"


def receive():
    def exactly(count):
        parts = []
        while count:
            part = os.read(CHANNEL, count)
            if not part:
                os._exit(0)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    (length,) = struct.unpack("<I", exactly(4))
    return json.loads(exactly(length))


def send(answer):
    body = json.dumps(answer).encode()
    message = struct.pack("<I", len(body)) + body
    while message:
        message = message[os.write(CHANNEL, message) :]


def failure(error, folders):
    """The error as data: its kind, type and text, and the last line of the user's code on the way to it."""
    found = {"kind": getattr(error, "kind", "exception"), "type": type(error).__name__, "text": str(error)}
    if isinstance(error, MemoryError):
        found["kind"] = "memory"
    if isinstance(error, SyntaxError):
        found.update(kind="syntax", text=error.msg or "", file=error.filename, line=error.lineno)
        return found
    if isinstance(error, ImportError) and found["kind"] == "exception":
        found["kind"] = "import"
    trace = error.__traceback__
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if any(os.path.dirname(file) == folder or file.startswith(folder + os.sep) for folder in folders):
            found.update(file=file, line=trace.tb_lineno)
        trace = trace.tb_next
    return found


def main():
    host = Host()
    sys.stdout = sys.stderr = host.said
    actions = {"load": host.load, "reset": host.reset, "begin": host.begin, "block": host.block, "end": host.end}
    while True:
        request = receive()
        try:
            # What is loaded is loaded once: a process that decodes a stranger's take sends messages too.
            answer = (actions.pop if request["do"] == "load" else actions.get)(request["do"])(request)
        except BaseException as error:  # A step that calls sys.exit ends no host.
            answer = {"error": failure(error, host.folders)}
            error.__traceback__ = None
        text = host.said.take()
        if text:
            answer["said"] = text
        send(answer)


main()
