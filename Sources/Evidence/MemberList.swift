/// The reason why a file is not an archive that can be read, as the end of a sentence about it. Names of members are not repeated.
public struct MalformedArchive: Error, Equatable, CustomStringConvertible {
  public var description: String
  init(_ description: String) { self.description = description }
}

/// The kind of a member of an archive.
public enum MemberKind: Sendable {
  case file, folder, link
  /// A device or a pipe.
  case other

  /// Makes the kind from the Unix mode, which is 0 where the archiver wrote none.
  public init(mode: UInt32) {
    self =
      switch mode & 0o170000 {
      case 0, 0o100000: .file
      case 0o040000: .folder
      case 0o120000: .link
      default: .other
      }
  }
}

/// The members of an archive, examined one after the other as its list names them. Nothing is unpacked; but one member that could escape if
/// it were, or a claim of more than an archive can hold, makes the whole archive be refused.
public struct MemberList: Sendable {
  /// The limits of an archive from an untrusted sender.
  public struct Limits: Sendable {
    public var members: Int
    public var bytes: Double
    /// Bytes of all members, as a multiple of those of the archive.
    public var ratio: Double

    public init(members: Int, bytes: Double, ratio: Double) { (self.members, self.bytes, self.ratio) = (members, bytes, ratio) }
  }

  /// The reason why a list is refused as a whole.
  public enum Refusal: Error, Equatable {
    /// A fault of one member, as the end of a sentence about it, such as `is a link`.
    case member(String)
    case tooManyMembers
    case tooManyBytes
    /// The bytes of all members are so many times those of the archive.
    case tooLarge(ratio: Int64)
  }

  /// Regular files so far, and their bytes.
  public private(set) var files = 0
  public private(set) var bytes: Int64 = 0
  private let limits: Limits
  private var members = 0
  /// Their paths, of long ones the digests.
  private var paths: Set<[UInt8]> = []

  private static let longestName = 4096

  public init(limits: Limits) { self.limits = limits }

  /// Examines the next member.
  ///
  /// - Parameter name: As in the archive.
  /// - Returns: The path of a regular file, `/`-separated, without `.` and empty parts; `nil` for a folder.
  /// - Throws: `Refusal`.
  public mutating func add(_ name: some Sequence<UInt8>, _ kind: MemberKind, bytes count: Int64) throws -> [UInt8]? {
    members += 1
    guard members <= limits.members else { throw Refusal.tooManyMembers }
    // Zips from Windows separate with backslashes.
    let slash = UInt8(ascii: "/"), dot = UInt8(ascii: ".")
    let name = name.map { $0 == UInt8(ascii: "\\") ? slash : $0 }
    let parts = name.split(separator: slash).filter { $0 != [dot] }
    if name.count > Self.longestName { throw Refusal.member("has a name of more than \(Self.longestName) bytes") }
    if name.contains(0) { throw Refusal.member("has a zero in its name") }
    if name.first == slash { throw Refusal.member("has an absolute name") }
    if name.count > 1, name[1] == UInt8(ascii: ":") { throw Refusal.member("names a drive") }
    if parts.contains([dot, dot]) { throw Refusal.member("has .. in its name") }
    switch kind {
    case .link: throw Refusal.member("is a link")
    case .other: throw Refusal.member("is a device or a pipe")
    case .folder: return nil
    case .file: break
    }
    let path = Array(parts.joined(separator: [slash]))
    if path.isEmpty { throw Refusal.member("has no name") }
    guard paths.insert(path.count <= 32 ? path : Digest.of(path).bytes).inserted else { throw Refusal.member("occurs twice") }
    let (sum, overflows) = bytes.addingReportingOverflow(count)
    guard count >= 0, !overflows, Double(sum) <= limits.bytes else { throw Refusal.tooManyBytes }
    (files, bytes) = (files + 1, sum)
    return path
  }

  /// Compares the bytes of all members with those of the archive. Throws `Refusal`.
  public func finish(archiveBytes: Int64) throws {
    guard Double(bytes) > limits.ratio * Double(archiveBytes) else { return }
    throw Refusal.tooLarge(ratio: archiveBytes > 0 ? bytes / archiveBytes : 0)
  }
}
