import CLinux
import CSandbox
import Datasets
import Evidence
import Foundation
import Hosts
import Media
import Model
import Steps

/// The conversion of takes in processes of their own, for `IsolatedConversion`.
package enum ConversionChild {
  /// Serves a `ForkServer`: prepares the conversion of one take after the other, and forks a child for each. Never returns.
  package static func run() -> Never {
    var conversion: TakeConversion?
    while true {
      let number = csandbox_next_request()
      let request = Result {
        let request = try JSONDecoder().decode(ConversionRequest.self, from: MemoryFile(number).contents())
        if conversion?.digest != request.digest || conversion?.context.keys?.text != request.keys {
          conversion = try Self.conversion(request)
        }
        // Movies need it. Where it cannot be loaded, the child tries again and says so.
        if Registry.reader(request.task.reader.name)?.needsFFmpeg ?? true { try? FFmpeg.prepare() }
        return request
      }
      if csandbox_become_child() == 1 { convert(request, conversion) }
    }
  }

  /// Gives up every right that the conversion does not need, converts, and leaves the results. Never returns.
  private static func convert(_ request: Result<ConversionRequest, any Error>, _ conversion: TakeConversion?) -> Never {
    clinux_end_with_parent()
    let code: Int32
    do {
      let request = try request.get()
      // Had the parent ended already, nothing would end this process with it.
      guard getppid() == request.parent, var conversion else { _exit(ConversionExit.internal) }
      try confine(request, mapped: mappedBytes)
      if let environment = request.environment {
        let (connection, memory) = ConversionRequest.hostDescriptors
        conversion.context.hosts = StepHosts(connection: connection, memory: memory, environment: environment)
      }
      if request.asksForTime == true {
        try MemoryFile(ConversionRequest.resultDescriptor).write(JSONEncoder().encode(UnixSpan.Answer(of: request.task)))
        _exit(ConversionExit.done)
      }
      let results = try conversion(request.task, in: request.directory, threads: request.threads)
      if results.contains(where: { $0.record.outcome == .failed }), isShortOfMemory(request) {
        // A decoder without memory may call its input damaged.
        code = say("out of memory", ConversionExit.internal)
      } else {
        try MemoryFile(ConversionRequest.resultDescriptor).write(ConversionAnswer.encode(results))
        code = ConversionExit.done
      }
    } catch let failure as OutputFailure {
      code = say(failure.message, ConversionExit.output)
    } catch {
      code = say("\(error)", ConversionExit.internal)
    }
    // Destructors and exit handlers of libraries have nothing left to do.
    _exit(code)
  }

  private static func say(_ message: String, _ code: Int32) -> Int32 {
    try? FileHandle.standardError.write(contentsOf: Data(message.utf8))
    return code
  }

  private static func conversion(_ request: ConversionRequest) throws -> TakeConversion {
    let keys = try request.keys.map { try DeviceKeys(Array($0.utf8), name: "keys") }
    let conversion = TakeConversion(
      pipeline: try PipelineFile.pipeline(from: request.pipeline),
      tool: ToolIdentity(version: request.toolVersion, revision: request.toolRevision), context: RunContext(keys: keys))
    guard conversion.digest == request.digest else {
      throw TakeFailure(.internal, "the pipeline of a child process has digest \(conversion.digest), not \(request.digest)")
    }
    return conversion
  }

  /// Bytes of address space in use: by the program and what the server has loaded, for whichever take.
  private static var mappedBytes: Int64 {
    let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ").first.flatMap { Int64($0) }
    return (pages ?? 0) * Int64(sysconf(Int32(_SC_PAGESIZE)))
  }

  private static func confine(_ request: ConversionRequest, mapped: Int64) throws {
    func check(_ code: Int32, _ what: String) throws {
      // What a kernel does not offer is reported by the parent; everything else must succeed.
      guard code == 0 || code == ENOSYS || code == EOPNOTSUPP else {
        throw OutputFailure("a child process cannot be confined (\(what)): \(String(cString: strerror(code)))")
      }
    }
    try check(csandbox_limit(request.memory + request.reserve + mapped, request.processorSeconds), "limits")
    try check(csandbox_drop_capabilities(), "rights")
    let readable = request.readable + libraries()
    try check(
      withCStrings(readable) { readable, count in
        withCStrings([request.directory, "/dev/null"]) { csandbox_allow_files(readable, count, $0, $1, 0) }
      }, "files")
    try check(csandbox_deny_system_calls(0), "system calls")
  }

  /// Whether little of the memory was left at some time.
  private static func isShortOfMemory(_ request: ConversionRequest) -> Bool {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0,
      let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
      let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmPeak:") }),
      let kibibytes = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap({ rlim_t($0) })
    else { return false }
    // Neither the reserve of the threads nor what was loaded before is a sign of it.
    return kibibytes << 10 > limit.rlim_cur - min(rlim_t(request.memory), limit.rlim_cur) / 4
  }

  /// Returns the files that the system's libraries read: themselves, when they are first used, and time zones.
  private static func libraries() -> [String] {
    var found: Set<String> = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/proc/self"]
    // Installed elsewhere, libraries are next to those that are loaded already.
    for line in (try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8))?.split(separator: "\n") ?? [] {
      guard let start = line.firstIndex(of: "/") else { continue }
      let file = URL(fileURLWithPath: String(line[start...]))
      let name = file.lastPathComponent
      if name.hasSuffix(".so") || name.contains(".so.") { found.insert(file.deletingLastPathComponent().path) }
    }
    return found.sorted()
  }

  private static func withCStrings(_ texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?, Int32) -> Int32) -> Int32 {
    let copies = texts.map { strdup($0) }
    defer { copies.forEach { free($0) } }
    return copies.map { UnsafePointer($0) }.withUnsafeBufferPointer { body($0.baseAddress, Int32($0.count)) }
  }
}

/// A file that exists in memory only and never grows, by which two processes exchange a message; they share its position.
struct MemoryFile {
  let descriptor: Int32
  private let size: Int

  /// The file of another process, which may be trusted.
  init(_ descriptor: Int32) { (self.descriptor, size) = (descriptor, .max) }

  /// - Parameter size: The most that can be written to it, in bytes. What is not written takes no memory.
  ///
  /// Throws `FileError`.
  init(size: Int) throws {
    // A limit of the user on the size of files counts for those in memory too.
    var limit = rlimit()
    let isLimited = getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 && limit.rlim_cur < size
    self.size = isLimited ? Int(limit.rlim_cur) : size
    descriptor = csandbox_memory_file(Int64(self.size))
    guard descriptor >= 0 else { throw FileError("make a file in", "memory") }
  }

  func close() { _ = Foundation.close(descriptor) }

  func write(_ data: Data) throws {
    try data.withUnsafeBytes { try SealedFile.append($0, to: descriptor, path: "memory") }
  }

  /// Returns the text that was written, or its end if it is longer than `limit` bytes.
  func contents(limit: Int = .max) throws -> Data {
    // A process that was taken over may have set the position to any number.
    let end = min(Int(lseek(descriptor, 0, SEEK_CUR)), size)
    guard end >= 0 else { throw FileError("read", "memory") }
    let start = max(0, end - limit)
    var data = Data(count: end - start)
    let count = data.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(start)) }
    guard count == data.count else { throw FileError("read", "memory") }
    return data
  }
}
