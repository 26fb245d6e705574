import Evidence
import Foundation
import Media
import Model
import Steps

/// A video as the frames of an episode: one row per frame, at its presentation time.
struct MovieTake {
  let movie: Movie
  let file: String
  let rotation: Rotation90
  private(set) var findings: [Finding] = []
  private let options: VideoOptions
  private let place: MovieFrames.Place

  /// The slow-motion app's rates, to which a measured one is snapped when it is within 2 %.
  private static let rates = [60.0, 120, 240]

  /// - Parameter choice: `nil` where poses and intrinsics belong to the images as coded.
  /// - Parameter includesHidden: Whether samples that the edit list hides are frames too, as in formats that count coded samples.
  /// - Parameter suspicion: The reason why the display matrix is known to be wrong; `nil` where it is not.
  init(
    _ slice: FileSlice, file: String, at place: InputOrigin, options: VideoOptions, rotation choice: VideoRotation?,
    includesHidden: Bool = false, suspicion: (Movie) -> String? = { _ in nil }
  ) throws {
    self.place = .file(place)
    movie = try naming(file) { try Movie(slice, limits: options.limits, includesHidden: includesHidden) }
    self.file = file
    self.options = options
    var wanted = Rotation90(rawValue: Int(movie.rotation))
    if movie.isMirrored || Double(wanted?.rawValue ?? -1) != movie.rotation {
      findings.append(
        Finding(
          .rotationUnsupported,
          "the display matrix \(movie.isMirrored ? "mirrors" : "rotates by \(movie.rotation) degrees"); images are stored as coded",
          file: file))
      wanted = Rotation90.none
    }
    if choice == nil, movie.rotation != 0 {
      findings.append(
        Finding(
          .rotationIgnored,
          "the display matrix rotates by \(movie.rotation) degrees; images are stored as coded, because poses and intrinsics belong to the coded images",
          file: file))
    }
    if choice == .keep || choice == nil {
      wanted = Rotation90.none
    } else if choice == .auto, wanted != Rotation90.none, let reason = suspicion(movie) {
      findings.append(Finding(.rotationSuspect, "\(reason); images are stored as coded", file: file))
      wanted = Rotation90.none
    }
    rotation = wanted ?? .none
    noteAnomalies()
    notePrivateTags()
  }

  /// The frames of messages, whose times are not those of the video.
  init(_ units: AccessUnits, file: String, options: VideoOptions, origin: @escaping @Sendable (Int) throws -> SampleOrigin) throws {
    (place, self.file, self.options, rotation) = (.found(origin), file, options, .none)
    movie = try naming(file) { try Movie(units, limits: options.limits) }
    noteAnomalies()
  }

  /// Measured frame rate in Hz, by regression, to a millionth.
  var measuredRate: Double? { Cadence(timestamps).rateHz.map { ($0 * 1e6).rounded() / 1e6 } }

  /// Duration from the first frame to the end of the last, which is assumed to last one period.
  var seconds: Double {
    let steps = movie.nanoseconds
    return (Double(steps.last ?? 0) + (measuredRate.map { 1e9 / $0 } ?? 0)).rounded() / 1e9
  }

  var nominalRate: Double? {
    measuredRate.flatMap { measured in Self.rates.first { abs(measured - $0) <= 0.02 * $0 } }
  }

  /// Date of making by the video: the time with the phone's zone that Apple's apps write, or else the file's, in UTC. A file from before
  /// 2001 was made by a clock that was not set.
  var date: RecordingDate? {
    for key in ["com.apple.quicktime.creationdate", "creation_time"] {
      guard let text = movie.tags.first(where: { $0.key == key })?.value, let time = UnixTime.nanoseconds(rfc3339: text) else { continue }
      let seconds = time / 1_000_000_000
      if seconds > 1_000_000_000 { return RecordingDate(file, day: String(text.prefix(10)), seconds: seconds) }
    }
    return nil
  }

  private var timestamps: [Timestamp] {
    // The whole ticks of the first sample, then exact differences.
    let origin = Timestamp(nanoseconds: movie.originNanoseconds)
    return movie.nanoseconds.map { origin.advanced(by: $0) }
  }

  /// The episode with images as coded; the caller applies `rotation` after adding the camera's other streams.
  func episode(id: String, snapsRate: Bool) -> Episode {
    let stamps = timestamps
    var frames = Episode.Frames(
      timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) }, clock: .mediaTime, tick: movie.tickNanoseconds)
    if snapsRate { frames.nominalRate = nominalRate }
    var stream = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: movie.size, covering: movie.size), kind: .image, type: .uint8, channels: 3, unit: "sRGB 0..255",
        clock: .mediaTime),
      source: MovieFrames(movie, file: file, place: place, maxSeconds: options.maxDecodeSeconds),
      timestamps: stamps, sourceIndex: frames.sourceIndex, rows: stamps.indices.rows)
    stream.nominalRate = frames.nominalRate
    var episode = Episode(id: id, sourceFrames: stamps.count, frames: frames, streams: [.image: stream])
    episode.cameras[.phone] = Camera(size: movie.size)
    episode.captureStart = stamps.first
    episode.findings = findings
    episode.details = details
    return episode
  }

  // MARK: The record

  private var details: [String: JSONValue] {
    var details: [String: JSONValue] = [
      "codec": .string(movie.codec), "coded_size": [JSONValue(movie.size.width), JSONValue(movie.size.height)],
      "time_base": .string("\(movie.timeBase.numerator)/\(movie.timeBase.denominator)"), "samples": JSONValue(movie.samples.count),
      "rotation": .number(movie.rotation), "time_base_meaning": "capture-real-time",
      "measured_fps": measuredRate.map { .number($0) } ?? .null, "nominal_fps": nominalRate.map { .number($0) } ?? .null,
      "variable_rate": .bool(hasVariableRate), "edit_list": .bool(movie.hasEditList),
      "color": [
        "matrix": JSONValue(movie.color.matrix), "primaries": JSONValue(movie.color.primaries),
        "transfer": JSONValue(movie.color.transfer), "range": JSONValue(movie.color.range),
        "pixel_format": .string(movie.color.pixelFormat),
      ],
    ]
    if let mapping = movie.color.mapping {
      details["hdr"] = [
        "mapping": .string(mapping.words), "peak_cd_m2": .number(mapping.peak), "reference_white_cd_m2": .number(mapping.white),
      ]
    }
    if options.keepLocation, let tag = movie.tags.first(where: { Self.isLocation($0.key) }) {
      details["location"] = .string(tag.value)
    }
    return details
  }

  /// Whether steps that are not gaps differ from the period by more than the time base explains.
  private var hasVariableRate: Bool {
    let stamps = timestamps
    let cadence = Cadence(stamps)
    guard let period = cadence.nominalPeriod else { return false }
    let allowed = Double(movie.tickNanoseconds) + 0.05 * period
    return zip(stamps, stamps.dropFirst()).contains { first, second in
      let step = Double(second.since(first))
      return abs(step - max(1, (step / period).rounded()) * period) > allowed
    }
  }

  private mutating func noteAnomalies() {
    if movie.isRetimed {
      findings.append(
        Finding(
          .editListRetimed, "the edit list plays at another speed than was recorded; times are those of the recording", file: file
        ))
    }
    if movie.hiddenSamples > 0, !movie.includesHidden {
      findings.append(
        Finding(.samplesHidden, "samples that the edit list hides are skipped", file: file, count: movie.hiddenSamples))
    }
    if let aspect = movie.pixelAspect {
      findings.append(
        Finding(
          .pixelsNotSquare,
          "the pixels are not square: their width to their height is \(aspect.width):\(aspect.height); images are stored as coded, so players show them wider or higher",
          file: file))
    }
    if movie.color.matrix == nil {
      findings.append(
        Finding(.colorUntagged, "the video does not declare its color matrix; BT.601 is assumed, as FFmpeg does", file: file))
    }
    if let mapping = movie.color.mapping {
      findings.append(
        Finding(
          .hdrMapped,
          "the video is HDR; its colors are mapped from \(mapping.words), so they differ from those of a video that was recorded in SDR",
          file: file))
    } else if let primaries = movie.color.primaries, !["bt709", "smpte170m", "bt470bg"].contains(primaries) {
      findings.append(
        Finding(.colorPrimaries, "the primaries are \(primaries); colors are stored without conversion to sRGB's", file: file)
      )
    }
  }

  /// Notes private tags. Tags are never copied; a finding reports that some were private.
  private mutating func notePrivateTags() {
    if !options.keepLocation, movie.tags.contains(where: { Self.isLocation($0.key) }) {
      findings.append(Finding.locationRemoved(file: file))
    }
    let names = ["author", "artist", "owner", "performer", "director", "producer", "user", "username", "device_name", "devicename"]
    if movie.tags.contains(where: { tag in tag.key.lowercased().split { ".:-".contains($0) }.contains { names.contains(String($0)) } }) {
      findings.append(Finding(.nameRemoved, "the video names a person or a device, which is withheld", file: file))
    }
  }

  private static func isLocation(_ key: String) -> Bool {
    let key = key.lowercased()
    return ["location", "xyz", "gps", "coordinates"].contains { key.contains($0) }
  }
}

extension Finding {
  static func locationRemoved(file: String, field: String? = nil) -> Finding {
    Finding(
      .locationRemoved, "there is a location, which is withheld; the option keep-location copies it", file: file, field: field)
  }
}
