import Evidence
import Foundation
import Model
import Steps

/// A member that is open.
struct OpenedMember {
  let name: String
  let reader: String
  /// As its reader opened it, and with its streams on the clock of its own frames.
  let source: Episode
  let aligned: Episode

  /// Throws what ends the take, with the member's name.
  init(_ member: JoinedTake.Member, _ own: TakeInputs.Member) throws {
    (name, reader) = (member.name, type(of: member.reader).name)
    do {
      var episode = try member.reader.open(Take(id: member.id, location: own.location, inputs: own.inputs))
      Pipeline.examine(&episode, own.inputs)
      (source, aligned) = (episode, try Registry.aligning.init().apply(to: episode, in: RunContext()))
    } catch let failure as TakeFailure {
      throw failure.ofMember(member.name)
    } catch let error as FileError {
      throw error.failure().ofMember(member.name)
    } catch let rejection as Rejection {
      throw Rejection(rejection.code, "\(member.name): \(rejection.message)", variant: rejection.variant)
    }
  }

  /// Throws `TakeFailure` where nothing says when it was recorded.
  func unixClock() throws -> UnixClock {
    do { return try UnixClock(of: aligned) } catch let failure as TakeFailure { throw failure.ofMember(name) }
  }

  /// The members in the order in which their labels count: the phone that heard the speaker, then head, left and right.
  static func byLabels(_ members: [OpenedMember]) -> [OpenedMember] {
    func rank(_ member: OpenedMember) -> (Int, String) {
      let isHost = member.source.details["isVoiceHost"]?.bool == true
      return (isHost ? -1 : ["head", "left", "right"].firstIndex(of: member.name) ?? 3, member.name)
    }
    return members.sorted { rank($0) < rank($1) }
  }

  /// What the format says of the take.
  ///
  /// - Parameter later: Seconds from the first row to the member's first frame, since which its times are.
  func labels(later: Double) -> [String: JSONValue] {
    var labels = source.details[LabelDetails.format]?.object ?? [:]
    if let segments = labels["segments"]?.array {
      labels["segments"] = .array(
        segments.map { segment in
          guard var own = segment.object else { return segment }
          for key in ["start", "end"] { if let time = own[key]?.double { own[key] = .number(time + later) } }
          return .object(own)
        })
    }
    return labels
  }

  /// Phones start and stop one after the other, by so many nanoseconds.
  private static let apart: Int64 = 500_000_000

  /// The finding that the member has no frames in a part of the rows' time. Throws `TakeFailure` where it has none in all of it: takes of one moment
  /// share some time.
  func absence(from rows: Episode.Frames, of reference: String, _ shift: Shift) throws -> Finding? {
    let times = source.frames.timestamps
    guard let first = times.first?.advanced(by: shift.nanoseconds), let last = times.last?.advanced(by: shift.nanoseconds),
      let begin = rows.timestamps.first, let end = rows.timestamps.last
    else { return nil }
    func seconds(_ time: Int64) -> String { "\((Double(time) / 1e6).rounded() / 1000) s" }
    if first > end || last < begin {
      let words = first > end ? "begins \(seconds(first.since(end))) after" : "ends \(seconds(begin.since(last))) before"
      throw TakeFailure(
        .joinClock,
        "\(name) \(words) the frames of \(reference), and takes of one moment share some time; join: {offset: {\(name): …}} corrects a clock"
      )
    }
    let missing = [(first.since(begin), "begins", "after the first"), (end.since(last), "ends", "before the last")]
      .filter { $0.0 > Self.apart }.map { "\($0.1) \(seconds($0.0)) \($0.2) frame" }
    guard !missing.isEmpty else { return nil }
    return Finding(
      .streamIncomplete, "\(name) \(missing.joined(separator: " and ")) of \(reference); these rows are masked", field: name)
  }

  /// A finding of the member, as one of the joined take.
  func named(_ finding: Finding) -> Finding {
    var own = finding.ofMember(name)
    if let field = own.field, source.streams[StreamName(field)] != nil { own.field = StreamName(field).of(name).rawValue }
    return own
  }
}

/// The Unix time of zero on the clock of a member's frames, and how well it is known (ns).
struct UnixClock {
  var zero: Int64
  var resolution: Int64

  /// - Parameter episode: With its streams on the frames' clock.
  ///
  /// Throws `TakeFailure` where nothing says when it was recorded.
  init(of episode: Episode) throws {
    guard let start = episode.captureStart ?? episode.frames.timestamps.first else {
      throw TakeFailure(.noFrames, "it has no frames")
    }
    if episode.frames.clock == .phoneUnix {
      (zero, resolution) = (0, episode.unixOrigin?.resolution ?? 1_000_000)
    } else if let origin = episode.unixOrigin {
      (zero, resolution) = (Timestamp(nanoseconds: origin.nanoseconds).since(start), origin.resolution)
    } else if let seconds = episode.dates.lazy.compactMap(\.seconds).first {
      (zero, resolution) = (Timestamp(nanoseconds: seconds * 1_000_000_000).since(start), 1_000_000_000)
    } else {
      throw TakeFailure(
        .joinClock,
        "nothing says when it was recorded in Unix time, so its clock cannot be related to those of the others")
    }
  }
}
