import Evidence
import Foundation
import Model
import Steps

/// A known deviation of real StackCapture sessions from their format; each is a row of the table in `docs/formats/stack-session.md`.
package enum SessionQuirk: String, Sendable, CaseIterable {
  case posesShuffled = "poses-shuffled"
  case posesDuplicated = "poses-duplicated"
  case posesCut = "poses-cut"
  case posesMissing = "poses-missing"
  case posesNaN = "poses-nan"
  case posesTransposed = "poses-transposed"
  case posesFlat = "poses-flat"
  case poseReflected = "pose-reflected"
  case poseRepeated = "pose-repeated"
  case poseJump = "pose-jump"
  case timeBackwards = "time-backwards"
  case framesDropped = "frames-dropped"
  case imagesMissing = "images-missing"
  case uploadCut = "upload-cut"
  case imageCut = "image-cut"
  case imageEmpty = "image-empty"
  case extraFiles = "extra-files"
  case depthMissing = "depth-missing"
  case depthShort = "depth-short"
  case depthHalf = "depth-half"
  case depthPadded = "depth-padded"
  case depthOrphan = "depth-orphan"
  case jointDead = "joint-dead"
  case jointFailed = "joint-failed"
  case jointsLate = "joints-late"
  case jointsGap = "joints-gap"
  case jointsRecalibrated = "joints-recalibrated"
  case senderRestarted = "sender-restarted"
  case senderWrapped = "sender-wrapped"
  case jointsCSV = "joints-csv"
  case metadataMissing = "metadata-missing"
  case countsWrong = "counts-wrong"
  /// The session in a zip with a copy of the metadata next to it, in a tar, or only the copy.
  case zip, tar
  case sidecarAlone = "sidecar-alone"

  /// Whether it changes the session's container, so that it is applied last.
  package var isContainer: Bool { [.zip, .tar, .sidecarAlone].contains(self) }

  /// Its place among others, whatever their order: what can only be edited while it is JSON comes first, the container last.
  var rank: Int {
    switch self {
    case .posesNaN: 1
    case .posesCut: 2
    case .posesMissing, .metadataMissing: 3
    default: isContainer ? Self.lastRank : 0
    }
  }
  static let lastRank = 4

  /// Applies the quirk to a valid session.
  ///
  /// - Throws: `UsageError` when the session has nothing to apply it to.
  func apply(to directory: String) throws {
    let session = SessionFiles(directory: directory)
    switch self {
    case .posesShuffled, .posesDuplicated, .posesCut, .posesMissing, .posesNaN, .posesTransposed, .posesFlat, .poseReflected, .poseRepeated,
      .poseJump, .timeBackwards, .framesDropped:
      try changePoses(session)
    case .imagesMissing: for index in session.middle("rgb", 3).reversed() { try session.remove("rgb", index) }
    case .uploadCut:
      let count = try session.names("rgb").count
      for index in ((count * 3 / 4)..<count).reversed() { try session.remove("rgb", index) }
    case .imageCut: for index in session.middle("rgb", 2) { try session.cut("rgb", index, to: 0.6) }
    case .imageEmpty: for index in session.middle("rgb", 1) { try session.cut("rgb", index, to: 0) }
    case .extraFiles:
      try session.write("viz/stats.txt", Data("frames 1\n".utf8))
      for name in [".DS_Store", "rgb/.DS_Store", "rgb/._000000.jpg", "rgb/thumb.png"] { try session.write(name, Data([0])) }
    case .depthMissing: for index in session.middle("depth", 2).reversed() { try session.remove("depth", index) }
    case .depthShort: for index in session.middle("depth", 2) { try session.cut("depth", index, to: 0.5) }
    case .depthOrphan: try session.write("depth/999990.bin", session.read("depth/" + session.names("depth")[0]))
    case .depthHalf, .depthPadded: try changeDepth(session)
    case .jointDead, .jointFailed, .jointsLate, .jointsGap, .jointsRecalibrated, .senderRestarted, .senderWrapped, .jointsCSV:
      try changeJoints(session)
    case .metadataMissing: try session.remove("metadata.json")
    case .countsWrong:
      try session.edit("metadata.json") { metadata in
        guard case .object(var members) = metadata else { return }
        for key in members.keys where key.hasSuffix("Count") { members[key] = .integer((members[key]?.integer ?? 0) + 7) }
        metadata = .object(members)
      }
    case .zip, .tar, .sidecarAlone: try SessionArchive(directory: directory).pack(self)
    }
  }

  private func changePoses(_ session: SessionFiles) throws {
    let file = "poses.json"
    switch self {
    case .posesMissing: return try session.remove(file)
    case .posesCut:
      let bytes = try session.read(file)
      return try session.write(file, bytes.prefix(bytes.count * 7 / 10))
    case .posesNaN:
      // A token that only Python writes; JSON has none.
      let text = String(decoding: try session.read(file), as: UTF8.self)
      let parts = text.components(separatedBy: "\"transform\"")
      guard parts.count > 6 else { throw UsageError("the session has too few poses for \(rawValue)") }
      let changed = parts.enumerated().map { index, part in
        guard index == 6, let number = part.firstIndex(where: { "-0123456789".contains($0) }) else { return part }
        return part[..<number] + "NaN" + part[number...].drop { "-+.eE0123456789".contains($0) }
      }
      return try session.write(file, Data(changed.joined(separator: "\"transform\"").utf8))
    default: break
    }
    try session.editList(file) { poses in
      let middle = poses.count / 2
      switch self {
      case .posesShuffled: (poses[1], poses[middle]) = (poses[middle], poses[1])
      case .posesDuplicated:
        poses.insert(poses[3], at: 4)
        var other = poses[8]
        other["timestamp"] = .number((other["timestamp"]?.double ?? 0) + 0.001)
        poses.insert(other, at: 9)
      case .posesTransposed: for index in poses.indices { poses[index]["transform"] = poses[index].matrix { $0 % 4 * 4 + $0 / 4 } }
      case .posesFlat:
        for index in poses.indices {
          let rows = poses[index]["transform"]?.array ?? []
          poses[index]["transform"] = .array(rows.flatMap { $0.array ?? [] })
        }
      case .poseReflected:
        poses[middle]["transform"] = poses[middle].matrix {
          $0
        } scale: {
          $0 % 4 == 0 && $0 < 12 ? -1 : 1
        }
      case .poseRepeated: for index in middle..<min(middle + 4, poses.count) { poses[index]["transform"] = poses[middle]["transform"] }
      case .poseJump:
        for index in middle..<poses.count { poses[index]["transform"] = poses[index].matrix({ $0 }, add: { $0 == 3 ? 2 : 0 }) }
      case .timeBackwards: poses[middle]["timestamp"] = .number((poses[middle]["timestamp"]?.double ?? 0) - 0.5)
      case .framesDropped:
        for index in middle..<poses.count { poses[index]["timestamp"] = .number((poses[index]["timestamp"]?.double ?? 0) + 0.05) }
      default: break
      }
    }
  }

  private func changeDepth(_ session: SessionFiles) throws {
    let metadata = try session.value("metadata.json")
    guard let width = metadata["depthResolution"]?.array?.first?.integer else {
      throw UsageError("the session has no depth for \(rawValue)")
    }
    for name in try session.names("depth") {
      let meters = try session.read("depth/" + name).withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
      var bytes = Data()
      for start in stride(from: 0, to: meters.count, by: Int(width)) {
        let row = meters[start..<min(start + Int(width), meters.count)]
        if self == .depthHalf {
          row.map { Float16($0) }.withUnsafeBytes { bytes.append(contentsOf: $0) }
        } else {
          Array(row).withUnsafeBytes { bytes.append(contentsOf: $0) }
          bytes.append(Data(count: 64))
        }
      }
      try session.write("depth/" + name, bytes)
    }
  }

  private func changeJoints(_ session: SessionFiles) throws {
    let file = "encoders.json"
    let channels = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
    if self == .jointsCSV {
      let lines = try (session.value(file).array ?? []).map { reading in
        ([reading["timestamp"], reading["esp_timestamp_ms"]] + channels.map { reading[$0] }).map { $0?.canonicalText ?? "" }.joined(
          separator: ",")
      }
      try session.remove(file)
      let header = (["local_time", "esp_timestamp_ms"] + channels).joined(separator: ",")
      return try session.write("encoders_20260219_202352.csv", Data(([header] + lines).joined(separator: "\n").utf8))
    }
    try session.editList(file) { readings in
      let middle = readings.count / 2
      let first = readings.first?["esp_timestamp_ms"]?.integer ?? 0
      switch self {
      case .jointDead: for index in readings.indices { readings[index]["index_pip"] = -1 }
      case .jointFailed: for index in middle..<min(middle + 3, readings.count) { readings[index]["index_mcp"] = -1 }
      case .jointsLate:
        let start = readings.first?["timestamp"]?.double ?? 0
        readings.removeAll { ($0["timestamp"]?.double ?? 0) < start + 1.2 }
      case .jointsGap: readings.removeSubrange(middle..<min(middle + 20, readings.count))
      case .jointsRecalibrated:
        for index in middle..<readings.count {
          for channel in channels {
            let angle = (readings[index][channel]?.double ?? 0) + 45
            readings[index][channel] = .number(angle < 360 ? angle : angle - 360)
          }
        }
      case .senderRestarted, .senderWrapped:
        for index in readings.indices {
          let elapsed = (readings[index]["esp_timestamp_ms"]?.integer ?? 0) - first
          let restarted = index < middle ? first + elapsed : elapsed - Int64(middle) * 20 + 500
          readings[index]["esp_timestamp_ms"] = .integer(self == .senderRestarted ? restarted : (1 << 32 - 250 + elapsed) % (1 << 32))
        }
      default: break
      }
    }
  }
}

extension JSONValue {
  fileprivate subscript(key: String) -> JSONValue? {
    get { object?[key] }
    set {
      guard case .object(var members) = self else { return }
      members[key] = newValue
      self = .object(members)
    }
  }

  /// The transform of a pose with its sixteen numbers permuted, scaled and shifted.
  fileprivate func matrix(
    _ place: (Int) -> Int, scale: (Int) -> Double = { _ in 1 }, add: (Int) -> Double = { _ in 0 }
  ) -> JSONValue? {
    let numbers = (object?["transform"]?.array ?? []).flatMap { $0.array ?? [] }.compactMap(\.double)
    guard numbers.count == 16 else { return object?["transform"] }
    return .array(
      (0..<4).map { row in
        .array((0..<4).map { column in .number(numbers[place(row * 4 + column)] * scale(row * 4 + column) + add(row * 4 + column)) })
      })
  }
}
