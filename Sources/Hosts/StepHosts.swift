import CSandbox
package import Evidence
import Foundation
import Model
import Synchronization

/// The processes that call the steps of a pipeline in Python. Each serves one take at a time and then the next one; they can read only Python's own
/// folders and those of the steps, write nothing, and have no network.
package final class StepHosts: Sendable {
  private enum Source: Sendable {
    /// Started when they are needed.
    case started(Interpreter, [Program], memory: Int64, seconds: Int)
    /// The one that the parent process has for this take.
    case given(StepHost)
  }

  private let source: Source
  private let idle = Mutex<[StepHost]>([])
  private let known = Mutex<(environment: JSONValue?, steps: JSONValue?)>((nil, nil))

  /// Versions of Python, of NumPy and of the packages that the steps have imported, once they are described.
  package var environment: JSONValue? { known.withLock { $0.environment } }

  /// A file with steps, and one that is to be called.
  package struct Program: Sendable {
    /// What the calls name it by.
    package var key: String
    /// The absolute path of its file.
    package var file: String
    package var function: String?
    package var options: JSONValue
    /// Absolute paths of the files that it reads.
    package var files: [String]

    package init(key: String, file: String, function: String?, options: JSONValue, files: [String]) {
      (self.key, self.file, self.function, self.options, self.files) = (key, file, function, options, files)
    }
  }

  /// - Parameter memory: Bytes that a step may use beyond what its host has loaded.
  /// - Parameter seconds: The longest time for one take.
  package init(_ interpreter: Interpreter, _ programs: [Program], memory: Int64, seconds: Int) {
    source = .started(interpreter, programs, memory: memory, seconds: seconds)
  }

  /// Uses the host behind descriptors of a parent process, which knows its environment.
  package init(connection: Int32, memory: Int32, environment: JSONValue?) {
    source = .given(StepHost(connection: connection, memory: memory))
    known.withLock { $0.environment = environment }
  }

  /// The connection to a host and its memory, for a process that is to use it.
  package static func descriptors(of host: StepHost) -> [Int32] { host.share() }

  /// Takes a host for one take. Throws `StepMistake` where none can be started.
  package func take() throws -> StepHost {
    switch source {
    case .given(let host): return host
    case .started(let interpreter, let programs, let memory, let seconds):
      while let host = idle.withLock({ $0.popLast() }) { if host.begin(seconds: seconds) { return host } }
      let host = try Self.start(interpreter, programs, memory)
      let description = try Self.load(host, programs, memory, by: interpreter.executable, describes: false)
      guard known.withLock({ $0.steps == nil || $0.steps == description["steps"] }) else {
        throw StepMistake("the files of its steps in Python have changed since the command began; start it again")
      }
      guard host.begin(seconds: seconds) else { throw StepMistake("\(interpreter.executable) ended before the first step") }
      return host
    }
  }

  /// Gives a host back for other takes; one that is in the middle of a call is to be dropped instead.
  package func give(_ host: StepHost) {
    guard case .started = source else { return }
    idle.withLock { $0.append(host) }
  }

  /// Loads the files and returns what each of the programs declares.
  ///
  /// - Throws: `StepMistake`, with the file and line where there is one.
  package func describe() throws -> [JSONValue] {
    guard case .started(let interpreter, let programs, let memory, _) = source else { return [] }
    let host = try Self.start(interpreter, programs, memory)
    let description = try Self.load(host, programs, memory, by: interpreter.executable, describes: true)
    idle.withLock { $0.append(host) }
    known.withLock { known in
      known.environment = .object((description.object ?? [:]).filter { ["python", "numpy", "distributions"].contains($0.key) })
      known.steps = description["steps"]
    }
    return description["steps"]?.array ?? []
  }

  private static func load(
    _ host: StepHost, _ programs: [Program], _ memory: Int64, by executable: String, describes: Bool
  ) throws -> JSONValue {
    let module = String(decoding: PackageResources.steps_py, as: UTF8.self)
    do {
      return try host.call([
        "do": "load", "protocol": 1, "module": .string(module), "memory": .integer(memory), "describes": .bool(describes),
        "steps": .array(
          programs.map {
            [
              "key": .string($0.key), "file": .string($0.file), "function": JSONValue($0.function), "options": $0.options,
              "files": .array($0.files.map { .string($0) }),
            ]
          }),
      ])
    } catch let failure as StepHost.Failure {
      // Whose packages these are is the likeliest mistake.
      let whose = failure.kind == .import ? "; this is \(executable): name another by --python or TAKESET_PYTHON" : ""
      throw StepMistake(failure.sentence + whose)
    } catch let failure as TakeFailure {
      throw StepMistake(failure.message)
    }
  }

  private static func start(_ interpreter: Interpreter, _ programs: [Program], _ memory: Int64) throws -> StepHost {
    let file = csandbox_memory_file(Int64(SharedMemory.size))
    guard file >= 0 else { throw StepMistake("no memory can be shared with Python: \(String(cString: strerror(errno)))") }
    let files = programs.map { URL(fileURLWithPath: $0.file) }
    // A step may be a link to a file elsewhere.
    let own = files.map { $0.deletingLastPathComponent().path } + files.map { $0.resolvingSymlinksInPath().path }
    let readable = interpreter.folders + [interpreter.executable] + own + programs.flatMap(\.files) + systemFiles
    // Hash seeds and threads are the same each time; nothing of the user's environment changes what a step gives.
    let environment = [
      "PYTHONHASHSEED=0", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1", "LC_ALL=C.UTF-8", "OMP_NUM_THREADS=1",
      "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1", "VECLIB_MAXIMUM_THREADS=1", "OPENCV_FOR_THREADS_NUM=1",
    ]
    let arguments = [interpreter.executable, "-s", "-c", String(decoding: PackageResources.host_py, as: UTF8.self)]
    // Python's libraries reserve address space while they load.
    let reserve: Int64 = 8 << 30
    let (executable, limit) = (interpreter.executable, memory + reserve)
    let (code, process, connection) = StepLauncher.shared.run {
      var (process, connection): (pid_t, Int32) = (0, -1)
      let code = withCStrings(arguments) { arguments, _ in
        withCStrings(environment) { environment, _ in
          withCStrings(readable) { readable, count in
            readable.withMemoryRebound(to: UnsafePointer<CChar>?.self, capacity: Int(count)) {
              csandbox_start_program(
                executable, arguments, environment, file, limit, $0, count, &process, &connection)
            }
          }
        }
      }
      return (code, process, connection)
    }
    guard code == 0 else {
      close(file)
      throw StepMistake("\(interpreter.executable) cannot be started: \(String(cString: strerror(code)))")
    }
    return StepHost(connection: connection, memory: file, process: process)
  }

  /// What libraries of the system read.
  private static let systemFiles = [
    "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
  ]

  private static func withCStrings<Result>(
    _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, Int32) -> Result
  ) -> Result {
    var copies = texts.map { strdup($0) } + [nil]
    defer { copies.forEach { free($0) } }
    return copies.withUnsafeMutableBufferPointer { body($0.baseAddress!, Int32(texts.count)) }
  }
}

extension StepHost.Failure {
  /// The failure in words: `ZeroDivisionError: division by zero (width.py:12)`.
  package var sentence: String {
    let place = file.map { " (\(URL(fileURLWithPath: $0).lastPathComponent)\(line.map { ":\($0)" } ?? ""))" } ?? ""
    switch kind {
    case .invalid, .function: return text + place
    case .numpy:
      return "NumPy cannot be imported (\(text)); steps in Python need it: pip install numpy in the environment whose python is named"
    case .syntax, .import, .exception, .memory: return "\(type)\(text.isEmpty ? "" : ": ")\(text)\(place)"
    }
  }
}

/// A thread that lives as long as this process, because a host ends with the thread that has started it.
private final class StepLauncher: @unchecked Sendable {
  static let shared = StepLauncher()
  private let condition = NSCondition()
  private var work: [@Sendable () -> Void] = []

  private init() {
    let thread = Thread { [self] in
      while true {
        condition.lock()
        while work.isEmpty { condition.wait() }
        let next = work.removeFirst()
        condition.unlock()
        next()
      }
    }
    thread.name = "takeset-launcher"
    thread.start()
  }

  /// Returns what `body` returns on that thread.
  func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) -> Value {
    let answer = Answer<Value>()
    condition.lock()
    work.append {
      answer.value.withLock { $0 = body() }; answer.isThere.signal()
    }
    condition.signal()
    condition.unlock()
    while true {
      answer.isThere.wait()
      if let value = answer.value.withLock({ $0 }) { return value }
    }
  }

  private final class Answer<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
    let isThere = DispatchSemaphore(value: 0)
  }
}
