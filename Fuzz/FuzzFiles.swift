import Evidence
import Foundation
import Media

@testable import Steps

/// Files for parsers that read files: a directory of this process, in memory where `TMPDIR` is.
final class FuzzFiles: Sendable {
  static let shared = FuzzFiles()

  let path: String

  private init() {
    path = must("a directory for files") {
      let url = FileManager.default.temporaryDirectory.appendingPathComponent("takeset-fuzz-\(getpid())")
      try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
      return url.path
    }
    atexit { try? FileManager.default.removeItem(atPath: FuzzFiles.shared.path) }
  }

  /// Writes a file, and returns its path.
  @discardableResult
  func write(_ name: String, _ bytes: [UInt8]) -> String {
    let file = path + "/" + name
    let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    expect(descriptor >= 0 && Glibc.write(descriptor, bytes, bytes.count) == bytes.count, "cannot write \(file)")
    close(descriptor)
    return file
  }

  /// A take of this one file.
  func inputs(_ name: String, _ role: TakeInputs.Role, _ bytes: [UInt8]) -> TakeInputs {
    write(name, bytes)
    return TakeInputs(root: path, entries: [TakeInputs.Entry(path: name, role: role)])
  }
}

extension FileSlice {
  /// A file in memory.
  convenience init(_ bytes: [UInt8]) {
    self.init(count: Int64(bytes.count)) { buffer, offset in
      guard offset < bytes.count else { return 0 }
      let piece = bytes[Int(offset)...].prefix(buffer.count)
      buffer.copyBytes(from: piece)
      return piece.count
    }
  }
}
