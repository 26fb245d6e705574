import CCrypto
import Evidence
import Model

/// A P-256 key made from a seed. It signs as a phone's Secure Enclave does, but with a nonce that depends only on key and message, so
/// that the same seed gives the same bytes. It is for simulated takes, not for secrets.
package struct SigningKey {
  /// 32 bytes.
  package let secret: [UInt8]
  /// The public key: 04, X and Y.
  package let publicPoint: [UInt8]

  package init(seed: UInt64) { self.init(secret: Digest.of("takeset simulate key \(seed)").bytes) }

  package init(secret: [UInt8]) {
    self.secret = secret
    publicPoint = Curve().point(secret)
  }

  /// ECDSA with SHA-256 over `message` (FIPS 186-5, section 6.4), as ASN.1 DER.
  package func sign(_ message: [UInt8]) -> [UInt8] {
    let curve = Curve()
    let nonce = Digest.of(secret + message).bytes
    let r = curve.number(Array(curve.point(nonce)[1...32]))
    let z = curve.number(Digest.of(message).bytes)
    // s = (z + r d) / k
    let sum = curve.add(z, curve.multiply(r, curve.number(secret)))
    let s = curve.multiply(sum, curve.inverse(curve.number(nonce)))
    return P256.der(r: curve.bytes(r), s: curve.bytes(s))
  }

  /// An App Attest assertion over `clientData`, in base64.
  package func assertion(over clientData: [UInt8], appID: String, counter: UInt32) -> [UInt8] {
    let authenticatorData = Digest.of(appID).bytes + [0x40] + withUnsafeBytes(of: counter.bigEndian) { Array($0) }
    let nonce = Digest.of(authenticatorData + Digest.of(clientData).bytes).bytes
    return Self.cbor(signature: sign(nonce), authenticatorData: authenticatorData)
  }

  private static func cbor(signature: [UInt8], authenticatorData: [UInt8]) -> [UInt8] {
    func text(_ text: String) -> [UInt8] { [0x60 + UInt8(min(text.utf8.count, 23))] + text.utf8 }
    func bytes(_ bytes: [UInt8]) -> [UInt8] { [0x58, UInt8(bytes.count)] + bytes }
    return [0xA2] + text("signature") + bytes(signature) + text("authenticatorData") + bytes(authenticatorData)
  }
}

/// Arithmetic modulo the order of the curve.
private final class Curve {
  typealias Number = OpaquePointer
  private let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1)
  private let context = BN_CTX_new()
  private let order = BN_new()
  private var numbers: [Number?] = []

  init() { EC_GROUP_get_order(group, order, context) }

  deinit {
    for number in numbers { BN_free(number) }
    BN_free(order)
    BN_CTX_free(context)
    EC_GROUP_free(group)
  }

  private func new() -> Number? {
    let number = BN_new()
    numbers.append(number)
    return number
  }

  func number(_ bytes: [UInt8]) -> Number? {
    let number = BN_bin2bn(bytes, Int32(bytes.count), nil)
    numbers.append(number)
    BN_nnmod(number, number, order, context)
    return number
  }

  func add(_ a: Number?, _ b: Number?) -> Number? {
    let sum = new()
    BN_mod_add(sum, a, b, order, context)
    return sum
  }

  func multiply(_ a: Number?, _ b: Number?) -> Number? {
    let product = new()
    BN_mod_mul(product, a, b, order, context)
    return product
  }

  func inverse(_ a: Number?) -> Number? {
    let inverse = new()
    BN_mod_inverse(inverse, a, order, context)
    return inverse
  }

  func bytes(_ number: Number?) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 32)
    BN_bn2binpad(number, &bytes, 32)
    return bytes
  }

  /// The base point times a number, uncompressed.
  func point(_ factor: [UInt8]) -> [UInt8] {
    let point = EC_POINT_new(group)
    defer { EC_POINT_free(point) }
    EC_POINT_mul(group, point, number(factor), nil, nil, context)
    var bytes = [UInt8](repeating: 0, count: 65)
    EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, &bytes, bytes.count, context)
    return bytes
  }
}
