import Datasets
import Evidence
import Foundation
import HDF5
import Media
import Model
import Rasters
import Steps

/// The figures of an episode that the rules of loaders are about. Vectors, digests and statistics are read once; pixels only to measure how
/// sharp they are.
struct EpisodeMeasurements: Sendable {
  var id: String
  var rows = 0
  /// The reason why the episode cannot be read.
  var failure: String?
  /// Its part of the split; `nil` where there is none.
  var part: SplitPart?
  /// Its label `task`.
  var task: String?
  /// Observations by key, without masks and confidence.
  var observations: [String: ArrayMeasurements] = [:]
  var actions: ArrayMeasurements?
  /// Keys of the observations of the next row.
  var nextKeys: Set<String> = []
  /// Arrays whose number of rows is not that of the episode, with theirs.
  var otherRows: [String: Int] = [:]
  /// The poses by their names: of a joined take, those of each member.
  var allPoses: [(name: String, poses: PoseMeasurements)] = []
  var times = TimeMeasurements()
  /// Whether the image has intrinsics in every row that has an image.
  var hasIntrinsics = false
  /// Whether the principal point of a row lies outside of the image: intrinsics of images of another size.
  var hasForeignIntrinsics = false
  var sharpness: SharpnessMeasurements?
  var geometry: GeometryAgreement?
  /// Digest of the poses, or else of the images, as the file has it: episodes with the same one are copies. `nil` where nothing moves.
  var content: String?

  /// The first poses by name.
  var poses: PoseMeasurements? { allPoses.first?.poses }

  /// The members of a joined take whose motion is learned from: the head's is not.
  var actingMembers: [String] { Set(observations.values.filter(\.isPose).compactMap(\.member)).subtracting(["head"]).sorted() }

  var images: [ArrayMeasurements] { observations.values.filter(\.isImage).sorted { $0.name < $1.name } }

  /// Whether the actions have a part of the name of this observation.
  func isActing(_ array: ArrayMeasurements) -> Bool {
    actions?.columnNames.contains { $0 == array.name || $0.hasPrefix(array.name + " ") } ?? false
  }

  /// An episode that cannot be read.
  init(id: String, failure: String) { (self.id, self.failure) = (id, failure) }

  /// Measures the episode `data/demo` of a file.
  ///
  /// Throws `HDF5Error` for a damaged file.
  ///
  /// - Parameter keys: The observations to look at; empty for all.
  init(_ root: Group, demo: String, keys: Set<String> = [], measuresSharpness: Bool = false, measuresGeometry: Bool = false) throws {
    let stored = try StoredEpisode(root, demo: demo)
    id = try stored.id() ?? demo
    // Another program may have written any number.
    rows = Int(min(max(try stored.rowCount() ?? 0, 0), 1 << 40))
    let names = try stored.observationNames()
    let statistics = try? stored.statistics()
    for name in names where keys.isEmpty || keys.contains(name) {
      // Masks belong to the array whose name they extend.
      if name.hasSuffix("_valid"), names.contains(String(name.dropLast("_valid".count))) { continue }
      let dataset = try stored.observation(name)
      let kind = try stored.kind(of: name, dataset)
      if kind == StreamKind.confidence.word { continue }
      var array = try ArrayMeasurements(
        name, dataset, kind: kind, mask: stored.mask(of: name), digests: stored.rowDigests(of: name),
        samples: stored.samples(of: name))
      if array.isDepth { (array.greatest, array.shareAboveOne) = Self.range(of: name, statistics) }
      observations[name] = array
    }
    nextKeys = Set(try stored.nextObservationNames())
    actions = try stored.actions().map { try ArrayMeasurements(StreamName.actions.rawValue, $0.array, mask: $0.mask, digests: nil) }
    for array in Array(observations.values) + [actions].compactMap(\.self) where array.rows != rows { otherRows[array.name] = array.rows }
    let timestamps = try stored.timestamps(rows: rows)
    let stamps = stored.isForeign ? nil : try stored.times()
    times = TimeMeasurements(
      timestamps, nominalRate: try stamps?.textAttribute("nominal_rate_hz").flatMap { Double($0) },
      tick: try stamps?.integerAttribute("tick_ns") ?? 1)
    let quality = try stored.quality() ?? []
    for pose in observations.values.filter(\.isPose).sorted(by: { $0.name < $1.name }) where pose.shape == [7] {
      // The bits of a joined take are those of all phones, and count once.
      let own = allPoses.isEmpty ? quality : []
      allPoses.append((pose.name, try PoseMeasurements(stored.observation(pose.name), at: timestamps, quality: own)))
    }
    if let pose = allPoses.first {
      if poses?.extent ?? 0 > 0, rows >= Self.fewestRows { content = try stored.observation(pose.name).textAttribute("sha256") }
    }
    if measuresGeometry, let depth = observations.values.filter(\.isDepth).min(by: { $0.name < $1.name }),
      let pose = observations.values.filter({ $0.isPose && $0.member == depth.member }).min(by: { $0.name < $1.name })
    {
      geometry = try GeometryAgreement(stored, depth: depth, pose: pose.name, at: timestamps)
    }
    if let image = images.first {
      if poses == nil, image.longestRepeat < rows, rows >= Self.fewestRows {
        content = try stored.observation(image.name).textAttribute("sha256")
      }
      try measureIntrinsics(stored, image)
      if measuresSharpness { sharpness = try SharpnessMeasurements(stored.observation(image.name), image) }
    }
  }

  /// Fewer rows may be equal by chance.
  private static let fewestRows = 10

  private mutating func measureIntrinsics(_ stored: StoredEpisode, _ image: ArrayMeasurements) throws {
    guard let intrinsics = try stored.intrinsics(of: image.name, isImage: true) else { return }
    let (height, width) = (Double(image.shape.first ?? 0), Double(image.shape.count > 1 ? image.shape[1] : 0))
    var (known, isForeign) = (0, false)
    try ArrayMeasurements.forEachRow(of: intrinsics) { _, numbers in
      guard numbers.count == 4, numbers.allSatisfy(\.isFinite) else { return }
      known += 1
      if !(0...width).contains(numbers[2]) || !(0...height).contains(numbers[3]) { isForeign = true }
    }
    hasIntrinsics = known >= rows - image.masked && known > 0
    hasForeignIntrinsics = isForeign
  }

  // MARK: Depth

  /// The greatest valid depth value, and the share of those above 1, both in the array's unit.
  private static func range(of name: String, _ statistics: [JSONValue]?) -> (greatest: Double?, shareAboveOne: Double?) {
    guard let entry = statistics?.first(where: { $0["name"]?.string == name }), let channel = entry["channels"]?.array?.first,
      let pairs = channel["histogram"]?.array?.compactMap(\.integer), pairs.count % 2 == 0
    else { return (nil, nil) }
    // Byte data has a bucket per integer, and floats one for each of their leading bits.
    let isInteger = entry["bucket"]?.string == Histogram.Buckets.integers.rawValue
    let one = isInteger ? 1 : Histogram.bucket(of: 1)
    var (above, total) = (0.0, 0.0)
    for pair in stride(from: 0, to: pairs.count, by: 2) {
      total += Double(pairs[pair + 1])
      if pairs[pair] > one { above += Double(pairs[pair + 1]) }
    }
    return (channel["max"]?.double, total > 0 ? above / total : nil)
  }
}

/// The regularity of an episode's rows in time.
struct TimeMeasurements: Sendable {
  /// Rows per second, from the nominal period; `nil` with fewer than two rows.
  var rate: Double?
  var gaps = 0
  /// The longest step in seconds.
  var longestStep = 0.0
  /// Steps that are no gaps, and those of them that are more than a tenth of a period off it.
  var steps = 0
  var unevenSteps = 0
  /// The largest distance of a row from its number divided by the nearest whole rate, in rows, since the start or the last gap.
  var offGrid = 0.0

  init() {}

  init(_ timestamps: [Timestamp], nominalRate: Double? = nil, tick: Int64 = 1) {
    let cadence = Cadence(timestamps, nominalRate: nominalRate)
    rate = cadence.rateHz
    guard let period = cadence.nominalPeriod else { return }
    let inGaps = Set(cadence.gaps(in: timestamps, tick: tick).map(\.row))
    gaps = inGaps.count
    let wholeRate = max(1, (1e9 / period).rounded())
    var start = 0
    for row in timestamps.indices {
      if inGaps.contains(row - 1) { start = row }
      let rows = Double(timestamps[row].since(timestamps[start])) / 1e9 * wholeRate
      offGrid = max(offGrid, abs(rows - Double(row - start)))
    }
    for row in timestamps.indices.dropLast() {
      let step = Double(timestamps[row + 1].since(timestamps[row]))
      longestStep = max(longestStep, step / 1e9)
      guard !inGaps.contains(row) else { continue }
      steps += 1
      if abs(step - period) > period / 10 + Double(tick) { unevenSteps += 1 }
    }
  }
}

/// The poses of an episode.
struct PoseMeasurements: Sendable {
  /// `nil` where the file names none.
  var unit: LengthUnit?
  /// Axes of the camera, and the body whose poses they are.
  var axes: String
  var body: String?
  /// Rows whose quaternion is not of length 1, within a thousandth, and the length that is furthest off.
  var badNorms = 0
  var worstNorm = 1.0
  /// Rows whose quaternion is nearer to the negative of the one before.
  var flips = 0
  var repeated = 0
  var jumps = 0
  var interpolated = 0
  var first: Pose?
  /// The largest distance from the first pose, in the unit of the poses.
  var extent = 0.0

  init(_ dataset: HDF5Array, at timestamps: [Timestamp], quality stored: [FrameQuality]) throws {
    unit = try dataset.textAttribute("unit").flatMap(LengthUnit.init)
    axes = try dataset.textAttribute("camera_axes") ?? ""
    body = try dataset.textAttribute("body")
    var poses: [(row: Int, pose: Pose)] = []
    try ArrayMeasurements.forEachRow(of: dataset) { row, n in
      guard n.allSatisfy(\.isFinite), row < timestamps.count else { return }
      poses.append((row, Pose(position: [n[0], n[1], n[2]], quaternion: [n[3], n[4], n[5], n[6]])))
    }
    first = poses.first?.pose
    var last: SIMD4<Double>?
    for (_, pose) in poses {
      let norm = (pose.quaternion * pose.quaternion).sum().squareRoot()
      if abs(norm - 1) > 1e-3 {
        badNorms += 1
        if abs(norm - 1) > abs(worstNorm - 1) { worstNorm = norm }
      }
      if let last, (last * pose.quaternion).sum() < 0 { flips += 1 }
      last = pose.quaternion
      if let first { extent = max(extent, length(pose.position - first.position)) }
    }
    // What the reader found in the frames, and what shows in the rows: poses may have been changed or resampled since.
    let shown = FrameQuality.of(
      poses.map(\.pose), at: poses.map { timestamps[$0.row] }, isMetric: unit?.isMetric == true)
    for (index, (row, _)) in poses.enumerated() {
      let bits = shown[index].union(row < stored.count ? stored[row] : [])
      if bits.contains(.poseRepeated) { repeated += 1 }
      if bits.contains(.poseJump) { jumps += 1 }
      if bits.contains(.poseInterpolated) { interpolated += 1 }
    }
  }
}
