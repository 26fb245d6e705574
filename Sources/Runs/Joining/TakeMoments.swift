import Dispatch
import Foundation
import Model
import Steps
import Synchronization

/// Takes that were recorded at one time, for `join: {by: time}`.
enum TakeMoments {
  /// What the takes of one time have in common: its number, and the id of the reference's take, or else that of the first member.
  struct Moment {
    var number: Int
    var name: String
  }

  /// Of the shorter one of two takes, as much has to be recorded with the other.
  private static let common = 0.8

  /// The moment of each take by its path, or the reason why it is not known when it was recorded.
  static func of(
    _ takes: [(task: TakeTask, member: String)], _ join: Join, _ timing: UnixSpan.Reading
  ) -> [String: Result<Moment, any Error>] {
    let read = Mutex<[Int: Result<UnixSpan, any Error>]>([:])
    DispatchQueue.concurrentPerform(iterations: takes.count) { index in
      let span = Result { try timing(takes[index].task).later(by: join.offset[takes[index].member] ?? 0) }
      read.withLock { $0[index] = span }
    }
    let spans = read.withLock { $0 }
    var moments: [String: Result<Moment, any Error>] = [:]
    var known: [(index: Int, member: String, span: UnixSpan)] = []
    for index in takes.indices {
      switch spans[index] {
      case .success(let span)?: known.append((index, takes[index].member, span))
      case .failure(let failure)?: moments[takes[index].task.location.path] = .failure(failure)
      case nil: break
      }
    }
    for (number, part) in parts(known.map { ($0.member, $0.span) }).enumerated() {
      let named = part.map { known[$0] }.min {
        ($0.member != join.reference ? 1 : 0, $0.member) < ($1.member != join.reference ? 1 : 0, $1.member)
      }
      for place in part {
        let task = takes[known[place].index].task
        moments[task.location.path] = .success(Moment(number: number, name: named.map { takes[$0.index].task.id } ?? task.id))
      }
    }
    return moments
  }

  /// Whether an error is the fault of the take, which fails with it when it is converted, too.
  static func isOfTake(_ error: any Error) -> Bool {
    switch error {
    case let failure as TakeFailure: !failure.isOfMachine && ![.conversionCrashed, .internal].contains(failure.code) && !isLimit(failure)
    default: false
    }
  }

  /// Whether a take was given up for the time or the memory that it took.
  static func isLimit(_ error: any Error) -> Bool {
    (error as? TakeFailure).map { [.timeLimit, .memoryLimit].contains($0.code) } ?? false
  }

  /// The places of takes that overlap with each other, directly or by others between them.
  static func parts(_ takes: [(member: String, span: UnixSpan)]) -> [[Int]] {
    var part = Array(takes.indices)
    func root(_ place: Int) -> Int {
      var place = place
      while part[place] != place { place = part[place] }
      return place
    }
    /// Those that may still be recorded when the next one begins.
    var recording: [Int] = []
    for next in takes.indices.sorted(by: { (takes[$0].span.first, $0) < (takes[$1].span.first, $1) }) {
      recording.removeAll { takes[$0].span.last < takes[next].span.first }
      for other in recording where takes[other].member != takes[next].member {
        if takes[other].span.overlap(with: takes[next].span) >= common { part[root(next)] = root(other) }
      }
      recording.append(next)
    }
    return Dictionary(grouping: takes.indices, by: root).values.sorted { $0[0] < $1[0] }
  }
}

/// The Unix time from a take's first frame to its last, in nanoseconds.
package struct UnixSpan: Codable, Sendable {
  var first, last: Int64

  init(first: Int64, last: Int64) { (self.first, self.last) = (first, last) }

  /// Opens the take. Throws `TakeFailure`, also where nothing says when it was recorded.
  init(of task: TakeTask) throws {
    do {
      try self.init(opening: task)
    } catch let error as FileError {
      throw error.failure()
    } catch let rejection as Rejection {
      throw TakeFailure(rejection.code, rejection.message)
    }
  }

  private init(opening task: TakeTask) throws {
    let reader = try task.makeReader()
    let inputs = try reader.inputs(of: task.location)
    let source = try reader.open(Take(id: task.id, location: task.location, inputs: inputs))
    let aligned = try Registry.aligning.init().apply(to: source, in: RunContext())
    let zero = Timestamp(nanoseconds: try UnixClock(of: aligned).zero)
    guard let begin = source.frames.timestamps.first, let end = source.frames.timestamps.last else {
      throw TakeFailure(.noFrames, "it has no frames")
    }
    (first, last) = (zero.advanced(by: begin.nanoseconds).nanoseconds, zero.advanced(by: end.nanoseconds).nanoseconds)
  }

  /// The answer of a process that has opened a take.
  struct Answer: Codable {
    var span: UnixSpan?
    var failure: Finding?

    init(of task: TakeTask) throws {
      do { span = try UnixSpan(of: task) } catch let error as TakeFailure { failure = error.finding }
    }

    func get() throws -> UnixSpan {
      if let failure { throw TakeFailure(failure.code, failure.message, file: failure.file, field: failure.field) }
      guard let span, span.isPlausible else {
        throw TakeFailure(.internal, "the child process that opened the take returned a time that cannot be")
      }
      return span
    }
  }

  /// Whether it is of a take: somebody who answers for one may say anything.
  var isPlausible: Bool { first >= 0 && last >= first && last - first <= 7 * 86_400 * 1_000_000_000 }

  /// The share of the shorter of both spans that the other one covers.
  func overlap(with other: UnixSpan) -> Double {
    let (begin, end) = (max(Double(first), Double(other.first)), min(Double(last), Double(other.last)))
    let shorter = min(Double(last) - Double(first), Double(other.last) - Double(other.first))
    return end >= begin ? (shorter > 0 ? (end - begin) / shorter : 1) : 0
  }

  /// The same at a time that is later by some seconds.
  func later(by seconds: Double) -> UnixSpan {
    var own = self
    own.first = Timestamp(nanoseconds: first).advanced(byNanoseconds: seconds * 1e9).nanoseconds
    own.last = Timestamp(nanoseconds: last).advanced(byNanoseconds: seconds * 1e9).nanoseconds
    return own
  }

  /// Says when a take was recorded; in another process where its bytes are a stranger's.
  package typealias Reading = @Sendable (TakeTask) throws -> UnixSpan
}
