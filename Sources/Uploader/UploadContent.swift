import Evidence
import Foundation

/// The bytes that are sent for a capture: a file as it is, or a folder as an uncompressed tar. Any range can be read, and the same files
/// give the same bytes, so that an upload resumes at any offset. The tar itself is never made, nor are its headers kept.
struct UploadContent: Sendable {
  /// The files were changed while they were read.
  struct Changed: Error {}

  let tree: FileTree
  let count: Int64
  /// The folder's name in the tar.
  private let name: String
  /// Offset of each file, or of its header in a tar; at the end the offset of what follows the last one.
  private let starts: [Int64]

  /// - Parameter name: The folder's name in the tar. Throws `FileTree.Problem`.
  init(_ tree: FileTree, name: String) throws {
    (self.tree, self.name) = (tree, name)
    var starts: [Int64] = [0]
    starts.reserveCapacity(tree.files.count + 1)
    var count: Int64 = 0
    func add(_ bytes: Int64) throws {
      let (sum, overflows) = count.addingReportingOverflow(bytes)
      guard !overflows else { throw FileTree.Problem(description: "\(tree.root): it is too large") }
      count = sum
    }
    for file in tree.files {
      if tree.isFolder { try add(Int64(TarBlocks.header(of: name + "/" + file.path, bytes: file.bytes).count)) }
      try add(file.bytes)
      if tree.isFolder { try add(Int64(TarBlocks.padding(after: file.bytes).count)) }
      starts.append(count)
    }
    if tree.isFolder { try add(Int64(TarBlocks.end.count)) }
    (self.starts, self.count) = (starts, count)
  }

  /// The header of a file in the tar; empty where the file is sent as it is.
  private func header(_ file: FileTree.File) -> [UInt8] {
    tree.isFolder ? TarBlocks.header(of: name + "/" + file.path, bytes: file.bytes) : []
  }

  /// Some bytes below `count`. Throws `Changed` where a file has become another, `FileTree.Problem` where one cannot be read.
  func read(_ range: Range<Int64>) throws -> Data {
    // All zeros, as is whatever lies between the files and their headers.
    var data = Data(count: Int(range.upperBound - range.lowerBound))
    try data.withUnsafeMutableBytes { buffer in
      /// The part of the buffer for a stretch of the content, with the offset there; `nil` outside of the range.
      func part(_ start: Int64, _ count: Int64) -> (buffer: UnsafeMutableRawBufferPointer, offset: Int64)? {
        let (low, high) = (max(start, range.lowerBound), min(start + count, range.upperBound))
        guard low < high else { return nil }
        let slice = buffer[Int(low - range.lowerBound)..<Int(high - range.lowerBound)]
        return (UnsafeMutableRawBufferPointer(rebasing: slice), low - start)
      }
      var index = firstFile(at: range.lowerBound)
      while index < tree.files.count, starts[index] < range.upperBound {
        let file = tree.files[index]
        let header = header(file)
        if let (buffer, offset) = part(starts[index], Int64(header.count)) {
          buffer.copyBytes(from: header[Int(offset)...].prefix(buffer.count))
        }
        if let (buffer, offset) = part(starts[index] + Int64(header.count), file.bytes) { try read(file, offset, into: buffer) }
        index += 1
      }
    }
    return data
  }

  /// The last file that begins at or before an offset.
  private func firstFile(at offset: Int64) -> Int {
    var (low, high) = (0, starts.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if starts[middle] <= offset { low = middle } else { high = middle }
    }
    return low
  }

  private func read(_ file: FileTree.File, _ offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws {
    let path = file.path.isEmpty ? tree.root : tree.root + "/" + file.path
    // The root may be a link, a file below it must not have become one.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (file.path.isEmpty ? 0 : O_NOFOLLOW))
    guard descriptor >= 0 else {
      if errno == ENOENT || errno == ELOOP { throw Changed() }
      throw FileTree.Problem(description: "\(path): it cannot be read: \(String(cString: strerror(errno)))")
    }
    defer { close(descriptor) }
    func isSame() -> Bool {
      var status = stat()
      return fstat(descriptor, &status) == 0 && Int64(status.st_size) == file.bytes && FileTree.nanoseconds(status) == file.modifiedAt
    }
    guard isSame() else { throw Changed() }
    var done = 0
    while done < buffer.count {
      let got = pread(descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(offset) + off_t(done))
      if got < 0, errno == EINTR { continue }
      guard got >= 0 else { throw FileTree.Problem(description: "\(path): it cannot be read: \(String(cString: strerror(errno)))") }
      guard got > 0 else { throw Changed() }
      done += got
    }
    // Also not while it was read.
    guard isSame() else { throw Changed() }
  }

  /// Digests of all the bytes and, in the same pass, of each file. Throws like `read`.
  ///
  /// - Parameters:
  ///   - withFiles: Whether the digest of each file is wanted.
  ///   - continues: Asked after every few megabytes; where it says no, `CancellationError` is thrown.
  func digests(withFiles: Bool = false, _ continues: () -> Bool = { true }) throws -> (all: String, files: [String]) {
    let all = SHA256()
    var files: [String] = []
    guard tree.isFolder else {
      try read(0..<count, continues) { all.update($0) }
      let digest = all.finish().description
      return (digest, withFiles ? [digest] : [])
    }
    for (index, file) in tree.files.enumerated() {
      let header = header(file)
      all.update(header)
      let own = SHA256()
      let start = starts[index] + Int64(header.count)
      try read(start..<start + file.bytes, continues) {
        all.update($0)
        if withFiles { own.update($0) }
      }
      if withFiles { files.append(own.finish().description) }
      all.update([UInt8](repeating: 0, count: Int(starts[index + 1] - start - file.bytes)))
    }
    all.update(TarBlocks.end)
    return (all.finish().description, files)
  }

  /// Some bytes, a block at a time.
  private func read(_ range: Range<Int64>, _ continues: () -> Bool, _ body: (UnsafeRawBufferPointer) -> Void) throws {
    var offset = range.lowerBound
    repeat {
      let next = min(offset + 4 << 20, range.upperBound)
      try read(offset..<next).withUnsafeBytes(body)
      offset = next
      guard continues() else { throw CancellationError() }
    } while offset < range.upperBound
  }
}
