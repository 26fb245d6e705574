import Evidence
import Foundation
import Media
import Model

/// A tar file, whose members are byte ranges of it.
struct TarContent: ArchiveContent {
  private(set) var entries: [ArchiveEntry] = []
  private var ranges: [Range<Int64>] = []
  private let file: FileSlice

  init(_ input: InputFile, limit: Int) throws {
    let descriptor = dup(input.descriptor)
    guard descriptor >= 0 else { throw FileError("open", input.path) }
    file = FileSlice(descriptor: descriptor, count: input.stamp.bytes)
    do {
      // One more than the limit is enough to notice it.
      try TarList.read(file.count, file.bytes) { member in
        entries.append(ArchiveEntry(name: member.name, kind: member.kind, bytes: Int64(member.data.count)))
        ranges.append(member.data)
        return entries.count <= limit
      }
    } catch let failure as FileSlice.Failure {
      throw TakeFailure(.unreadable, "cannot read: \(failure.description)")
    } catch let malformed as MalformedArchive {
      throw ArchiveError(malformed.description)
    }
  }

  func open(_ entry: Int) -> any MemberReader { Reader(slice(entry)) }

  func slice(_ entry: Int) -> FileSlice { file[ranges[entry]] }

  private final class Reader: MemberReader {
    private let slice: FileSlice
    private var offset: Int64 = 0

    init(_ slice: FileSlice) { self.slice = slice }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
      do {
        let count = try slice.read(into: buffer, at: offset)
        offset += Int64(count)
        return count
      } catch let failure as FileSlice.Failure {
        throw ArchiveError(failure.description)
      }
    }
  }
}
