import Evidence
import Foundation
import Uploader

/// A bundle that the command `takeset simulate realitycam-bundle` made, as the body of an upload.
struct SimulatedBundleFolder: Sendable {
  let path: String

  /// Runs the command, which ends when the task is cancelled. Throws `UploaderProblem`, `CancellationError`.
  static func make(_ path: String, by takeset: String, arguments: [String]) async throws -> SimulatedBundleFolder {
    let process = Process()
    return try await withTaskCancellationHandler {
      do {
        return try await Blocking.run { try run(process, path, by: takeset, arguments: arguments) }
      } catch {
        try Task.checkCancellation()
        throw error
      }
    } onCancel: {
      // It has inherited that other signals are ignored.
      if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }
  }

  private static func run(_ process: Process, _ path: String, by takeset: String, arguments: [String]) throws -> SimulatedBundleFolder {
    process.executableURL = URL(fileURLWithPath: takeset)
    process.arguments = ["simulate", "realitycam-bundle", "--output", path] + arguments
    process.standardOutput = FileHandle.nullDevice
    let said = Pipe()
    process.standardError = said
    do { try process.run() } catch { throw UploaderProblem("\(takeset): it cannot be run") }
    let words = String(decoding: said.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationReason == .exit, process.terminationStatus == 0 else {
      let isMistake = process.terminationReason == .exit && process.terminationStatus == 64
      throw UploaderProblem(
        "simulating a capture failed: " + words.trimmingCharacters(in: .whitespacesAndNewlines), exitCode: isMistake ? 64 : 1)
    }
    return SimulatedBundleFolder(path: path)
  }

  /// Puts an assertion of the device's own key in the place of the simulation's. What it signs is the end of the hash chain or, of an
  /// interrupted recording, its last checkpoint. A bundle whose fault leaves nothing to sign stays as it is.
  func sign(by device: DeviceIdentity, appID: String, isPartial: Bool) throws {
    struct Chain: Decodable {
      struct Checkpoint: Decodable { var hash: String }
      var frame_hashes: [String]
      var checkpoints: [Checkpoint]?
    }
    let file = path + "/metadata.json"
    guard let metadata = FileManager.default.contents(atPath: file), let text = String(data: metadata, encoding: .utf8),
      let chain = FileManager.default.contents(atPath: path + "/hash_chain.json").flatMap({
        try? JSONDecoder().decode(Chain.self, from: $0)
      }),
      let hash = (isPartial ? chain.checkpoints?.last?.hash : nil) ?? chain.frame_hashes.last, let bytes = Base64.decode(hash)?.bytes
    else { return }
    let assertion = device.assertion(over: bytes, appID: appID).base64EncodedString()
    let signed = text.replacing(/"assertion":"[^"]*"/, with: "\"assertion\":\"\(assertion)\"")
    try Data(signed.utf8).write(to: URL(fileURLWithPath: file))
  }

  /// Writes the parts that are there as multipart/form-data, some of it at a time. Returns the body's SHA-256.
  func writeBody(_ body: String, boundary: String) throws -> String {
    guard FileManager.default.createFile(atPath: body, contents: nil), let output = FileHandle(forWritingAtPath: body) else {
      throw UploaderProblem("cannot write \(body)")
    }
    let hasher = SHA256()
    func write(_ data: Data) throws {
      data.withUnsafeBytes { hasher.update($0) }
      try output.write(contentsOf: data)
    }
    let parts = [
      ("video", "video.mp4", "video/mp4"), ("depth_data", "depth.gz", "application/gzip"),
      ("hash_chain", "hash_chain.json", "application/json"), ("metadata", "metadata.json", "application/json"),
    ]
    for (name, file, type) in parts {
      guard let input = FileHandle(forReadingAtPath: path + "/" + file) else { continue }
      let disposition = "Content-Disposition: form-data; name=\"\(name)\"; filename=\"\(file)\""
      try write(Data("--\(boundary)\r\n\(disposition)\r\nContent-Type: \(type)\r\n\r\n".utf8))
      while let block = try input.read(upToCount: 1 << 20), !block.isEmpty { try write(block) }
      try input.close()
      try write(Data("\r\n".utf8))
    }
    try write(Data("--\(boundary)--\r\n".utf8))
    try output.close()
    return hasher.finish().description
  }
}
