/// CRC-32 of ISO 3309, as gzip, zip and PNG have it: polynomial 0xEDB88320, reflected.
struct CRC32 {
  private static let table: [UInt32] = (0..<256).map { byte in
    (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xEDB8_8320 : value >> 1 }
  }

  private var state = ~UInt32(0)
  /// The checksum of all bytes so far.
  var value: UInt32 { ~state }

  mutating func update(_ bytes: some Sequence<UInt8>) {
    state = bytes.reduce(state) { $0 >> 8 ^ Self.table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] }
  }

  static func of(_ bytes: some Sequence<UInt8>) -> UInt32 {
    var crc = CRC32()
    crc.update(bytes)
    return crc.value
  }
}
