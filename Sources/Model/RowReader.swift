/// A reader of the values of an episode's rows: samples are read and interpolated, and quaternions keep their sign from row to row. Serves
/// one thread.
///
/// It reads vectors, poses and derived streams; images and depth maps, of which every row is one sample, are read by cursors.
///
///     var rows = RowReader(episode)
///     for row in 0..<rows.count where try rows.pose(.pose, at: row) == nil { missing.append(row) }
package struct RowReader {
  package let episode: Episode
  private var readers: [StreamName: VectorReader] = [:]
  /// Findings about samples that could not be read; their rows are missing.
  package private(set) var findings: [Finding] = []
  /// Number of gaps, and of jumps of the tracking, before each row.
  private lazy var breaksBefore: [Int] = {
    let times = episode.frames.timestamps + (episode.following.map { [$0.timestamp] } ?? [])
    let gaps = Set(episode.frames.cadence.gaps(in: times, tick: episode.frames.tick).map(\.row))
    return times.indices.reduce(into: []) { counts, row in
      let isJump = episode.frames.quality.indices.contains(row) && episode.frames.quality[row].contains(.poseJump)
      counts.append(row == 0 ? 0 : counts[row - 1] + (isJump || gaps.contains(row - 1) ? 1 : 0))
    }
  }()

  package init(_ episode: Episode) { self.episode = episode }

  package var count: Int { episode.frames.count }

  /// The last row that can be read: after those of the episode also the one that follows, if it was cut from a longer take.
  package var last: Int { episode.following == nil ? count - 1 : count }

  /// The values of a row, NaN where there is none.
  package mutating func values(of name: StreamName, at row: Int) throws -> [Float] {
    if let derived = episode.derived[name] {
      let values = try derived.value(at: row, of: &self)
      guard values.count == derived.spec.elementCount else {
        throw TakeFailure(.internal, "\(name) has \(values.count) values in row \(row), expected \(derived.spec.elementCount)")
      }
      return values
    }
    guard let stream = episode.streams[name], var rows = stream.rows else {
      throw TakeFailure(.internal, "there is no stream \(name) on the frames' timeline")
    }
    if row == rows.count, let next = episode.following?.rows[name] { rows.append(next) }
    guard rows.indices.contains(row) else { return Array(repeating: .nan, count: stream.spec.elementCount) }
    var reader = try readers[name] ?? VectorReader(stream)
    defer { readers[name] = reader }
    return try reader.values(at: row, of: rows, noting: &findings)
  }

  /// The pose of a row, with a unit quaternion; `nil` where there is none.
  package mutating func pose(_ name: StreamName, at row: Int) throws -> Pose? {
    let values = try values(of: name, at: row)
    return values.contains(where: \.isNaN) ? nil : Pose(floats: values).normalized
  }

  /// Whether there is a gap or a jump of the tracking between two rows, so that the step from one to the other is no motion.
  package mutating func crossesBreak(from row: Int, to later: Int) -> Bool { breaksBefore[row] != breaksBefore[later] }

  /// The sensor's own values of each row, of a stream that is stored in another form.
  package static func rawValues(of stream: SampleStream) throws -> (Int) throws -> [Float] {
    var plain = stream
    plain.source = stream.raw ?? stream.source
    plain.rows = stream.rows?.map { $0.map { Row($0.nearest) } }
    var reader = try VectorReader(plain)
    let rows = plain.rows ?? []
    var ignored: [Finding] = []
    return { try reader.values(at: $0, of: rows, noting: &ignored) }
  }
}

/// One stream of vectors or poses, row by row.
private struct VectorReader {
  private var cursor: any SampleCursor
  private let width: Int
  private let interpolation: StreamKind.Interpolation
  private let poseChange: PoseChange?
  private let member: String?
  /// Whether each row's quaternion is the negative of the source's, up to the last row read.
  private var isNegated: [Bool] = []
  private var lastQuaternion: SIMD4<Double>?
  private var bytes: [UInt8] = []
  /// The last rows that were read, at their number modulo the count: chunks of actions read each row many times.
  private var recent: [(row: Int, values: [Float])?]

  private static let recentCount = 128

  init(_ stream: SampleStream) throws {
    cursor = try stream.source.makeCursor(SampleRequest())
    width = stream.spec.elementCount
    interpolation = stream.spec.kind.interpolation
    (poseChange, member) = (stream.poseChange, stream.spec.member)
    recent = Array(repeating: nil, count: Self.recentCount)
  }

  mutating func values(at row: Int, of rows: [Row?], noting findings: inout [Finding]) throws -> [Float] {
    if let known = recent[row % Self.recentCount], known.row == row { return known.values }
    let values = try computed(at: row, of: rows, noting: &findings)
    recent[row % Self.recentCount] = (row, values)
    return values
  }

  private mutating func computed(at row: Int, of rows: [Row?], noting findings: inout [Finding]) throws -> [Float] {
    guard interpolation == .slerp else { return try value(of: rows[row], &findings) }
    // A sign depends on all previous rows; these are read once.
    while isNegated.count < row { _ = try continued(isNegated.count, rows, &findings) }
    return try continued(row, rows, &findings)
  }

  private mutating func continued(_ row: Int, _ rows: [Row?], _ findings: inout [Finding]) throws -> [Float] {
    var numbers = try value(of: rows[row], &findings)
    if row == isNegated.count {
      let quaternion = SIMD4(numbers[3...6].map { Double($0) })
      let pose = Pose(position: .zero, quaternion: quaternion).continuing(lastQuaternion)
      isNegated.append(!numbers[3].isNaN && pose.quaternion != quaternion)
      if !numbers[3].isNaN { lastQuaternion = pose.quaternion }
    }
    if isNegated[row] { for element in 3...6 { numbers[element] = -numbers[element] } }
    return numbers
  }

  private mutating func value(of row: Row?, _ findings: inout [Finding]) throws -> [Float] {
    guard let row else { return Array(repeating: .nan, count: width) }
    do {
      let numbers = try sample(row.sample)
      guard row.isBlend else { return changed(numbers) }
      let next = try sample(row.next)
      switch interpolation {
      case .nearest: return row.nearest == row.sample ? numbers : next
      case .linear: return zip(numbers, next).map { $0 + ($1 - $0) * row.weight }
      case .slerp: return changed(Pose(floats: numbers).interpolated(to: Pose(floats: next), by: Double(row.weight)).floats)
      }
    } catch let failure as SampleFailure {
      findings.note(failure.finding, of: member)
      return Array(repeating: .nan, count: width)
    }
  }

  private func changed(_ numbers: [Float]) -> [Float] {
    guard let poseChange, !numbers.contains(where: \.isNaN) else { return numbers }
    let changed = poseChange(Pose(floats: numbers)).floats
    return changed.allSatisfy(\.isFinite) ? changed : Array(repeating: .nan, count: numbers.count)
  }

  private mutating func sample(_ index: Int) throws -> [Float] {
    try cursor.read(index, into: &bytes)
    guard bytes.count == 4 * width else {
      throw TakeFailure(.sampleSize, "a sample has \(bytes.count) bytes, expected \(4 * width)")
    }
    return bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
  }
}
