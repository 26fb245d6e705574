import Crypto
import Foundation

/// The bytes that are sent for a capture: a file as it is, or a folder as an uncompressed tar. Any range can be read, and the same files
/// give the same bytes, so that an upload resumes at any offset. The tar itself is never made.
struct UploadContent: Sendable {
  /// A stretch of the content.
  private enum Piece: Sendable {
    case bytes([UInt8])
    case file(FileTree.File)
    case zeros(Int64)

    var count: Int64 {
      switch self {
      case .bytes(let bytes): Int64(bytes.count)
      case .file(let file): file.bytes
      case .zeros(let count): count
      }
    }
  }

  /// The files were changed while they were read.
  struct Changed: Error {}

  let tree: FileTree
  let count: Int64
  private let pieces: [Piece]
  /// Offset of each piece.
  private let offsets: [Int64]

  /// - Parameter name: The folder's name in the tar.
  init(_ tree: FileTree, name: String) throws {
    self.tree = tree
    var pieces: [Piece] = []
    if tree.isFolder {
      for file in tree.files {
        pieces.append(.bytes(TarHeader.bytes(path: name + "/" + file.path, size: file.bytes)))
        pieces.append(.file(file))
        pieces.append(.zeros((512 - file.bytes % 512) % 512))
      }
      pieces.append(.zeros(1024))
    } else {
      pieces = tree.files.map { .file($0) }
    }
    var offsets: [Int64] = []
    var count: Int64 = 0
    for piece in pieces {
      offsets.append(count)
      let (sum, overflows) = count.addingReportingOverflow(piece.count)
      guard !overflows else { throw FileTree.Problem(description: "\(tree.root): it is too large") }
      count = sum
    }
    (self.pieces, self.offsets, self.count) = (pieces, offsets, count)
  }

  /// Some bytes. Throws `Changed` where a file has become shorter, `FileTree.Problem` where one cannot be read.
  func read(_ range: Range<Int64>) throws -> Data {
    var data = Data(capacity: Int(range.upperBound - range.lowerBound))
    // The last piece that begins at or before the range.
    var (low, high) = (0, pieces.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if offsets[middle] <= range.lowerBound { low = middle } else { high = middle }
    }
    var index = low
    while index < pieces.count, offsets[index] < range.upperBound {
      let start = max(range.lowerBound, offsets[index]) - offsets[index]
      let end = min(range.upperBound, offsets[index] + pieces[index].count) - offsets[index]
      if start < end {
        switch pieces[index] {
        case .bytes(let bytes): data.append(contentsOf: bytes[Int(start)..<Int(end)])
        case .zeros: data.append(Data(count: Int(end - start)))
        case .file(let file): data.append(try read(file, start..<end))
        }
      }
      index += 1
    }
    guard data.count == Int(range.upperBound - range.lowerBound) else { throw Changed() }
    return data
  }

  private func read(_ file: FileTree.File, _ range: Range<Int64>) throws -> Data {
    let path = file.path.isEmpty ? tree.root : tree.root + "/" + file.path
    // The root may be a link, a file below it must not have become one.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (file.path.isEmpty ? 0 : O_NOFOLLOW))
    guard descriptor >= 0 else {
      if errno == ENOENT || errno == ELOOP { throw Changed() }
      throw FileTree.Problem(description: "\(path): it cannot be read: \(String(cString: strerror(errno)))")
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, Int64(status.st_size) == file.bytes, FileTree.nanoseconds(status) == file.modifiedAt else {
      throw Changed()
    }
    var data = Data(count: Int(range.upperBound - range.lowerBound))
    try data.withUnsafeMutableBytes { buffer in
      var done = 0
      while done < buffer.count {
        let got = pread(descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(range.lowerBound) + off_t(done))
        if got < 0, errno == EINTR { continue }
        guard got >= 0 else { throw FileTree.Problem(description: "\(path): it cannot be read: \(String(cString: strerror(errno)))") }
        guard got > 0 else { throw Changed() }
        done += got
      }
    }
    return data
  }

  /// Digests of all the bytes and, in the same pass, of each file.
  ///
  /// - Parameter progress: Told the bytes so far; returns whether to go on.
  func digests(_ progress: (Int64) -> Bool = { _ in true }) throws -> (all: String, files: [String]) {
    var all = SHA256()
    var files: [String] = []
    for (index, piece) in pieces.enumerated() {
      var own = SHA256()
      var offset = offsets[index]
      let end = offset + piece.count
      while offset < end {
        let next = min(offset + 4 << 20, end)
        let block = try read(offset..<next)
        all.update(data: block)
        if case .file = piece { own.update(data: block) }
        offset = next
        guard progress(offset) else { throw CancellationError() }
      }
      if case .file = piece { files.append(hex(own.finalize())) }
    }
    return (hex(all.finalize()), files)
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
