import CSandbox
package import Evidence
import Foundation
import Model
import Synchronization

/// A connection to a host, a process that calls the steps of a pipeline. One message at a time is sent and answered.
///
///     let answer = try host.call(["do": "begin", "pass": 1, "step": "…", "take": ["id": "take-1", "reader": "stray-scanner"]])
package final class StepHost: Sendable {
  package let memory: SharedMemory
  let connection: Int32
  /// The host's process; `nil` in a process that only uses it.
  let process: pid_t?
  private let state = Mutex(State())

  private struct State {
    /// No answer is to be expected any more.
    var isBroken = false
    /// Another process has used the memory.
    var isShared = false
    var passes: Int64 = 0
    var deadline: SuspendingClock.Instant?
    var said = ""
  }

  /// What the host says of a step that failed.
  package struct Failure: Error, Sendable {
    package enum Kind: String, Sendable { case exception, memory, invalid, syntax, `import`, function, numpy }
    package var kind: Kind
    /// The exception's type and text.
    package var type: String
    package var text: String
    /// The last line of the user's code on the way to it.
    package var file: String?
    package var line: Int64?
  }

  /// Most bytes of an answer.
  private static let answerLimit = 1 << 24
  /// Most characters of a take that are kept of what steps print.
  private static let saidLimit = 1 << 16

  init(connection: Int32, memory: Int32, process: pid_t? = nil) {
    (self.connection, self.process) = (connection, process)
    self.memory = SharedMemory(memory)
  }

  deinit {
    close(connection)
    memory.forget()
    guard let process else { return }
    kill(-process, SIGKILL)
    var (status, peak): (Int32, Int64) = (0, 0)
    var waits = 20
    while waits > 0, csandbox_wait(process, 50, &status, &peak) == 0 { waits -= 1 }
  }

  /// The number of the next pass over a take.
  package func nextPass() -> Int64 {
    state.withLock { state in
      state.passes += 1
      return state.passes
    }
  }

  /// What steps have printed since the last call.
  package func takeSaid() -> String {
    state.withLock { state in
      defer { state.said = "" }
      return state.said
    }
  }

  /// Sends a message and waits for its answer.
  ///
  /// - Throws: `Failure` of the step; `TakeFailure` where the host has ended or the time for the take is up.
  package func call(_ request: JSONValue) throws -> JSONValue {
    let answer = try state.withLock { state -> JSONValue in
      if state.isBroken { throw Self.ended }
      // It is sound again once the answer is complete.
      state.isBroken = true
      let answer = try exchange(request, state.deadline)
      state.isBroken = false
      if let said = answer["said"]?.string, state.said.count < Self.saidLimit { state.said += said }
      return answer
    }
    guard let error = answer["error"] else { return answer }
    throw Failure(
      kind: error["kind"]?.string.flatMap { Failure.Kind(rawValue: $0) } ?? .exception, type: error["type"]?.string ?? "Exception",
      text: error["text"]?.string ?? "", file: error["file"]?.string, line: error["line"]?.integer)
  }

  /// Forgets what an earlier take has left. Returns whether the host answers as it should.
  func begin(seconds: Int) -> Bool {
    let nonce = JSONValue.integer(Int64.random(in: 0..<1 << 52))
    memory.forget()
    let clears = state.withLock { state in
      // Whatever another process has left on the connection.
      state.deadline = SuspendingClock.now + .seconds(min(seconds, 60))
      // What is mapped already is faster, and what another process has left is nobody else's.
      defer { state.isShared = false }
      return state.isShared || memory.used > Self.memoryKept
    }
    if clears { memory.clear() }
    let answer = try? call(["do": "reset", "nonce": nonce, "clears": .bool(clears)])
    state.withLock { $0.deadline = SuspendingClock.now + .seconds(seconds) }
    return answer?["nonce"] == nonce && answer?["kept"] == .bool(false)
  }

  /// The connection and the memory, for a process that is to use the host for one take. What other takes have left is not for its eyes.
  func share() -> [Int32] {
    state.withLock { $0.isShared = true }
    memory.clear()
    return [connection, memory.descriptor]
  }

  /// Most bytes of memory that are not cleared after a take.
  private static let memoryKept = 1 << 29

  private static let ended = TakeFailure(
    .conversionCrashed, "the Python process that runs its steps ended in the middle of one, by a crash or for lack of memory")

  private func exchange(_ request: JSONValue, _ deadline: SuspendingClock.Instant?) throws -> JSONValue {
    let body = request.canonicalBytes
    try send(withUnsafeBytes(of: UInt32(body.count).littleEndian) { Array($0) } + body)
    let length = try receive(4, deadline).withUnsafeBytes { Int(UInt32(littleEndian: $0.loadUnaligned(as: UInt32.self))) }
    guard length <= Self.answerLimit else { throw TakeFailure(.pythonStepInvalid, "a step answered with \(length >> 20) MiB of text") }
    do {
      let reader = JSONReader(try receive(length, deadline))
      return try reader.document()
    } catch let error as JSONError {
      throw TakeFailure(.pythonStepInvalid, "the Python process that runs its steps answered with what is no JSON: \(error)")
    }
  }

  private func send(_ message: [UInt8]) throws {
    var sent = 0
    while sent < message.count {
      let count = message.withUnsafeBytes { Foundation.send(connection, $0.baseAddress! + sent, message.count - sent, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw Self.ended }
      sent += count
    }
  }

  private func receive(_ count: Int, _ deadline: SuspendingClock.Instant?) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var received = 0
    while received < count {
      var wait = pollfd(fd: connection, events: Int16(POLLIN), revents: 0)
      if poll(&wait, 1, 200) == 0 {
        if let deadline, SuspendingClock.now >= deadline {
          throw TakeFailure(.timeLimit, "a step in Python did not answer in time; raise --take-time if it takes that long")
        }
        continue
      }
      let part = bytes.withUnsafeMutableBytes { read(connection, $0.baseAddress! + received, count - received) }
      if part < 0, errno == EINTR { continue }
      guard part > 0 else { throw Self.ended }
      received += part
    }
    return bytes
  }
}
