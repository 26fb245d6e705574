package import Datasets
import Foundation
import HDF5
package import Model
import Steps

/// Measures computed from a file: of datasets that an earlier version has written, of single files, and of those that another program wrote in
/// robomimic's layout. They are those that a run records, but for what a file does not say, which is absent, and for images that are stored
/// as JPEG, which a run measures before it encodes them.
///
///     let blurred = try StoredMeasures.all(in: "demo.hdf5").filter { $0.measures?[.sharpness] ?? 0 < 40 }.map(\.id)
package struct StoredMeasures: Sendable {
  package var id: String
  /// `nil` where the episode cannot be read.
  package var measures: Measures?
  package var failure: String?

  /// Measures the episodes of a file in the order of their names, on several threads.
  ///
  /// Throws `UsageError` for a file without episodes, and `NoInputs` where there is none.
  package static func all(in path: String, threads: Int = 1) throws -> [StoredMeasures] {
    let places = try DatasetPlaces(path).places
    return inParallel(places.count, threads: threads) { StoredMeasures(places[$0]) }
  }

  /// The measures of a dataset's episodes: those that are recorded, or else computed from shards whose contents are those of the record.
  ///
  /// - Parameter checks: The check of shards that another program has written to.
  package static func all(of dataset: Dataset, checks: Verification.ExternalChecks, threads: Int = 1) throws -> [StoredMeasures] {
    let records = try dataset.written.map { take in
      let record = try dataset.record(of: take)
      return (id: record.id.text, measures: record.measures, record: record.measures == nil ? record : nil)
    }
    return inParallel(records.count, threads: threads) { index in
      let (id, measures, record) = records[index]
      guard let record, let output = record.output else { return StoredMeasures(id: id, measures: measures) }
      return StoredMeasures(id: id) {
        let file = try RecordedShard(dataset.directory + "/" + output.path, output, checks).open()
        defer { try? file.close() }
        var measures = try Measures(StoredEpisode(file.root))
        // What keeps an episode from being read whole does not take the other measures.
        if let lag = try? MeasuredMotion(Dataset.episode(record, in: dataset.directory, checks))?.readLag() { measures.set(lag) }
        return measures
      }
    }
  }

  private init(id: String, measures: Measures?) { (self.id, self.measures) = (id, measures) }

  private init(id: String, _ compute: () throws -> Measures) {
    self.id = id
    do { measures = try compute() } catch { failure = (error as? HDF5Error)?.message ?? "\(error)" }
  }

  private init(_ place: EpisodePlace) {
    var own: String?
    self.init(id: place.stem) {
      if let failure = place.failure { throw FileMap.Damaged(description: failure) }
      let file = try File.open(place.file)
      defer { try? file.close() }
      let episode = try StoredEpisode(file.root, demo: place.demo)
      own = try episode.id() ?? place.demo
      return try Measures(episode)
    }
    if let own { id = own }
  }
}

extension Measures {
  /// Measures an episode of an open file. Throws `HDF5Error` for one that is damaged.
  package init(_ stored: StoredEpisode) throws {
    let names = try stored.observationNames()
    let rows = Int(clamping: try stored.rowCount() ?? 0)
    guard (0...StoredEpisode.mostRows).contains(rows) else {
      throw HDF5Error(call: "H5Aread", target: stored.demo, message: "it claims \(rows) rows; at most \(StoredEpisode.mostRows) are read")
    }
    let times = try stored.timestamps(rows: rows)
    let nominal = stored.isForeign ? nil : try stored.times().textAttribute("nominal_rate_hz").flatMap { Double($0) }
    self.init(times: times, rate: Cadence(times, nominalRate: nominal).rateHz)
    self[.rows] = Double(rows)
    var first: [String: (name: String, array: HDF5Array)] = [:]
    for name in names where !(name.hasSuffix("_valid") && names.contains(String(name.dropLast("_valid".count)))) {
      let array = try stored.observation(name)
      guard let kind = try stored.kind(of: name, array), first[kind] == nil, array.dims.first == rows else { continue }
      first[kind] = (name, array)
    }
    try measureMotion(stored, first["pose"]?.array, names, times)
    if let (name, array) = first[StreamKind.image.word] {
      try measure(
        images: ArrayMeasurements(name, array, kind: StreamKind.image.word, mask: nil, digests: nil), array, stored.mask(of: name))
    }
    self[.depthValid] = try first[StreamKind.depth.word].flatMap { try Self.share(of: $0.array) { $0 > 0 } }
    self[.jointsValid] = try first[StreamKind.angles.word].flatMap { try Self.share(of: $0.array, where: \.isFinite) }
  }

  /// The share of an array's values that are valid; `nil` for one without values, or with rows too large to read.
  private static func share(of array: HDF5Array, where isValid: (Double) -> Bool) throws -> Double? {
    var (valid, all) = (0, 0)
    try ArrayMeasurements.forEachRow(of: array) { _, numbers in
      valid += numbers.count(where: isValid)
      all += numbers.count
    }
    return all > 0 ? Double(valid) / Double(all) : nil
  }

  /// Motion of the camera, or in a file by another program that of the first `NAME_pos` (x, y, z in meters) with a `NAME_quat` (x, y, z, w).
  private mutating func measureMotion(_ stored: StoredEpisode, _ pose: HDF5Array?, _ names: [String], _ times: [Timestamp]) throws {
    var numbers = [[Double]](repeating: [], count: times.count)
    func read(_ array: HDF5Array, width: Int) throws -> Bool {
      guard array.dims == [times.count, width] else { return false }
      try ArrayMeasurements.forEachRow(of: array) { row, values in if numbers.indices.contains(row) { numbers[row] += values } }
      return true
    }
    var isMetric = true
    if let pose {
      guard try read(pose, width: 7) else { return }
      isMetric = try pose.textAttribute("unit").flatMap { LengthUnit(rawValue: $0) }?.isMetric ?? false
    } else {
      let stems = names.filter { $0.hasSuffix("_pos") }.map { String($0.dropLast("_pos".count)) }
      guard stored.isForeign, let stem = stems.first(where: { names.contains($0 + "_quat") }),
        try read(stored.observation(stem + "_pos"), width: 3), try read(stored.observation(stem + "_quat"), width: 4)
      else { return }
    }
    let poses = numbers.map { row -> Pose? in
      guard row.count == 7, row.allSatisfy(\.isFinite), row[3...].contains(where: { $0 != 0 }) else { return nil }
      return Pose(position: SIMD3(row[0], row[1], row[2]), quaternion: SIMD4(row[3], row[4], row[5], row[6])).normalized
    }
    measure(poses, at: times, isMetric: isMetric)
    let known = poses.indices.filter { poses[$0] != nil }
    let quality = try stored.quality() ?? FrameQuality.of(known.compactMap { poses[$0] }, at: known.map { times[$0] }, isMetric: isMetric)
    self[.jumps] = Double(quality.count { $0.contains(.poseJump) })
  }

  private mutating func measure(images: ArrayMeasurements, _ array: HDF5Array, _ mask: [UInt8]?) throws {
    guard images.hasPixels else { return }
    let size = ImageSize(width: images.shape[1], height: images.shape[0])
    self[.imageMissing] = Double(mask?.count { $0 == 0 } ?? 0) / Double(images.rows)
    var pixels = try StoredPixels(array, size, encoding: images.encoding)
    var readings = MeasuredImages.Readings()
    for row in stride(from: 0, to: images.rows, by: MeasuredImages.every(of: images.rows, size))
    where mask.map({ row < $0.count && $0[row] != 0 }) ?? true {
      if let reading = try pixels.measured(row: row) { readings.add(reading) }
    }
    readings.write(to: &self)
  }
}
