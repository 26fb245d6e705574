import Evidence
import Foundation
import Model
import Steps

/// The text of a manifest, as it is written: each member of `record` and each take is on a line of its own, which is easy to read and compare. The
/// digests cover the canonical bytes, without these line ends.
struct ManifestText {
  /// The members of `record` and of `run`, except their takes.
  var record: [String: JSONValue]
  var run: [String: JSONValue]

  /// Writes the text.
  ///
  /// - Parameters:
  ///   - take: Returns the canonical record of a take, by its place.
  ///   - runTakes: The canonical bytes of `run.takes`, in pieces.
  func write(to path: String, takes: Int, runTakes: some Sequence<[UInt8]>, _ take: (Int) throws -> [UInt8]) throws {
    try SealedFile.write(path) { write in
      let hasher = SHA256()
      func emit(_ bytes: [UInt8], isCanonical: Bool = true) throws {
        if isCanonical { hasher.update(bytes) }
        try bytes.withUnsafeBytes(write)
      }
      func emit(_ text: String, isCanonical: Bool = true) throws { try emit(Array(text.utf8), isCanonical: isCanonical) }

      try emit("{\n\"record\":\n", isCanonical: false)
      let keys: [String] = (record.keys + ["takes"]).sorted()
      for (number, key) in keys.enumerated() {
        try emit(number == 0 ? "{" : ",")
        try emit("\n", isCanonical: false)
        try emit("\"\(key)\":")
        if let member = record[key] {
          try emit(member.canonicalBytes)
          continue
        }
        try emit("[")
        for index in 0..<takes {
          if index > 0 { try emit(",") }
          try emit("\n", isCanonical: false)
          try emit(take(index))
        }
        try emit("\n", isCanonical: false)
        try emit("]")
      }
      try emit("}")
      try emit(",\n\"record_sha256\":\"\(hasher.finish())\",\n\"run\":", isCanonical: false)
      let runKeys: [String] = (run.keys + ["takes"]).sorted { $0.utf16.lexicographicallyPrecedes($1.utf16) }
      for (number, key) in runKeys.enumerated() {
        try emit("\(number == 0 ? "{" : ",")\"\(key)\":")
        if let member = run[key] { try emit(member.canonicalBytes) } else { for piece in runTakes { try emit(piece) } }
      }
      try emit("}")
      try emit(",\n\"run_sha256\":\"\(hasher.finish())\"\n}\n", isCanonical: false)
    }
  }
}
