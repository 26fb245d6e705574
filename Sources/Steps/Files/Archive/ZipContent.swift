import CZip
import Evidence
import Foundation
import Media
import Model
import Synchronization

/// A zip read through libzip, which serves one thread per opening of the file.
final class ZipContent: ArchiveContent {
  let entries: [ArchiveEntry]
  private let path: String
  private let stamp: FileStamp
  private let free = Mutex<[Handle]>([])

  /// One opening of the file. `@unchecked Sendable`: only one thread at a time uses it.
  private final class Handle: @unchecked Sendable {
    let zip: OpaquePointer

    init(_ file: InputFile) throws {
      // libzip closes the descriptor.
      let descriptor = dup(file.descriptor)
      guard descriptor >= 0 else { throw FileError("open", file.path) }
      var code: Int32 = 0
      guard let zip = zip_fdopen(descriptor, 0, &code) else {
        close(descriptor)
        var error = zip_error_t()
        zip_error_init_with_code(&error, code)
        defer { zip_error_fini(&error) }
        let words = String(cString: zip_error_strerror(&error))
        // A disk that fails says nothing of the archive; offsets that lead nowhere do.
        if zip_error_system_type(&error) == ZIP_ET_SYS, [EIO, ENOMEM, ESTALE].contains(zip_error_code_system(&error)) {
          throw TakeFailure(.unreadable, "cannot read: \(words)")
        }
        // The file is open; what libzip does not find is a field of the list.
        throw ArchiveError(code == ZIP_ER_NOENT ? "its list of members lacks a field, such as a size of 64 bits" : words)
      }
      self.zip = zip
    }

    deinit { zip_discard(zip) }

    var failure: ArchiveError { ArchiveError(String(cString: zip_strerror(zip))) }
  }

  init(_ file: InputFile, limit: Int) throws {
    func bytes(_ range: Range<Int64>) -> [UInt8] {
      var bytes = [UInt8](repeating: 0, count: range.count)
      guard pread(file.descriptor, &bytes, bytes.count, off_t(range.lowerBound)) == bytes.count else { return [] }
      return bytes
    }
    // libzip would list them all before the limit could be checked.
    let claimed = ZipList.claimedCount(file.stamp.bytes, bytes)
    if let claimed, claimed > limit {
      throw TakeFailure(.limit, "it has \(claimed) members, over \(limit) (max-archive-entries)")
    }
    if let problem = ZipList.problem(file.stamp.bytes, bytes) { throw ArchiveError(problem) }
    let handle = try Handle(file)
    (path, stamp) = (file.path, file.stamp)
    let count = Int(zip_get_num_entries(handle.zip, 0))
    // One more than the limit is enough to notice it.
    entries = try (0..<min(count, limit + 1)).map { try Self.entry($0, handle) }
    free.withLock { $0.append(handle) }
  }

  private static func entry(_ number: Int, _ handle: Handle) throws -> ArchiveEntry {
    let index = zip_uint64_t(number)
    var stat = zip_stat_t()
    guard zip_stat_index(handle.zip, index, 0, &stat) == 0, let raw = zip_get_name(handle.zip, index, ZIP_FL_ENC_RAW) else {
      throw handle.failure
    }
    let name = Array(UnsafeBufferPointer(start: raw, count: strlen(raw))).map { UInt8(bitPattern: $0) }
    var (system, attributes): (zip_uint8_t, zip_uint32_t) = (0, 0)
    zip_file_get_external_attributes(handle.zip, index, 0, &system, &attributes)
    let kind = MemberKind(mode: attributes >> 16)
    if name.last == UInt8(ascii: "/") { return ArchiveEntry(name: name, kind: kind == .file ? .folder : kind, bytes: 0) }
    let shown = String(decoding: name, as: UTF8.self)
    guard stat.encryption_method == ZIP_EM_NONE else { throw ArchiveError("the member \(shown) is encrypted") }
    guard zip_compression_method_supported(Int32(stat.comp_method), 0) == 1 else {
      throw ArchiveError("the member \(shown) is compressed by method \(stat.comp_method), which is not supported")
    }
    guard let bytes = Int64(exactly: stat.size) else { throw ArchiveError("the member \(shown) claims \(stat.size) bytes") }
    return ArchiveEntry(name: name, kind: kind, bytes: bytes)
  }

  func open(_ entry: Int) throws -> any MemberReader { try Reader(self, entry) }

  /// A member's bytes in any order. Deflated data can only be read forwards, so callers that alternate between several places, like the
  /// threads that decode a video, get an inflater for each place.
  func slice(_ entry: Int) throws -> FileSlice {
    let idle = Mutex<[Reader]>([try Reader(self, entry)])
    return FileSlice(count: entries[entry].bytes) { buffer, offset in
      let near = idle.withLock { idle -> Reader? in
        let best = idle.indices.filter { idle[$0].position <= offset }.max { idle[$0].position < idle[$1].position }
        return best.map { idle.remove(at: $0) }
      }
      do {
        let reader = try near ?? Reader(self, entry)
        try reader.skip(to: offset)
        let count = try reader.read(into: buffer)
        idle.withLock { idle in
          idle.append(reader)
          if idle.count > Self.inflaters { idle.removeFirst() }
        }
        return count
      } catch let error as ArchiveError {
        throw FileSlice.Failure(description: error.message)
      }
    }
  }
  private static let inflaters = 4

  private func takeHandle() throws -> Handle {
    if let handle = free.withLock({ $0.popLast() }) { return handle }
    let file = try InputFile(path)
    guard file.stamp == stamp else { throw TakeFailure(.changedWhileReading, "the file was changed while it was read") }
    return try Handle(file)
  }

  /// `@unchecked Sendable`: only one thread at a time uses it.
  private final class Reader: MemberReader, @unchecked Sendable {
    private(set) var position: Int64 = 0
    private let content: ZipContent
    private let handle: Handle
    private let file: OpaquePointer

    init(_ content: ZipContent, _ entry: Int) throws {
      self.content = content
      handle = try content.takeHandle()
      guard let file = zip_fopen_index(handle.zip, zip_uint64_t(entry), 0) else { throw handle.failure }
      self.file = file
    }

    deinit {
      zip_fclose(file)
      let handle = handle
      content.free.withLock { $0.append(handle) }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
      let count = zip_fread(file, buffer.baseAddress, zip_uint64_t(buffer.count))
      guard count >= 0 else {
        throw ArchiveError(String(cString: zip_file_strerror(file)))
      }
      position += Int64(count)
      return Int(count)
    }

    func skip(to offset: Int64) throws {
      try withBuffer(of: 1 << 16) { buffer in
        while position < offset {
          let wanted = Int(min(offset - position, Int64(buffer.count)))
          if try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])) == 0 { return }
        }
      }
    }
  }
}
