import Evidence
import Model
import Steps

/// Files of one size, such as depth maps, that a function of the format decodes.
struct DecodedFiles: SampleSource {
  /// Replaces the second buffer with the decoded rows: row-major, little-endian, of the stream's size. Throws an error whose description is a
  /// sentence without the file.
  typealias Decode = @Sendable (_ file: [UInt8], _ rows: inout [UInt8]) throws -> Void

  /// A fault of a file, as a sentence without the file.
  struct Problem: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  /// Byte limit that every allowed grid stays below.
  static let byteLimit = 1 << 26

  let inputs: TakeInputs
  /// Entries of `inputs`; `nil` where the file is missing.
  let files: [Int?]
  let undecodable: FindingCode
  /// The finding for a missing file.
  var missing = Finding(.depthMissing, "depth maps without a file of their number")
  let decode: Decode

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { try files[sample].map { [try InputOrigin(inputs: inputs, entry: $0)()] } ?? [] }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private final class Cursor: SampleCursor {
    let source: DecodedFiles
    let hasher = SHA256()
    var file: [UInt8] = []
    var size: ImageSize? { nil }

    init(source: DecodedFiles) { self.source = source }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard let entry = source.files[index] else { throw SampleFailure(finding: source.missing) }
      try source.inputs.readSample(entry, limit: DecodedFiles.byteLimit, hasher: hasher, as: source.undecodable, into: &file)
      do {
        try source.decode(file, &bytes)
      } catch {
        throw SampleFailure(finding: Finding(source.undecodable, "\(error)", severity: .warning, file: source.inputs.entries[entry].path))
      }
    }
  }
}
