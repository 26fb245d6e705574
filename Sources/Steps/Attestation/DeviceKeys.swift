package import Evidence
import Foundation
import Model

/// Public keys of registered devices, from the file of `--keys`:
///
///     {"app_ids": ["TEAMID.bundle.id"], "devices": {"<device id>": "<base64 of the 65-byte P-256 point>"}}
package struct DeviceKeys: Sendable {
  /// SHA-256 of each app id, which an assertion carries.
  package let appDigests: [[UInt8]]
  /// Keys by lower-case device id.
  package let devices: [String: P256.PublicKey]
  /// Digest of the file.
  package let digest: Digest
  /// The contents of the file.
  package let text: String

  /// Reads the contents of a keys file. Throws `UsageError`.
  package init(_ bytes: [UInt8], name: String) throws {
    func mistake(_ message: String) -> UsageError { UsageError("\(name): \(message)") }
    let document: JSONValue
    do {
      document = try JSONReader(bytes).document()
    } catch {
      throw mistake("not JSON: \(error)")
    }
    guard case .object(let members) = document else { throw mistake("expected an object, found \(document.kind)") }
    for key in members.keys.sorted() where !["app_ids", "devices"].contains(key) {
      throw mistake("\(key): unknown key; a keys file has \"app_ids\" and \"devices\"")
    }
    guard let apps = members["app_ids"]?.array, !apps.isEmpty, apps.allSatisfy({ $0.string != nil }) else {
      throw mistake("app_ids: expected a list of at least one text such as TEAMID.bundle.id")
    }
    guard let devices = members["devices"]?.object else { throw mistake("devices: expected an object of device ids and keys") }
    var keys: [String: P256.PublicKey] = [:]
    for (id, value) in devices.sorted(by: { $0.key < $1.key }) {
      guard let text = value.string, let point = Base64.decode(text)?.bytes, let key = P256.PublicKey(point: point) else {
        throw mistake("devices.\(id): expected base64 of the 65 bytes of an uncompressed P-256 point")
      }
      guard keys.updateValue(key, forKey: id.lowercased()) == nil else { throw mistake("devices.\(id): the device is named twice") }
    }
    self.devices = keys
    appDigests = apps.compactMap(\.string).map { Digest.of($0).bytes }
    digest = Digest.of(bytes)
    text = String(decoding: bytes, as: UTF8.self)
  }
}
