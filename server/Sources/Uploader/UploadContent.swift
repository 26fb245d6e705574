import Crypto
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
      if tree.isFolder { try add(Int64(TarHeader.bytes(path: name + "/" + file.path, size: file.bytes).count)) }
      try add(file.bytes)
      if tree.isFolder { try add((512 - file.bytes % 512) % 512) }
      starts.append(count)
    }
    if tree.isFolder { try add(Self.end) }
    (self.starts, self.count) = (starts, count)
  }

  /// Zeros at the end of a tar.
  private static let end: Int64 = 1024

  /// The header of a file in the tar; empty where the file is sent as it is.
  private func header(_ file: FileTree.File) -> [UInt8] {
    tree.isFolder ? TarHeader.bytes(path: name + "/" + file.path, size: file.bytes) : []
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
  ///   - goesOn: Asked after every few megabytes; where it says no, `CancellationError` is thrown.
  func digests(withFiles: Bool = false, _ goesOn: () -> Bool = { true }) throws -> (all: String, files: [String]) {
    var all = SHA256()
    var files: [String] = []
    guard tree.isFolder else {
      try read(0..<count, goesOn) { all.update(data: $0) }
      let digest = hex(all.finalize())
      return (digest, withFiles ? [digest] : [])
    }
    for (index, file) in tree.files.enumerated() {
      let header = header(file)
      all.update(data: header)
      var own = SHA256()
      let start = starts[index] + Int64(header.count)
      try read(start..<start + file.bytes, goesOn) {
        all.update(data: $0)
        if withFiles { own.update(data: $0) }
      }
      if withFiles { files.append(hex(own.finalize())) }
      all.update(data: [UInt8](repeating: 0, count: Int(starts[index + 1] - start - file.bytes)))
    }
    all.update(data: [UInt8](repeating: 0, count: Int(Self.end)))
    return (hex(all.finalize()), files)
  }

  /// Some bytes, a block at a time.
  private func read(_ range: Range<Int64>, _ goesOn: () -> Bool, _ body: (Data) -> Void) throws {
    var offset = range.lowerBound
    repeat {
      let next = min(offset + 4 << 20, range.upperBound)
      body(try read(offset..<next))
      offset = next
      guard goesOn() else { throw CancellationError() }
    } while offset < range.upperBound
  }
}

/// Header of a regular file in a tar (POSIX.1-2017, pax "ustar Interchange Format"), without time and owner, so that a copy of a folder
/// gives the same bytes.
enum TarHeader {
  static func bytes(path: String, size: Int64) -> [UInt8] {
    let name = Array(path.utf8)
    let isLarge = size >= 1 << 33
    guard let (prefix, rest) = split(name), !isLarge else {
      var records = record("path", name)
      if isLarge { records += record("size", Array("\(size)".utf8)) }
      let padding = [UInt8](repeating: 0, count: (512 - records.count % 512) % 512)
      let base = Array("pax/\(path.split(separator: "/").last.map(String.init) ?? "")".utf8.prefix(90))
      return block(prefix: [], name: base, size: Int64(records.count), type: "x") + records + padding
        + block(prefix: [], name: Array(name.suffix(90)), size: isLarge ? 0 : size, type: "0")
    }
    return block(prefix: prefix, name: rest, size: size, type: "0")
  }

  /// A name of up to 100 bytes, or two parts of up to 155 and 100 bytes between which a slash was; ASCII only.
  private static func split(_ name: [UInt8]) -> (prefix: [UInt8], rest: [UInt8])? {
    guard name.allSatisfy({ $0 < 0x80 }) else { return nil }
    if name.count <= 100 { return ([], name) }
    guard let slash = name.indices.first(where: { name[$0] == UInt8(ascii: "/") && name.count - $0 - 1 <= 100 }), slash <= 155, slash > 0
    else { return nil }
    return (Array(name[..<slash]), Array(name[(slash + 1)...]))
  }

  /// `<length> <key>=<value>\n`, where the length includes the complete record.
  private static func record(_ key: String, _ value: [UInt8]) -> [UInt8] {
    let body = Array(" \(key)=".utf8) + value + [UInt8(ascii: "\n")]
    var length = body.count + 1
    while "\(length)".utf8.count + body.count != length { length = "\(length)".utf8.count + body.count }
    return Array("\(length)".utf8) + body
  }

  private static func block(prefix: [UInt8], name: [UInt8], size: Int64, type: Character) -> [UInt8] {
    var block = [UInt8](repeating: 0, count: 512)
    func put(_ bytes: some Collection<UInt8>, at offset: Int) { for (index, byte) in bytes.enumerated() { block[offset + index] = byte } }
    func octal(_ number: Int64, _ width: Int) -> [UInt8] {
      let digits = String(number, radix: 8)
      return Array((String(repeating: "0", count: max(width - digits.count, 0)) + digits).utf8)
    }
    put(name, at: 0)
    put(octal(0o644, 7), at: 100)
    put(octal(0, 7), at: 108)
    put(octal(0, 7), at: 116)
    put(octal(size, 11), at: 124)
    put(octal(0, 11), at: 136)
    put([UInt8](repeating: UInt8(ascii: " "), count: 8), at: 148)
    put("\(type)".utf8, at: 156)
    put("ustar\u{0}00".utf8, at: 257)
    put(prefix, at: 345)
    let sum = block.reduce(Int64(0)) { $0 + Int64($1) }
    put(octal(sum, 6) + [0, UInt8(ascii: " ")], at: 148)
    return block
  }
}
