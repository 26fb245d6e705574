import Evidence
import Foundation
import Media
import Model

/// A zip or tar file whose members are read in place, without unpacking.
///
///     let archive = try Archive("take.zip", format: .zip, limits: Archive.Limits())
///     for member in archive.members { print(member.path, member.bytes) }
package final class Archive: Sendable {
  /// The format of an archive; both are listed in full before any member is read.
  package enum Format: String, Sendable { case zip, tar }

  /// A regular file in the archive.
  package struct Member: Sendable {
    /// `/`-separated, without `.` and empty components.
    package var path: String
    package var bytes: Int64
    /// Number among all entries, for the format's own code.
    var number: Int
  }

  /// Limits on the contents of an archive; options of the readers.
  package struct Limits: StepOptionGroup, Equatable {
    @StepOption("a zip or tar with more members fails the take", 1...10_000_000) package var maxArchiveEntries = 200_000
    @StepOption("a zip or tar whose members total more GiB fails the take", above: 0, through: 1_048_576)
    package var maxArchiveGibibytes = 64.0
    @StepOption("a zip whose members total more than this many times its own size fails the take", 1...1_000_000)
    package var maxArchiveRatio = 200.0

    package init() {}
  }

  package let path: String
  package let format: Format
  package let stamp: FileStamp
  package let members: [Member]
  /// Total size of the members, in bytes.
  package let bytes: Int64
  private let content: any ArchiveContent

  /// Lists the archive. Throws `TakeFailure`: `archive-unreadable`; `archive-hostile` for a member that could escape the archive; `limit`.
  package init(_ path: String, format: Format, limits: Limits) throws {
    let name = URL(fileURLWithPath: path).lastPathComponent
    do {
      let file = try InputFile(path)
      // Beside its members an archive has headers, and padding of 10 KiB at its end.
      let headers = Double(limits.maxArchiveEntries) * 2048 + 0x1p20
      guard Double(file.stamp.bytes) <= limits.maxArchiveGibibytes * 0x1p30 + headers else {
        throw TakeFailure(.limit, "it has more than \(limits.maxArchiveGibibytes) GiB (max-archive-gibibytes)")
      }
      let content: any ArchiveContent
      switch format {
      case .zip: content = try ZipContent(file, limit: limits.maxArchiveEntries)
      case .tar: content = try TarContent(file, limit: limits.maxArchiveEntries)
      }
      let checked = try Self.check(content.entries, archiveBytes: file.stamp.bytes, limits)
      (self.path, self.format, stamp, self.content) = (path, format, file.stamp, content)
      (members, bytes) = checked
    } catch let error as FileError {
      throw error.failure(name)
    } catch let error as ArchiveError {
      throw TakeFailure(.archiveUnreadable, "the \(format.rawValue) cannot be read: \(error.message)", file: name)
    } catch var failure as TakeFailure {
      failure.file = name
      throw failure
    }
  }

  /// Archive format according to the file's first bytes (512, or all of a shorter file), or else its extension; `nil` for other files.
  static func format(named name: String, start: [UInt8]) -> Format? {
    let ending = URL(fileURLWithPath: name).pathExtension.lowercased()
    if InputFile.isOther(ending) { return nil }
    if ZipList.isStart(start) { return .zip }
    if start.count >= 512, start[257...].starts(with: Array("ustar".utf8)) { return .tar }
    return Format(rawValue: ending)
  }

  /// The regular files among the entries.
  private static func check(_ entries: [ArchiveEntry], archiveBytes: Int64, _ limits: Limits) throws -> ([Member], Int64) {
    var list = MemberList(
      limits: .init(members: limits.maxArchiveEntries, bytes: limits.maxArchiveGibibytes * 0x1p30, ratio: limits.maxArchiveRatio))
    var members: [Member] = []
    for (number, entry) in entries.enumerated() {
      do {
        guard let path = try list.add(entry.name, entry.kind, bytes: entry.bytes) else { continue }
        members.append(Member(path: String(decoding: path, as: UTF8.self), bytes: entry.bytes, number: number))
      } catch let refusal as MemberList.Refusal {
        throw failure(refusal, entry, limits)
      }
    }
    do { try list.finish(archiveBytes: archiveBytes) } catch let refusal as MemberList.Refusal { throw failure(refusal, nil, limits) }
    return (members, list.bytes)
  }

  private static func failure(_ refusal: MemberList.Refusal, _ entry: ArchiveEntry?, _ limits: Limits) -> TakeFailure {
    switch refusal {
    case .member(let what):
      let shown = String(decoding: entry?.name.prefix(200) ?? [], as: UTF8.self).filter {
        !$0.isNewline && $0.asciiValue.map { $0 >= 0x20 } ?? true
      }
      return TakeFailure(.archiveHostile, "the member \"\(shown)\" \(what); the whole archive is refused")
    case .tooManyMembers:
      return TakeFailure(.limit, "it has more than \(limits.maxArchiveEntries) members (max-archive-entries)")
    case .tooManyBytes:
      return TakeFailure(.limit, "its members have more than \(limits.maxArchiveGibibytes) GiB (max-archive-gibibytes)")
    case .tooLarge(let ratio):
      return TakeFailure(
        .limit, "its members have \(ratio) times the bytes of the archive, over \(limits.maxArchiveRatio) times (max-archive-ratio)")
    }
  }

  /// The first bytes of a member, `count` of them or all. Throws `ArchiveError`.
  package func start(of member: Member, count: Int) throws -> [UInt8] {
    let reader = try open(member)
    var start = [UInt8](repeating: 0, count: min(count, Int(clamping: member.bytes)))
    try start.withUnsafeMutableBytes { buffer in
      var done = 0
      while done < buffer.count { done += try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[done...])) }
    }
    return start
  }

  /// A member's bytes from the first. Serves one thread; several may be open.
  package func open(_ member: Member) throws -> any MemberReader { CountedReader(try content.open(member.number), count: member.bytes) }

  /// A member's bytes in any order. Throws `ArchiveError`.
  func slice(_ member: Member) throws -> FileSlice { try content.slice(member.number) }

  /// Replaces `bytes` by a complete member, whose size was checked against the limits.
  package func read(_ member: Member, into bytes: inout [UInt8]) throws {
    let count = Int(member.bytes)
    if bytes.count != count { bytes = [UInt8](repeating: 0, count: count) }
    let reader = try open(member)
    var done = 0
    try bytes.withUnsafeMutableBytes { buffer in
      while done < count { done += try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[done...])) }
    }
    try reader.finish()
  }

  /// Returns exactly as many bytes as the archive lists, or throws.
  private final class CountedReader: MemberReader {
    private let base: any MemberReader
    private let count: Int64
    private var done: Int64 = 0

    init(_ base: any MemberReader, count: Int64) { (self.base, self.count) = (base, count) }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
      let got = try base.read(into: buffer)
      done += Int64(got)
      if done > count { throw ArchiveError("it has more than the \(count) bytes that the archive lists") }
      if got == 0, done < count { throw ArchiveError("it ends after \(done) of \(count) bytes") }
      return got
    }
  }
}

/// A problem with an archive or one of its members.
package struct ArchiveError: Error, CustomStringConvertible {
  var message: String
  package var description: String { message }
  init(_ message: String) { self.message = message }
}

/// Any entry that an archive lists.
struct ArchiveEntry {
  /// Name, as in the archive.
  var name: [UInt8]
  var kind: MemberKind
  var bytes: Int64
}

/// Access to one archive format: the list, and the bytes of an entry.
protocol ArchiveContent: Sendable {
  /// Entries in the archive's order.
  var entries: [ArchiveEntry] { get }
  func open(_ entry: Int) throws -> any MemberReader
  func slice(_ entry: Int) throws -> FileSlice
}

/// A reader of a member's contents, from the front to the back.
package protocol MemberReader {
  /// Fills the start of `buffer` and returns the number of bytes; 0 at the end. Throws `ArchiveError` where the data are damaged.
  func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int
}

extension MemberReader {
  /// Reads the rest, after which the checksum has been compared.
  func finish() throws {
    try withBuffer(of: 1 << 14) { buffer in
      while try read(into: buffer) > 0 {}
    }
  }
}
