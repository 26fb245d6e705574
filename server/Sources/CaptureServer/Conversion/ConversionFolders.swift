import Foundation

extension DataFolder {
  /// The folder of work in progress. It is emptied when a server starts.
  var work: String { conversions + "/.work" }
  /// Returns the folder with the result of a capture's conversion: `dataset` if a take was written, `thumbnail.jpg`, `overlay.jpg`.
  func conversion(of capture: String) -> String { conversions + "/" + capture }
  /// The folder of a dataset: a project's name and, after dots, whose takes and which pipeline's they are. Throws `Failure` 404 for a name that
  /// no dataset has: it might lead elsewhere.
  func dataset(_ name: String) throws -> String {
    guard name.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9_-]{0,62}(\.unverified)?(\.[0-9a-f]{12})?/) != nil else {
      throw Failure(.notFound, "NOT_FOUND", "There is no such dataset", reason: "\(name) is no name of a dataset")
    }
    return datasets + "/" + name
  }
}

/// A folder for what is being made, removed with everything in it when it is discarded or the server starts again.
struct WorkFolder: Sendable {
  let path: String

  /// - Parameter name: Unique; by default drawn.
  init(below folder: String, name: String = UUID().uuidString.lowercased()) throws {
    path = folder + "/" + name
    try DurableFile.makeFolders(path)
  }

  func discard() { DurableFile.removeFolder(path) }
}

extension DurableFile {
  /// Puts a folder in place of another one, which is then where the new one was; or just in place, if there was none. No moment passes
  /// without a folder, where the file system can exchange names.
  static func replaceFolder(_ path: String, with new: String) throws {
    typealias Function = @convention(c) (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32) -> Int32
    let exchange: UInt32 = 2  // RENAME_EXCHANGE, which is not declared to Swift.
    if access(path, F_OK) == 0 {
      if let symbol = dlsym(nil, "renameat2"), unsafeBitCast(symbol, to: Function.self)(AT_FDCWD, new, AT_FDCWD, path, exchange) == 0 {
        return try syncFolder(URL(fileURLWithPath: path).deletingLastPathComponent().path)
      }
      let old = new + ".old"
      try rename(path, to: old)
      try rename(new, to: path)
      try rename(old, to: new)
    } else {
      try rename(new, to: path)
    }
    try syncFolder(URL(fileURLWithPath: path).deletingLastPathComponent().path)
  }

  /// Makes hard links to the files of a folder in a new one, or copies where links are impossible. Names are paths below both.
  static func link(_ names: [(from: String, to: String)], from source: String, to target: String) throws {
    var made: Set<String> = []
    for name in names {
      let path = target + "/" + name.to
      let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
      if made.insert(folder).inserted {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      }
      if Foundation.link(source + "/" + name.from, path) == 0 { continue }
      guard [EXDEV, EPERM, EMLINK, EOPNOTSUPP].contains(errno) else { throw failure("link", source + "/" + name.from) }
      try FileManager.default.copyItem(atPath: source + "/" + name.from, toPath: path)
    }
  }
}
