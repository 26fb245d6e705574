/// Bytes of a file format, numbers with their lowest byte first.
package struct Bytes {
  package var bytes: [UInt8] = []

  package init() {}

  package mutating func add(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }

  /// A text after its length in bytes, of 32 bits.
  package mutating func add(_ text: String) {
    add(UInt32(text.utf8.count))
    bytes += text.utf8
  }
}
