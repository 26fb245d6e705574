import Evidence
import Foundation

/// What a zip or tar lists, examined without unpacking it. An archive from which something could escape, or which claims more than it can
/// hold, is a `Problem` as a whole.
struct ArchiveContents {
  enum Format: String { case zip, tar }

  /// Why an archive is refused, as the end of a sentence about it. The names in it are not repeated.
  struct Problem: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
  }

  let format: Format
  /// Whether it holds a bundle with a hash chain rather than a session.
  private(set) var isBundle = false
  private var members = 0
  private var names: Set<Int> = []
  private var total: Int64 = 0

  /// The limits with which the archives are converted.
  static let memberLimit = 200_000
  private static let byteLimit: Int64 = 64 << 30
  private static let ratioLimit: Int64 = 200
  static let nameLimit = 4096

  /// The result is `nil` for a file that is neither a zip nor a tar. Throws `Problem`, and `Failure` where the file cannot be read.
  init?(_ file: ArchiveFile, start: [UInt8]) throws {
    if start.starts(with: [0x50, 0x4B, 3, 4]) || start.starts(with: [0x50, 0x4B, 5, 6]) {
      format = .zip
      try ZipList.read(file) { try add(name: $0, kind: $1, bytes: $2) }
    } else if TarList.isHeader(start) {
      format = .tar
      do {
        try TarList.read(file.bytes, { try file.bytes(at: $0.lowerBound, count: $0.count) }) {
          try add(name: $0.name[...], kind: $0.kind, bytes: Int64($0.data.count))
          return true
        }
      } catch let malformed as TarList.Malformed {
        throw Problem(malformed.description)
      }
    } else {
      return nil
    }
    guard total / Self.ratioLimit <= file.bytes else {
      throw Problem("its members claim more than \(Self.ratioLimit) times the bytes of the archive")
    }
    if names.isEmpty { throw Problem("it has no files") }
  }

  private mutating func add(name: ArraySlice<UInt8>, kind: MemberKind, bytes: Int64) throws {
    members += 1
    guard members <= Self.memberLimit else { throw Problem("it has more than \(Self.memberLimit) members") }
    // Zips from Windows separate with backslashes.
    let name = name.map { $0 == UInt8(ascii: "\\") ? UInt8(ascii: "/") : $0 }
    let parts = name.split(separator: UInt8(ascii: "/")).filter { $0 != [UInt8(ascii: ".")] }
    guard name.count <= Self.nameLimit, !name.contains(0) else { throw Problem("it has a member with an impossible name") }
    guard name.first != UInt8(ascii: "/"), !(name.count > 1 && name[1] == UInt8(ascii: ":")) else {
      throw Problem("it has a member with an absolute name")
    }
    guard !parts.contains([UInt8(ascii: "."), UInt8(ascii: ".")]) else { throw Problem("it has a member with .. in its name") }
    switch kind {
    case .folder: return
    case .link: throw Problem("it has a link")
    case .other: throw Problem("it has a device or a pipe")
    case .file: break
    }
    var hasher = Hasher()
    hasher.combine(parts.count)
    for part in parts { hasher.combine(Array(part)) }
    guard !parts.isEmpty, names.insert(hasher.finalize()).inserted else { throw Problem("it has two members of the same name") }
    let (sum, overflows) = total.addingReportingOverflow(bytes)
    guard bytes >= 0, !overflows, sum <= Self.byteLimit else { throw Problem("its members claim more than \(Self.byteLimit) bytes") }
    total = sum
    if let last = parts.last, last.elementsEqual("hash_chain.json".utf8) { isBundle = true }
  }
}

/// A file that is read here and there.
struct ArchiveFile {
  let descriptor: Int32
  let bytes: Int64

  /// At most `count` bytes; fewer at the end of the file. Throws `Failure`.
  func bytes(at offset: Int64, count: Int) throws -> [UInt8] {
    guard offset >= 0, offset < bytes, count > 0 else { return [] }
    var found = [UInt8](repeating: 0, count: Int(min(Int64(count), bytes - offset)))
    var done = 0
    while done < found.count {
      let got = found.withUnsafeMutableBytes { bytes in
        let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[done...])
        return pread(descriptor, rest.baseAddress, rest.count, off_t(offset) + off_t(done))
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { throw DurableFile.failure("read", "an archive") }
      done += got
    }
    return found
  }
}
