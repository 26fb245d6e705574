/// Bytes of a file format, numbers with their lowest byte first.
struct Bytes {
  var bytes: [UInt8] = []

  mutating func add(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }

  /// A text after its length in bytes, of 32 bits.
  mutating func add(_ text: String) {
    add(UInt32(text.utf8.count))
    bytes += text.utf8
  }
}
