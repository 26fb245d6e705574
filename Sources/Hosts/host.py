"""The host of steps: Takeset starts it, and it calls the user's functions. docs/step-protocol.md has the protocol.

It reads messages from descriptor 3 and answers each; arrays are in the shared memory at descriptor 4. Both, and the confinement in which it runs, are there
before Python starts.
"""

import sys

sys.path[:] = [place for place in sys.path if place]  # The working directory is nobody's.

import errno
import gc
import hashlib
import importlib.abc
import importlib.util
import json
import math
import mmap
import os
import random
import resource
import struct
import types

CHANNEL, MEMORY, PROTOCOL = 3, 4, 1
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


class Files:
    """Digests of what steps read of their folders while they are loaded. Later, they may read only that and their `files`: other bytes are in no record."""

    def __init__(self):
        self.folder, self.digests, self.known, self.folders = None, {}, set(), []
        sys.addaudithook(self.hear)

    def hear(self, event, arguments):
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        file = os.path.realpath(os.fsdecode(arguments[0]))
        if file.endswith(".pyc"):
            try:
                file = importlib.util.source_from_cache(file)
            except ValueError:
                pass  # A module without its source.
        if file in self.known or not os.path.isfile(file):
            return
        if self.folder is not None and self.is_below(self.folder, file):
            self.known.add(file)
            with open(file, "rb") as opened:
                self.note(os.path.relpath(file, self.folder), opened.read())
        elif any(self.is_below(folder, file) for folder in self.folders):
            raise PermissionError(f"{os.path.basename(file)} is no part of the step; name it in its files")

    def note(self, name, content):
        self.digests[name] = hashlib.sha256(content).hexdigest()

    @staticmethod
    def is_below(folder, file):
        """Whether a file is of the folder, and not of an environment or a library in it."""
        inner = [place for place in (sys.prefix, *sys.path) if place.startswith(folder + os.sep)]
        return file.startswith(folder + os.sep) and not any(file.startswith(place + os.sep) for place in inner)


class Folder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of the step's folder, loaded from their source, after all others of the same name."""

    def __init__(self, path, files):
        self.path, self.files = path, files

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
        # By the name in the folder, where it is a link to another one, too.
        self.files.note(os.path.relpath(file, self.path), source)
        self.files.known.add(os.path.realpath(file))
        module.__file__ = file
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)


class Host:
    def __init__(self):
        self.steps, self.passes, self.said, self.shared, self.files = {}, {}, Said(), SharedMemory(), Files()

    def load(self, request):
        """Imports the files and describes the steps in them."""
        if request["protocol"] != PROTOCOL:
            raise Mistake("function", f"this host speaks version {PROTOCOL} of the protocol, not {request['protocol']}")
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
        described, known_files = [], set()
        for number, step in enumerate(request["steps"]):
            folder = Folder(os.path.dirname(step["file"]), self.files)
            self.files.folder, self.files.digests, self.files.known = os.path.realpath(folder.path), {}, {os.path.realpath(file) for file in step["files"]}
            sys.meta_path.append(folder)
            try:
                module = types.ModuleType(f"step_{number}")
                sys.modules[module.__name__] = module
                folder.run(step["file"], module)
            finally:
                sys.meta_path.remove(folder)
                # As it is named in tracebacks, and where it is.
                self.files.folders += [folder.path, self.files.folder]
            described.append(self.describe(step, module, self.files.digests))
            known_files |= self.files.known
            # Another step's folder may have modules of the same names.
            for name in [name for name, found in sys.modules.items() if isinstance(getattr(found, "__loader__", None), Folder)]:
                del sys.modules[name]
        self.files.folder, self.files.known = None, known_files
        self.limit(request.get("memory"))
        return {
            "python": ".".join(map(str, sys.version_info[:3])), "numpy": np.__version__, "steps": described,
            "distributions": self.distributions(set(sys.modules) - known) if request.get("describes") else {},
        }  # fmt: skip

    def describe(self, step, module, digests):
        found = {name: value for name, value in vars(module).items() if isinstance(getattr(value, "takeset_step", None), self.module.Step)}
        # One object may have several names.
        found = {name: value for name, value in found.items() if getattr(value, "__module__", None) == module.__name__}
        name, file, names = step.get("function"), os.path.basename(step["file"]), ", ".join(found)
        if not found:
            raise Mistake("function", f"{file} has no step; decorate a function by takeset.steps")
        if name is None and len(found) > 1:
            raise Mistake("function", f"{file} has the steps {names}; name one by function")
        name = name or names
        if name not in found:
            raise Mistake("function", f"{file} has no step {name}; it has {names}")
        declared, function = found[name].takeset_step, found[name]
        if isinstance(function, type) and function.__init__ is object.__init__:
            raise Mistake("function", f"the class {name} of {file} needs __init__(self, options, take), which is called for each take")
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
        # Random numbers are the same for each step and take, whatever the host has done before and between.
        random.seed(0)
        np.random.seed(0)
        called = function(options, take) if isinstance(function, type) else function
        self.passes[request["pass"]] = [called, declared, options, take, (random.getstate(), np.random.get_state())]
        return {}

    def reset(self, request):
        self.passes.clear()
        return {"nonce": request["nonce"], "kept": self.shared.reset(request["clears"])}

    def end(self, request):
        self.passes.pop(request["pass"], None)
        return {}

    def block(self, request):
        function, declared, options, take, (state, numpy_state) = self.passes[request["pass"]]
        random.setstate(state)
        np.random.set_state(numpy_state)
        answer = self.call(function, declared, options, take, request)
        self.passes[request["pass"]][-1] = random.getstate(), np.random.get_state()
        # Nothing but what the step keeps refers to the block now.
        return {**answer, **self.shared.end_block(request["inputs"])}

    def call(self, function, declared, options, take, request):
        count, inputs = request["rows"], self.shared.map(request["inputs"], mmap.PROT_READ)
        streams = {name: array(inputs, place) for name, place in request["streams"].items()}
        # Numbers are few: a step may change them, and to keep them keeps no block.
        streams = {name: values if values.ndim == 4 else values.copy() for name, values in streams.items()}
        valid = {name: array(inputs, place).astype(bool) for name, place in request["valid"].items()}
        time_ns = array(inputs, request["time_ns"]).copy()
        block = self.module.Block(streams, valid=valid, time_ns=time_ns, first=request["first"], options=options, take=take)
        result = function(block)
        if declared.kind == "labels":
            return {"labels": self.dictionary(result)}
        results = self.shared.map(request["results"], mmap.PROT_READ | mmap.PROT_WRITE)
        mask = np.ones(count, bool)
        if declared.kind == "rows" and isinstance(result, tuple):
            if len(result) != 2:
                raise Mistake("invalid", f"it returned a tuple of {len(result)}; expected an array, or (array, valid)")
            result, mask = result[0], self.truth(result[1], count, "valid")
        if declared.kind == "keep":
            mask = self.truth(result, count, "the result")
        else:
            self.store(result, mask, declared.writes, array(results, request["result"]))
        array(results, request["mask"])[...] = mask
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

    def store(self, values, mask, output, target):
        values = np.asarray(values)
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


class Mapped:
    """A part of the shared memory."""

    def __init__(self, place, access):
        self.map = mmap.mmap(MEMORY, place["bytes"], flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=access, offset=place["offset"])
        self.unused = self.references()

    def references(self):
        return sys.getrefcount(self.map)

    def is_kept(self):
        """Whether an array refers to it."""
        return self.references() != self.unused


class SharedMemory:
    """Maps of places in the memory, by their offsets and what may be done there. They stay, because later blocks often have the same places.

    A step may keep arrays that it gets. Their map is then referred to, and the place gets no other block until it is not.
    """

    def __init__(self):
        self.mapped, self.kept = {}, {}

    def map(self, place, access):
        key = place["offset"], access
        if key not in self.mapped or len(self.mapped[key].map) != place["bytes"]:
            self.mapped[key] = Mapped(place, access)
        return self.mapped[key].map

    def end_block(self, place):
        """Whether the step keeps something of what it got there, and the offsets of earlier blocks of which it does not any more."""
        free = [key for key, mapped in self.kept.items() if not mapped.is_kept()]
        for key in free:
            self.mapped[key] = self.kept.pop(key)
        own = place["offset"], mmap.PROT_READ
        answer = {"free": [offset for offset, _ in free]} if free else {}
        if self.mapped[own].is_kept():
            self.kept[own] = self.mapped.pop(own)
            answer["kept"] = True
        return answer

    def reset(self, clears):
        """Forgets the maps if the memory is cleared. Returns whether something of it is still kept, by whatever a take has left."""
        self.mapped.update(self.kept)
        self.kept.clear()
        # A step that has raised an exception may keep something as well, and what only refers to itself is kept by nobody.
        if kept := self.is_kept():
            gc.collect()
            kept = self.is_kept()
        if clears or kept:
            self.mapped.clear()
        return kept

    def is_kept(self):
        return any(mapped.is_kept() for mapped in self.mapped.values())


def array(shared, place):
    return np.frombuffer(shared, np.dtype(place["type"]), math.prod(place["shape"]), place["offset"]).reshape(place["shape"])


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


def hint(error, folders):
    """What to do about an error that the surroundings of steps cause."""
    if isinstance(error, PermissionError) and error.errno:
        return "; a step reads only its folder and its files, writes nothing, and reaches no network and no other program"
    if isinstance(error, ValueError) and "read-only" in str(error):
        return "; images and depth maps of a block are: change a copy(), such as block.camera_image.copy()"
    if isinstance(error, ModuleNotFoundError) and any(os.path.exists(os.path.join(folder, f"{error.name}.py")) for folder in folders):
        return f"; import {error.name} at the top of the step's file"
    return ""


def failure(error, folders):
    """The error as data: its kind, type and text, and the last line of the user's code on the way to it."""
    found = {"kind": getattr(error, "kind", "exception"), "type": type(error).__name__, "text": str(error) + hint(error, folders)}
    if isinstance(error, MemoryError) or isinstance(error, OSError) and error.errno == errno.ENOMEM:
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
            answer = {"error": failure(error, host.files.folders)}
            error.__traceback__ = None
        text = host.said.take()
        if text:
            answer["said"] = text
        send(answer)


main()
