import Model

/// Parts of a tar file, to be written front to back: before each member its header, behind it the padding, and at the end the end mark. The
/// same members give the same bytes, because owners and times are 0.
///
/// Source: POSIX.1-2017, pax, "ustar Interchange Format"; a name longer than its field, and a size from 8 GiB on, are in an extended header.
public enum TarBlocks {
  private static let block = 512
  private static let nameLength = 100
  /// Eleven octal digits.
  private static let largestSize: Int64 = 1 << 33 - 1

  /// Returns the blocks that precede a regular file of so many bytes.
  public static func header(of name: String, bytes: Int64) -> [UInt8] {
    let short = Array(name.utf8)
    var records: [UInt8] = []
    if short.count > nameLength { records += record("path", name) }
    if bytes > largestSize { records += record("size", "\(bytes)") }
    let extended =
      records.isEmpty ? [] : ustar("x", Array("pax_header".utf8), Int64(records.count)) + records + padding(after: Int64(records.count))
    return extended + ustar("0", Array(short.prefix(nameLength)), min(bytes, largestSize))
  }

  /// Returns the zeros that follow a file of so many bytes, up to the next whole block of 512.
  public static func padding(after bytes: Int64) -> [UInt8] { [UInt8](repeating: 0, count: Int((512 - bytes % 512) % 512)) }

  public static let end = [UInt8](repeating: 0, count: 2 * block)

  private static func ustar(_ type: Unicode.Scalar, _ name: [UInt8], _ bytes: Int64) -> [UInt8] {
    var header = [UInt8](repeating: 0, count: block)
    func put(_ bytes: [UInt8], at offset: Int) { header.replaceSubrange(offset..<(offset + bytes.count), with: bytes) }
    func octal(_ number: Int64, digits: Int) -> [UInt8] { Array(number.padded(to: digits, radix: 8).utf8) }
    put(name, at: 0)
    put(octal(0o644, digits: 7), at: 100)
    put(octal(0, digits: 7), at: 108)
    put(octal(0, digits: 7), at: 116)
    put(octal(bytes, digits: 11), at: 124)
    put(octal(0, digits: 11), at: 136)
    put(Array("        ".utf8), at: 148)
    put(Array(String(type).utf8), at: 156)
    put(Array("ustar\u{0}00".utf8), at: 257)
    // The sum of the header's bytes, its own field counted as spaces.
    put(octal(header.reduce(0) { $0 + Int64($1) }, digits: 6) + [0], at: 148)
    return header
  }

  /// `<length> <key>=<value>\n`, where the length includes its own digits.
  private static func record(_ key: String, _ value: String) -> [UInt8] {
    let rest = " \(key)=\(value)\n".utf8.count
    var length = rest
    while length != rest + String(length).count { length = rest + String(length).count }
    return Array("\(length) \(key)=\(value)\n".utf8)
  }
}
