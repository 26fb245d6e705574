import Foundation

@testable import TakesetRecorder

/// SHA-256 (FIPS 180-4) for tests: the library brings none.
struct TestHasher: FrameHasher {
  private var bytes: [UInt8] = []
  mutating func update(_ part: UnsafeRawBufferPointer) { bytes += part }

  private static let k: [UInt32] = {
    var primes: [Double] = []
    var n = 2.0
    while primes.count < 64 {
      if primes.allSatisfy({ n.truncatingRemainder(dividingBy: $0) != 0 }) { primes.append(n) }
      n += 1
    }
    return primes.map {
      let root = cbrt($0); return UInt32((root - root.rounded(.down)) * 0x1p32)
    }
  }()

  mutating func finish() -> [UInt8] {
    var h: [UInt32] = [
      0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19,
    ]
    var message = bytes + [0x80]
    while message.count % 64 != 56 { message.append(0) }
    withUnsafeBytes(of: UInt64(bytes.count * 8).bigEndian) { message += $0 }
    func rotate(_ x: UInt32, _ n: UInt32) -> UInt32 { x >> n | x << (32 - n) }
    for block in stride(from: 0, to: message.count, by: 64) {
      var w = (0..<16).map { i in (0..<4).reduce(UInt32(0)) { $0 << 8 | UInt32(message[block + 4 * i + $1]) } }
      for i in 16..<64 {
        let s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3
        let s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10
        w.append(w[i - 16] &+ s0 &+ w[i - 7] &+ s1)
      }
      var v = h
      for i in 0..<64 {
        let s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)
        let t1 = v[7] &+ s1 &+ (v[4] & v[5] ^ ~v[4] & v[6]) &+ Self.k[i] &+ w[i]
        let s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)
        let t2 = s0 &+ (v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2])
        v = [t1 &+ t2, v[0], v[1], v[2], v[3] &+ t1, v[4], v[5], v[6]]
      }
      h = zip(h, v).map { $0 &+ $1 }
    }
    return h.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * $0)) } }
  }

  static func of(_ bytes: [UInt8]) -> [UInt8] {
    var hasher = TestHasher()
    bytes.withUnsafeBytes { hasher.update($0) }
    return hasher.finish()
  }
}

let testHasher: MakeHasher = { TestHasher() }

/// Compresses nothing.
let stored: Deflate = { next, write in while let piece = try next() { try write(piece) } }

/// A folder that is removed with its last use.
final class TestFolder {
  let path = NSTemporaryDirectory() + "recorder-" + UUID().uuidString
  init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
  deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// Every file below a folder, with its bytes.
func contents(of folder: String) throws -> [String: [UInt8]] {
  var found: [String: [UInt8]] = [:]
  for name in try FileManager.default.subpathsOfDirectory(atPath: folder) {
    if let data = FileManager.default.contents(atPath: folder + "/" + name) { found[name] = Array(data) }
  }
  return found
}
