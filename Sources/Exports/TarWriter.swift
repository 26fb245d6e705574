import Evidence

/// Writes a tar file front to back, as `TarBlocks` describes it.
struct TarWriter {
  private let write: (UnsafeRawBufferPointer) throws -> Void

  /// - Parameter write: Appends bytes to the file.
  init(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) { self.write = write }

  /// Adds a regular file.
  func add(_ contents: [UInt8], named name: String) throws {
    let bytes = Int64(contents.count)
    for part in [TarBlocks.header(of: name, bytes: bytes), contents, TarBlocks.padding(after: bytes)] { try part.withUnsafeBytes(write) }
  }

  /// Writes the end mark.
  func finish() throws { try TarBlocks.end.withUnsafeBytes(write) }
}
