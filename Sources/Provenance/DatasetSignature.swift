package import Datasets
package import Evidence
import Foundation
import Model
import Steps

/// Signs a dataset: `attestation.json` beside its manifest.
package struct DatasetSignature {
  package var dataset: Dataset
  package var threads: Int
  /// Whether another attestation may be replaced.
  package var replaces = false

  package init(_ dataset: Dataset, threads: Int) { (self.dataset, self.threads) = (dataset, threads) }

  /// The signature file that was written.
  package struct Summary {
    package var path: String
    package var keyID: String
    package var files: Int
    /// Whether the same bytes were there already.
    package var isUpToDate: Bool
  }

  /// Writes the attestation. The dataset must have been verified, or its owner signs what others have made of it.
  ///
  /// Throws `OutputExists` where another attestation is, `OutputFailure`, `Ed25519.KeyError`.
  package func write(_ key: Ed25519.PrivateKey) throws -> Summary {
    let files = try dataset.files(threads: threads)
    let statement = try ProvenanceStatement(dataset, files: files).canonicalBytes
    let bytes = try SignedEnvelope(signing: statement, with: key).json.canonicalBytes + [0x0A]
    let path = dataset.directory + "/" + DatasetFiles.attestation
    var summary = Summary(path: path, keyID: try key.publicKey.id, files: files.count, isUpToDate: false)
    if let kind = try Directory.kind(at: path) {
      if kind == .file, try Self.holds(path, bytes) {
        summary.isUpToDate = true
        return summary
      }
      guard replaces, kind == .file else {
        throw OutputExists(path, remedy: "it is not this key's signature of the dataset as it is; give --replace to replace it")
      }
    }
    do {
      try SealedFile.write(path) { write in try bytes.withUnsafeBytes(write) }
    } catch {
      throw OutputFailure("cannot write \(path): \(error)")
    }
    return summary
  }

  private static func holds(_ path: String, _ bytes: [UInt8]) throws -> Bool {
    try FileStamp.of(path).bytes == Int64(bytes.count) && SealedFile.digest(of: path).digest == Digest.of(bytes)
  }
}

extension Verification {
  /// Compares a dataset with what its attestation says, if that is signed by the key. Differences are added to the report: an attestation
  /// that is missing or that the key has not signed, a record, a file or an input that the statement does not name with this digest.
  package mutating func checkAttestation(of directory: String, signedBy key: Ed25519.PublicKey, threads: Int) {
    let name = DatasetFiles.attestation
    refuseUnlisted()
    catching(name) { report in
      guard try Directory.kind(at: directory + "/" + name) != nil else {
        return report.differ(name, "is missing: the dataset is not signed")
      }
      report.noteFile()
      guard let payload = try Self.payload(of: directory + "/" + name, key, &report) else { return }
      let expected = (try? Dataset(directory: directory)).map { dataset in
        Result { try ProvenanceStatement(dataset, files: dataset.files(threads: threads)) }
      }
      if let own = try? expected?.get() {
        own.files.forEach { report.noteBytes($0.bytes) }
        // As it should be; of a statement with thousands of takes the values would take many times as much memory.
        if own.canonicalBytes == payload { return }
      }
      guard let statement = try? JSONReader(payload).value(), statement["_type"]?.string == ProvenanceStatement.type,
        statement["predicateType"]?.string == ProvenanceStatement.predicateType
      else { return report.differ(name, "what is signed is not an in-toto statement with SLSA provenance") }
      switch expected {
      case .success(let own): report.compare(statement, with: own)
      case .failure(let error): report.differ(name, "cannot be compared: \(error)")
      case nil: report.differ(name, "cannot be compared: manifest.json cannot be understood")
      }
    }
  }

  /// The signed bytes; `nil`, with a difference, if there are none.
  private static func payload(of path: String, _ key: Ed25519.PublicKey, _ report: inout Verification) throws -> [UInt8]? {
    var text: [UInt8] = []
    try InputFile(path).readAll(limit: 1 << 30, into: &text)
    guard let envelope = try? SignedEnvelope(json: text) else {
      report.differ(DatasetFiles.attestation, "is not a DSSE envelope")
      return nil
    }
    guard let payload = envelope.payload(signedBy: key) else {
      let others = envelope.signatures.compactMap { $0.keyid }.filter { $0 != key.id }
      let words = others.isEmpty ? "" : "; it names the key \(others.map { String($0.prefix(16)) }.joined(separator: ", "))"
      report.differ(DatasetFiles.attestation, "has no valid signature by the key \(key.id.prefix(16))\(words)")
      return nil
    }
    return payload
  }

  private mutating func compare(_ statement: JSONValue, with expected: ProvenanceStatement) {
    var signed: [String: String] = [:]
    for subject in statement["subject"]?.array ?? [] {
      guard let name = subject["name"]?.string, let digest = subject["digest"]?["sha256"]?.string else { continue }
      if signed.updateValue(digest, forKey: name) != nil { differ(DatasetFiles.attestation, "names \(name) twice") }
    }
    let found = [(ProvenanceStatement.recordSubject, expected.recordDigest)] + expected.files.map { ($0.path, $0.digest.description) }
    for (name, digest) in found {
      switch signed.removeValue(forKey: name) {
      case digest: break
      case let other?: differ(name, "sha256 is \(digest), signed \(other)")
      case nil: differ(name, "is not among what is signed")
      }
    }
    for name in signed.keys.sorted() { differ(name, "is signed, and is not in the dataset") }
    // The signed record says the same; a statement that contradicts it was not made by `sign`.
    let own = (try? JSONReader(expected.canonicalBytes).value())?["predicate"]
    let predicate = statement["predicate"]
    for part in ["buildType", "externalParameters", "internalParameters", "resolvedDependencies"]
    where predicate?["buildDefinition"]?[part] != own?["buildDefinition"]?[part] {
      differ(DatasetFiles.attestation, "its \(part) are not those of the record")
    }
    if predicate?["runDetails"]?["builder"] != own?["runDetails"]?["builder"] {
      differ(DatasetFiles.attestation, "its builder is not that of the record")
    }
  }
}
