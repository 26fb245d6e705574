import Foundation
import TakesetRecorder

/// A capture on this machine's disk.
struct LocalCapture: Sendable, Equatable {
  enum Kind: String, Sendable { case bundle, session, movie }

  /// Absolute, without links.
  var path: String
  var kind: Kind
}

/// Finds captures by the names in folders, as the readers of the converter do.
enum CaptureFinder {
  /// Extensions of files that are captures.
  private static let movies: Set<String> = ["mov", "mp4", "m4v", "qt"]
  private static let archives: Set<String> = ["zip", "tar"]

  /// All captures at or below a path, in order of their paths. Folders below it that are links, and hidden ones, are not searched.
  ///
  /// - Throws: `UploaderProblem` where the path does not exist, cannot be listed, or is a file that is no capture.
  static func captures(at path: String) throws -> [LocalCapture] {
    guard let resolved = realpath(path, nil) else {
      throw UploaderProblem("\(path): \(String(cString: strerror(errno)))")
    }
    defer { free(resolved) }
    let root = String(cString: resolved)
    if let name = root.split(separator: "/").first(where: { Recovery.isUnfinished(String($0)) }) {
      throw UploaderProblem("\(path): \(name) is a recording that is not finished, or kept by takeset recover; nothing of it is sent")
    }
    guard let status = FileTree.status(root, followsLinks: true) else {
      throw UploaderProblem("\(path): \(String(cString: strerror(errno)))")
    }
    if status.st_mode & S_IFMT == S_IFREG {
      guard let kind = fileKind(root, readsStart: true) else {
        throw UploaderProblem("\(path): it is no capture; expected a folder, a zip, a tar or a movie")
      }
      return [LocalCapture(path: root, kind: kind)]
    }
    guard status.st_mode & S_IFMT == S_IFDIR else { throw UploaderProblem("\(path): it is neither a file nor a folder") }
    do {
      var found: [LocalCapture] = []
      try search(root, into: &found)
      return found
    } catch let problem as FileTree.Problem {
      throw UploaderProblem(problem.description)
    }
  }

  private static func search(_ folder: String, into found: inout [LocalCapture]) throws {
    let names = try FileTree.names(in: folder, skipsOthers: true).filter { !$0.hasPrefix(".") }
      .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    if let kind = folderKind(folder, names) {
      found.append(LocalCapture(path: folder, kind: kind))
      return
    }
    for name in names {
      // What a recorder has begun, or a recovery has kept, is no capture; its movie is not one either.
      if Recovery.isUnfinished(name) { continue }
      let path = folder == "/" ? "/" + name : folder + "/" + name
      // What was removed meanwhile is no capture.
      guard let status = FileTree.status(path, followsLinks: false) else { continue }
      switch status.st_mode & S_IFMT {
      case S_IFDIR: try search(path, into: &found)
      case S_IFREG: if let kind = fileKind(path, readsStart: false) { found.append(LocalCapture(path: path, kind: kind)) }
      default: break
      }
    }
  }

  private static func fileKind(_ path: String, readsStart: Bool) -> LocalCapture.Kind? {
    let ending = URL(fileURLWithPath: path).pathExtension.lowercased()
    if movies.contains(ending) { return .movie }
    if archives.contains(ending) { return .session }
    guard readsStart else { return nil }
    let start = start(of: path, count: 512)
    if start.count >= 8, start[4..<8].elementsEqual(Array("ftyp".utf8)) { return .movie }
    if start.starts(with: [0x50, 0x4B, 3, 4]) { return .session }
    return start.count == 512 && start[257..<262].elementsEqual(Array("ustar".utf8)) ? .session : nil
  }

  /// Returns the kind of a folder, by the names in it and, where those do not tell, the first bytes of its metadata.
  private static func folderKind(_ folder: String, _ names: [String]) -> LocalCapture.Kind? {
    let all = Set(names)
    // StackCapture and Stray Scanner.
    if all.contains("poses.json") || all.contains("odometry.csv") { return .session }
    let metadata = all.contains("metadata.json") ? String(decoding: start(of: folder + "/metadata.json", count: 4096), as: UTF8.self) : ""
    func says(_ keys: [String]) -> Bool { keys.contains { metadata.contains("\"\($0)\"") } }
    let stems = Set(names.map { part($0) })
    let isNamed = stems.contains(.chain) || says(["hash_chain_final", "depth_keyframe_count", "attestation_level"])
    let parts = stems.subtracting([.none]).count
    if parts > 1, isNamed || (stems.contains(.depth) && stems.contains(.video)) { return .bundle }
    if says(["rgbResolution", "rgbFrameCount", "poseCount", "captureSource", "bleConnected"]) { return .session }
    if all.contains("rgb"), let images = try? FileTree.names(in: folder + "/rgb", skipsOthers: true),
      images.contains(where: { $0.lowercased().hasSuffix(".jpg") }) || folder.split(separator: "/").last?.hasPrefix("session_") == true
    {
      return .session
    }
    return nil
  }

  private enum Part { case video, depth, chain, metadata, none }

  private static func part(_ name: String) -> Part {
    let url = URL(fileURLWithPath: name.lowercased())
    switch (url.deletingPathExtension().lastPathComponent, url.pathExtension) {
    case ("video", let ending) where movies.contains(ending): return .video
    case ("hash_chain", "json"), ("hash_chain", ""): return .chain
    case ("metadata", "json"), ("metadata", ""): return .metadata
    case ("depth", let ending), ("video_depth", let ending), ("depth_data", let ending):
      return ["gz", "bin", "rldp", "zlib", "deflate", "z"].contains(ending) ? .depth : .none
    default: return .none
    }
  }

  private static func start(of path: String, count: Int) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: count)
    let got = read(descriptor, &bytes, count)
    return Array(bytes.prefix(max(got, 0)))
  }
}
