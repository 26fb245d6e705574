package import Evidence
import Foundation
import Model
import Steps

/// A manifest as read from disk, a window at a time: of each take only a `TakeEntry` is kept, and its record is read when it is asked for.
/// Memory therefore grows by a few hundred bytes a take, whatever the manifest's layout and size.
///
/// The file stays open: it is the same one as long as this lasts, even if a run replaces it.
package final class ManifestFile: Sendable {
  /// The record without its takes; `nil` where it cannot be understood.
  let record: ManifestRecord?
  /// The takes in order; empty where one of them cannot be understood.
  let takes: [TakeEntry]
  /// The members of the record, except its takes.
  private let members: [String: JSONValue]
  /// The recorded digest of the record.
  let recordDigest: String
  /// The run without its member `takes`, which `locations` reads.
  let run: JSONValue
  /// Whether it is of format 1.
  let isEarlier: Bool

  private let file: ManifestBytes
  /// Byte ranges of the values of `record`, `run` and `run.takes` in the file.
  private let places: [String: Range<Int64>]
  private let runDigest: String
  private let hasOtherMembers: Bool

  private static let takesOfRun = "run.takes"

  /// Throws `FileError` or `TakeFailure` where it cannot be read, `JSONError` where it is not a JSON object.
  init(_ directory: String) throws {
    let file = try ManifestBytes(directory + "/" + DatasetFiles.manifest)
    let reader = file.reader(from: 0)
    var places: [String: Range<Int64>] = [:]
    var takes: [TakeEntry]? = []
    /// Reads a member's value and notes where it is.
    func noting(_ name: String, _ read: () throws -> JSONValue) throws -> JSONValue {
      let start = reader.offset
      let value = try read()
      places[name] = start..<reader.offset
      return value
    }
    let document = try reader.object { key in
      guard ["record", "run"].contains(key), try reader.nextIsObject else { return nil }
      return try noting(key) {
        .object(
          try reader.object(depth: 1) { member in
            guard member == "takes" else { return nil }
            if key == "run" {
              return try noting(Self.takesOfRun) {
                try reader.skip(depth: 2)
                return .null
              }
            }
            guard try reader.nextIsArray else { return nil }
            takes = try Self.takes(reader, file)
            return []
          })
      }
    }
    try reader.expectEnd()
    self.file = file
    self.places = places
    run = document["run"] ?? .null
    (recordDigest, runDigest) = (document["record_sha256"]?.string ?? "", document["run_sha256"]?.string ?? "")
    isEarlier = document["record"]?["manifest_version"]?.integer == 1
    hasOtherMembers = Set(document.keys) != ["record", "record_sha256", "run", "run_sha256"]
    members = document["record"]?.object ?? [:]
    let record = document["record"]?.object.flatMap { $0["takes"] == [] ? ManifestRecord($0) : nil }
    (self.record, self.takes) = takes == nil ? (nil, []) : (record, takes ?? [])
  }

  /// The takes' entries; `nil` if one of them cannot be understood. The text is checked to its end, so that damage is named by its place.
  private static func takes(_ reader: JSONReader, _ file: ManifestBytes) throws -> [TakeEntry]? {
    var takes: [TakeEntry]? = []
    var isFirst = true
    try reader.beginArray()
    while try reader.nextElement(isFirst: &isFirst) {
      let start = reader.offset
      try reader.skip(depth: 3)
      let place = start..<reader.offset
      guard takes != nil else { continue }
      if let take = try? TakeEntry(json: file.bytes(place), at: place) { takes?.append(take) } else { takes = nil }
    }
    return takes
  }

  /// The record of a take. Throws `FileError`, or another error where it cannot be understood.
  func record(of take: TakeEntry) throws -> TakeRecord { try TakeRecord(json: file.bytes(take.place)) }

  /// Writes the manifest again with other members of its record, where it is what Takeset wrote; takes keep their bytes.
  ///
  /// - Parameter stamp: The text `run.index`.
  func rewrite(to path: String, _ change: (inout [String: JSONValue]) -> Void, stamp: String) throws {
    var text = ManifestText(record: members, run: run.object ?? [:])
    change(&text.record)
    (text.record["takes"], text.run["takes"], text.run["index"]) = (nil, nil, .string(stamp))
    /// Without line ends, which may be anywhere between values.
    func canonical(_ place: Range<Int64>) throws -> [UInt8] {
      let bytes = try file.bytes(place)
      return bytes.contains(UInt8(ascii: "\n")) ? bytes.filter { $0 != UInt8(ascii: "\n") } : bytes
    }
    let places = try places[Self.takesOfRun].map(canonical) ?? Array("{}".utf8)
    try text.write(to: path, takes: takes.count, runTakes: CollectionOfOne(places)) { try canonical(takes[$0].place) }
  }

  /// Returns the paths of the wanted takes when they were converted, by id.
  func locations(_ isWanted: (String) -> Bool = { _ in true }) throws -> [String: String] {
    guard let place = places[Self.takesOfRun] else { return [:] }
    let reader = file.reader(from: place.lowerBound)
    guard try reader.nextIsObject else { return [:] }
    var locations: [String: String] = [:]
    try reader.members { id in
      guard isWanted(id) else { return false }
      locations[id] = try reader.value()["location"]?.string
      return true
    }
    return locations
  }

  /// The labels that the manifest in a directory records, without reading its takes; none where there is no manifest that can be read.
  package static func labels(in directory: String) -> [String: Labels] { ManifestRecord.labels(head(["labels"], in: directory)["labels"]) }

  /// Members of the record that come before its takes, such as its index, its labels and its pipeline; as many as can be read.
  package static func head(_ names: Set<String>, in directory: String) -> [String: JSONValue] {
    guard let file = try? ManifestBytes(directory + "/" + DatasetFiles.manifest) else { return [:] }
    let reader = file.reader(from: 0)
    var (found, isFirst): ([String: JSONValue], Bool) = ([:], true)
    try? reader.beginObject()
    guard (try? reader.nextKey(isFirst: &isFirst)) == "record", (try? reader.nextIsObject) == true else { return [:] }
    isFirst = true
    try? reader.beginObject()
    // Keys are sorted, so these are before the takes.
    while found.count < names.count, let key = try? reader.nextKey(isFirst: &isFirst), key < "takes" {
      guard names.contains(key) else {
        if (try? reader.skip()) == nil { break }
        continue
      }
      guard let value = try? reader.value() else { break }
      found[key] = value
    }
    return found
  }

  /// The text `run.index`, without reading the takes; `nil` if there is none where Takeset writes it.
  package static func indexStamp(in directory: String) throws -> String? {
    let file = try ManifestBytes(directory + "/" + DatasetFiles.manifest)
    guard let place = try file.lastPlace(after: "\n\"run\":") else { return nil }
    let reader = file.reader(from: place)
    var isFirst = true
    try reader.beginObject()
    // Keys are sorted, so this one is before the takes.
    while let key = try reader.nextKey(isFirst: &isFirst) {
      if key == "index" { return try reader.value().string }
      try reader.skip()
    }
    return nil
  }

  /// Whether the file is what Takeset wrote, byte for byte, by its two digests and what `Manifest` writes around them. Parses nothing, so
  /// that a run that has nothing to do can ask.
  package static func isAsWritten(in directory: String) throws -> Bool {
    let file = try ManifestBytes(directory + "/" + DatasetFiles.manifest)
    func digest(_ key: String) -> String { ",\n\"\(key)_sha256\":\"" }
    let (start, next) = ("{\n\"record\":\n", "\n\"run\":")
    let hexCount = Int64(Digest.of("").description.utf8.count)
    guard let run = try file.lastPlace(after: next), let runEnd = try file.lastPlace(after: digest("run")) else { return false }
    let (recordStart, recordEnd) = (Int64(start.utf8.count), run - Int64((digest("record") + "\"," + next).utf8.count) - hexCount)
    let bodyEnd = runEnd - Int64(digest("run").utf8.count)
    guard recordStart < recordEnd, run < bodyEnd else { return false }
    let (record, body) = (recordStart..<recordEnd, run..<bodyEnd)
    func has(_ place: Range<Int64>, _ text: String) throws -> Bool { try file.bytes(place) == Array(text.utf8) }
    return try has(0..<record.lowerBound, start)
      && has(record.upperBound..<run, digest("record") + file.digest(record).description + "\"," + next)
      && has(body.upperBound..<file.size, digest("run") + file.digest(body).description + "\"\n}\n")
  }

  /// Deviations from the form that Takeset writes, in sentences. Reads the file again, for its digests.
  func damage() throws -> [String] {
    var damage: [String] = []
    // Hash the bytes themselves: digits beyond a number's precision would not show in its value.
    for (key, recorded) in [("record", recordDigest), ("run", runDigest)] {
      let found = try places[key].map { try file.digest($0).description }
      if found != recorded {
        damage.append("its \(key)'s sha256 is \(found ?? "unknown"), recorded \(recorded.isEmpty ? "nothing" : recorded)")
      }
    }
    if hasOtherMembers { damage.append("it has other members than record, run and their digests") }
    if record == nil { damage.append("its record cannot be understood") }
    return damage
  }
}

/// The bytes of a manifest, from any thread.
private final class ManifestBytes: Sendable {
  private let path: String
  private let descriptor: Int32
  let size: Int64

  init(_ path: String) throws {
    let file = try InputFile(path)
    size = file.stamp.bytes
    descriptor = dup(file.descriptor)
    guard descriptor >= 0 else { throw FileError("open", path) }
    self.path = path
  }

  deinit { close(descriptor) }

  /// The end of the last occurrence of a text, searched a block at a time.
  func lastPlace(after text: String) throws -> Int64? {
    let key = Data(text.utf8)
    var end = size
    while end > 0 {
      let start = max(0, end - 1 << 20)
      // Blocks overlap, because the text may be at an edge.
      let block = Data(try bytes(start..<min(size, end + Int64(key.count))))
      if let found = block.range(of: key, options: .backwards) { return start + Int64(found.upperBound) }
      end = start
    }
    return nil
  }

  /// A reader from a place to the end of the file.
  func reader(from offset: Int64) -> JSONReader {
    var offset = offset
    return JSONReader { [self] buffer in
      let count = try read(into: buffer, at: offset)
      offset += Int64(count)
      return count
    }
  }

  /// The bytes at a place that was found in the file.
  func bytes(_ place: Range<Int64>) throws -> [UInt8] {
    try [UInt8](unsafeUninitializedCapacity: Int(place.upperBound - place.lowerBound)) { buffer, done in
      while done < buffer.count {
        let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[done...])
        let count = try read(into: rest, at: place.lowerBound + Int64(done))
        guard count > 0 else { throw TakeFailure(.changedWhileReading, "the file was cut off while it was read", file: path) }
        done += count
      }
    }
  }

  /// The digest of the canonical bytes at a place, as `Manifest` lays them out: without line ends.
  func digest(_ place: Range<Int64>) throws -> Digest {
    let hasher = SHA256()
    var offset = place.lowerBound
    try withBuffer(of: 1 << 18) { buffer in
      while offset < place.upperBound {
        let wanted = Int(min(Int64(buffer.count), place.upperBound - offset))
        let count = try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]), at: offset)
        guard count > 0 else { throw TakeFailure(.changedWhileReading, "the file was cut off while it was read", file: path) }
        var rest = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        while let base = rest.baseAddress, let end = memchr(base, 0x0A, rest.count) {
          let line = UnsafeRawPointer(end) - base
          hasher.update(UnsafeRawBufferPointer(rebasing: rest[..<line]))
          rest = UnsafeRawBufferPointer(rebasing: rest[(line + 1)...])
        }
        hasher.update(rest)
        offset += Int64(count)
      }
    }
    return hasher.finish()
  }

  /// The number of bytes read; 0 at the end.
  private func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
    while true {
      let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
      if count >= 0 { return count }
      if errno != EINTR { throw FileError("read", path) }
    }
  }
}
