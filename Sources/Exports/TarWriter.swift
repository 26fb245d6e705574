/// Writes a tar file front to back: the same members give the same bytes, because owners and times are 0.
///
/// Source: POSIX.1-2017, pax, "ustar Interchange Format"; a name longer than its field has an extended header before it.
struct TarWriter {
  private let write: (UnsafeRawBufferPointer) throws -> Void

  private static let block = 512
  private static let nameLength = 100

  /// - Parameter write: Appends bytes to the file.
  init(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) { self.write = write }

  /// Adds a regular file of less than 8 GiB.
  func add(_ contents: [UInt8], named name: String) throws {
    var short = Array(name.utf8)
    if short.count > Self.nameLength {
      try add(Self.record("path", name), type: "x", name: Array("pax_header".utf8))
      short = Array(short.prefix(Self.nameLength))
    }
    try add(contents, type: "0", name: short)
  }

  /// Writes the end mark.
  func finish() throws { try [UInt8](repeating: 0, count: 2 * Self.block).withUnsafeBytes(write) }

  private func add(_ contents: [UInt8], type: Unicode.Scalar, name: [UInt8]) throws {
    var header = [UInt8](repeating: 0, count: Self.block)
    func put(_ bytes: [UInt8], at offset: Int) { header.replaceSubrange(offset..<(offset + bytes.count), with: bytes) }
    func octal(_ number: Int, digits: Int) -> [UInt8] {
      let text = String(number, radix: 8)
      return Array((String(repeating: "0", count: max(0, digits - text.count)) + text).utf8)
    }
    put(name, at: 0)
    put(octal(0o644, digits: 7), at: 100)
    put(octal(0, digits: 7), at: 108)
    put(octal(0, digits: 7), at: 116)
    put(octal(contents.count, digits: 11), at: 124)
    put(octal(0, digits: 11), at: 136)
    put(Array("        ".utf8), at: 148)
    put(Array(String(type).utf8), at: 156)
    put(Array("ustar\u{0}00".utf8), at: 257)
    // The sum of the header's bytes, its own field counted as spaces.
    put(octal(header.reduce(0) { $0 + Int($1) }, digits: 6) + [0], at: 148)
    try header.withUnsafeBytes(write)
    try contents.withUnsafeBytes(write)
    let padding = (Self.block - contents.count % Self.block) % Self.block
    if padding > 0 { try [UInt8](repeating: 0, count: padding).withUnsafeBytes(write) }
  }

  /// `<length> <key>=<value>\n`, where the length includes its own digits.
  private static func record(_ key: String, _ value: String) -> [UInt8] {
    let rest = " \(key)=\(value)\n".utf8.count
    var length = rest
    while length != rest + String(length).count { length = rest + String(length).count }
    return Array("\(length) \(key)=\(value)\n".utf8)
  }
}
