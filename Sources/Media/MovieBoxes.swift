import Foundation

/// The boxes of a QuickTime or MP4 file (ISO/IEC 14496-12), checked before a library parses it: impossible counts and
/// sizes, data in other files, encryption. Reads the headers, and the complete `moov` box.
struct MovieBoxes {
  /// Largest `moov` in bytes; one of 20,000 samples has about 500 kB.
  private static let moovLimit = 32 << 20
  private static let boxLimit = 20_000
  private static let fragmentLimit: Int64 = 4 << 20
  private static let editLimit = 64
  private static let depthLimit = 10
  private static let containers: Set<String> = ["traf", "trak", "mdia", "minf", "stbl", "edts", "dinf", "tref"]
  private static let known: Set<String> = [
    "ftyp", "moov", "mdat", "free", "skip", "wide", "pnot", "uuid", "moof", "styp", "sidx", "meta", "udta", "pdin",
  ]

  struct Track {
    /// The number of the track, by its header.
    var id: Int?
    /// The kind of the media; empty where the file does not say it.
    var handler = ""
    fileprivate var hasVideoHeader = false
    /// Whether its images belong to those of another track: depth, disparity, alpha, thumbnails.
    fileprivate var isAuxiliary = false
    var sampleCount = 0
    var format = ""

    /// Whether the track has the images; one without a handler is known by its video header.
    var isVideo: Bool { (handler == "vide" || handler.isEmpty && hasVideoHeader) && !isAuxiliary }
  }

  private(set) var tracks: [Track] = []
  private(set) var hasEditList = false
  /// Whether an edit plays at a speed other than the media's own.
  private(set) var isRetimed = false
  private(set) var isFragmented = false
  /// Number of samples that the fragments list, over all tracks.
  private(set) var fragmentSamples = 0

  /// Offset at which the last box ends. No player reads what follows: a phone's own trailer, the zeros of a card's last block.
  private(set) var end: Int64

  private let limits: MovieLimits
  private var boxes = 0

  init(_ input: FileSlice, limits: MovieLimits) throws {
    (self.limits, end) = (limits, input.count)
    guard input.count > 0 else { throw MovieError(.fileEmpty, "the file is empty") }
    var offset: Int64 = 0
    var moov: Range<Int64>?
    var hidden: String?
    while offset < input.count {
      guard let box = try Self.header(at: offset, in: input, isTrailed: moov != nil && !isFragmented) else {
        // The index of a video in fragments does not say where it ends.
        if isFragmented, try !Self.isZero(offset..<input.count, in: input) { throw Self.cutFragment }
        end = offset
        break
      }
      guard offset > 0 || Self.known.contains(box.type) else { throw Self.notAMovie(input) }
      boxes += 1
      if boxes > Self.boxLimit { throw MovieError(.limit, "more than \(Self.boxLimit) boxes") }
      switch box.type {
      case "moov":
        guard moov == nil else { throw MovieError(.movieCorrupt, "there are two moov boxes, so the index is ambiguous") }
        moov = box.payload
      case "moof":
        isFragmented = true
        guard box.payload.upperBound <= input.count else { throw Self.cutFragment }
        guard box.payload.count <= Self.fragmentLimit else { throw MovieError(.limit, "a fragment's index has \(box.payload.count) bytes") }
        try walk(input.bytes(box.payload)[...], in: "moof", depth: 0)
      case "hoov": hidden = box.type
      case "free", "skip":
        // FFmpeg reads a free box that starts like an index as an index.
        let start = try input.bytes(box.payload.lowerBound..<(box.payload.lowerBound + 8))
        if let inner = Self.fourCC(start.dropFirst(4)), ["mvhd", "cmov"].contains(inner) { hidden = box.type }
      default: break
      }
      // With an index, truncation is detected from its samples.
      if isFragmented, box.payload.upperBound > input.count { throw Self.cutFragment }
      offset = box.payload.upperBound
    }
    guard let moov else {
      throw MovieError(
        .movieUnfinished, "there is no moov box, the video's index: the recording was never finished, or the file is truncated")
    }
    if let hidden { throw Self.hiddenIndex(hidden) }
    guard moov.upperBound <= input.count else {
      throw MovieError(
        .movieTruncated, "the moov box should end at byte \(moov.upperBound), the file has \(input.count) bytes")
    }
    guard moov.count <= Self.moovLimit else {
      throw MovieError(.limit, "the moov box has \(moov.count) bytes, over the limit of \(Self.moovLimit)")
    }
    try walk(input.bytes(moov)[...], in: "moov", depth: 0)
  }

  // MARK: The file

  /// The box at an offset; `nil` where none starts there.
  ///
  /// - Parameter isTrailed: Whether bytes that are no box may follow.
  private static func header(at offset: Int64, in input: FileSlice, isTrailed: Bool) throws -> (type: String, payload: Range<Int64>)? {
    let header = try input.bytes(offset..<(offset + 16))
    guard header.count >= 8 else {
      if offset == 0 { throw notAMovie(input) }
      return nil
    }
    guard let type = fourCC(header[4..<8]) else {
      if offset == 0 { throw notAMovie(input) }
      if try isTrailed || isZero(offset..<input.count, in: input) { return nil }
      throw noBox(at: offset)
    }
    var size = Int64(UInt32(reading: header[0..<4]))
    var length: Int64 = 8
    if size == 1 {
      guard header.count == 16, let large = Int64(exactly: UInt64(reading: header[8..<16])) else {
        throw MovieError(.movieCorrupt, "the \(type) box at byte \(offset) has a size beyond 63 bits")
      }
      (size, length) = (large, 16)
    } else if size == 0 {
      size = input.count - offset
    }
    let (end, overflow) = offset.addingReportingOverflow(size)
    guard size >= length, !overflow else {
      if offset == 0 { throw notAMovie(input) }
      if isTrailed, !known.contains(type) { return nil }
      throw MovieError(.movieCorrupt, "the \(type) box at byte \(offset) cannot be \(size) bytes long")
    }
    return (type, (offset + length)..<end)
  }

  /// Whether the last bytes of a file are zeros, as far as these are few enough to be read.
  private static func isZero(_ range: Range<Int64>, in input: FileSlice) throws -> Bool {
    try range.count <= 1 << 20 && input.bytes(range).allSatisfy { $0 == 0 }
  }

  static func noBox(at offset: Int64) -> MovieError {
    MovieError(.movieCorrupt, "at byte \(offset) there is no box where one should start")
  }

  /// A box type of four printable characters, QuickTime's `©` included; `nil` for other bytes.
  private static func fourCC(_ bytes: ArraySlice<UInt8>) -> String? {
    guard bytes.count == 4, bytes.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 0xA9 }) else { return nil }
    return String(bytes.map { Character(Unicode.Scalar($0)) })
  }

  private static let cutFragment = MovieError(.movieTruncated, "the file ends within one of its fragments; the rest is cut off")

  private static func hiddenIndex(_ type: String) -> MovieError {
    MovieError(.movieCorrupt, "a \(type) box holds a second index, so the index is ambiguous")
  }

  private static func notAMovie(_ input: FileSlice) -> MovieError {
    let shown = ((try? input.bytes(0..<16)) ?? []).map { (0x20...0x7E).contains($0) ? String(UnicodeScalar($0)) : "." }.joined()
    return MovieError(
      .notAMovie, "the file starts with \"\(shown)\"; expected a QuickTime or MP4 video, which starts with a box such as ftyp")
  }

  // MARK: moov

  private mutating func walk(_ bytes: ArraySlice<UInt8>, in parent: String, depth: Int) throws {
    guard depth <= Self.depthLimit else { throw MovieError(.movieCorrupt, "boxes are nested deeper than \(Self.depthLimit)") }
    var rest = bytes
    // QuickTime ends some lists with four zero bytes.
    while rest.count >= 8 {
      boxes += 1
      if boxes > Self.boxLimit { throw MovieError(.limit, "more than \(Self.boxLimit) boxes") }
      let type = Self.fourCC(rest.prefix(8).suffix(4)) ?? "????"
      var size = Int(UInt32(reading: rest.prefix(4)))
      var length = 8
      if size == 1, rest.count >= 16 {
        (size, length) = (Int(exactly: UInt64(reading: rest.prefix(16).suffix(8))) ?? -1, 16)
      } else if size == 0 {
        size = rest.count
      }
      guard size >= length, size <= rest.count else {
        throw MovieError(.movieCorrupt, "a \(type) box of the index claims \(size) bytes, \(rest.count) are left")
      }
      let payload = rest.prefix(size).dropFirst(length)
      if type == "trak" {
        tracks.append(Track())
        if tracks.count > 64 { throw MovieError(.limit, "more than 64 tracks") }
      }
      if Self.containers.contains(type) {
        try walk(payload, in: type, depth: depth + 1)
      } else {
        try look(type, payload, in: parent)
      }
      rest = rest.dropFirst(size)
    }
  }

  private mutating func look(_ type: String, _ payload: ArraySlice<UInt8>, in parent: String) throws {
    func word(_ index: Int) -> Int { Int(UInt32(reading: payload.dropFirst(4 * index).prefix(4))) }
    func check(_ count: Int, entries bytes: Int, after header: Int) throws {
      guard count <= (payload.count - header) / bytes else {
        throw MovieError(.movieCorrupt, "the \(type) box claims \(count) entries; its \(payload.count) bytes have no room for them")
      }
    }
    let track = tracks.indices.last
    switch type {
    case "cmov", "hoov", "moov": throw Self.hiddenIndex(type)
    case "trun" where payload.count >= 8:
      fragmentSamples += word(1)
      if fragmentSamples > limits.samples {
        throw MovieError(.limit, "the fragments claim \(fragmentSamples) samples, over the limit of \(limits.samples)")
      }
    case "tkhd" where payload.count >= 24:
      if let track { tracks[track].id = word(payload.first == 1 ? 5 : 3) }
    // QuickTime's media information has a handler, too, of how its data is stored.
    case "hdlr" where payload.count >= 12 && parent == "mdia":
      if let track, tracks[track].handler.isEmpty { tracks[track].handler = Self.fourCC(payload.dropFirst(8).prefix(4)) ?? "" }
    case "vmhd":
      if let track { tracks[track].hasVideoHeader = true }
    // A reference from a track of depth, of other auxiliary images, or of thumbnails to the images (ISO/IEC 14496-12, 8.3.3).
    case "vdep" where parent == "tref", "auxl" where parent == "tref", "thmb" where parent == "tref":
      if let track { tracks[track].isAuxiliary = true }
    case "mdhd" where payload.count >= 24:
      if word(payload.first == 1 ? 5 : 3) == 0 { throw MovieError(.movieCorrupt, "a track has no time scale: mdhd has 0 ticks per second") }
    case "stsd" where payload.count >= 16:
      guard let track else { return }
      tracks[track].format = Self.fourCC(payload.dropFirst(12).prefix(4)) ?? ""
    case "stsz" where payload.count >= 12:
      let (fixed, count) = (word(1), word(2))
      if count > limits.samples {
        throw MovieError(.limit, "a track claims \(count) samples, over the limit of \(limits.samples)")
      }
      if fixed == 0 { try check(count, entries: 4, after: 12) }
      if let track { tracks[track].sampleCount = count }
    case "stts" where payload.count >= 8, "ctts" where payload.count >= 8: try check(word(1), entries: 8, after: 8)
    case "stsc" where payload.count >= 8: try check(word(1), entries: 12, after: 8)
    case "stco" where payload.count >= 8, "stss" where payload.count >= 8: try check(word(1), entries: 4, after: 8)
    case "co64" where payload.count >= 8: try check(word(1), entries: 8, after: 8)
    case "elst" where payload.count >= 8: try editList(payload)
    case "dref" where payload.count >= 8: try dataReferences(payload)
    default: break
    }
  }

  private mutating func editList(_ payload: ArraySlice<UInt8>) throws {
    let isLong = payload.first == 1
    let bytes = isLong ? 20 : 12
    let count = Int(UInt32(reading: payload.dropFirst(4).prefix(4)))
    guard count <= (payload.count - 8) / bytes else { throw MovieError(.movieCorrupt, "the elst box has no room for its \(count) entries") }
    guard count <= Self.editLimit else {
      throw MovieError(.limit, "an edit list has \(count) entries, over the limit of \(Self.editLimit)")
    }
    hasEditList = hasEditList || count > 0
    for entry in 0..<count {
      let rate = payload.dropFirst(8 + entry * bytes + bytes - 4).prefix(4)
      if UInt32(reading: rate) != 0x0001_0000 { isRetimed = true }
    }
  }

  /// Throws for a reference to data in another file; bit 0 of an entry's flags is set where the data is in this file.
  private func dataReferences(_ payload: ArraySlice<UInt8>) throws {
    var rest = payload.dropFirst(8)
    while rest.count >= 12 {
      let size = Int(UInt32(reading: rest.prefix(4)))
      guard size >= 12, size <= rest.count else { break }
      if rest.dropFirst(11).first.map({ $0 & 1 == 0 }) ?? true {
        let type = Self.fourCC(rest.dropFirst(4).prefix(4)) ?? "????"
        throw MovieError(.movieExternalData, "the video refers to data in another file (a \(type) reference), which is never opened")
      }
      rest = rest.dropFirst(size)
    }
  }
}

extension FixedWidthInteger {
  /// A big-endian number from these bytes.
  fileprivate init(reading bytes: some Sequence<UInt8>) { self = bytes.reduce(0) { $0 << 8 | Self($1) } }
}

/// The index of a video, which a recorder writes last.
package enum MovieIndex {
  /// Reads the boxes of the index without decoding anything. Throws `MovieError` where they are missing or wrong.
  package static func check(_ input: FileSlice) throws { _ = try MovieBoxes(input, limits: MovieLimits()) }
}
