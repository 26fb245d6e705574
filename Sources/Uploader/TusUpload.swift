import Evidence
import Foundation
import HTTP
import Synchronization

/// Sends one item by the resumable protocol tus 1.0 (https://tus.io/protocols/resumable-upload), a block at a time.
struct TusUpload: Sendable {
  let client: HTTPClient
  let server: ServerAddress
  let queue: UploadQueue
  let limit: RateLimit?
  let progress: UploadProgress
  let outage: Outage
  let abilities = Abilities()

  /// The abilities that the server declared, and the blocks that connections could take.
  final class Abilities: Sendable {
    struct Found: Sendable {
      var takesChecksums = false
      /// Most bytes of an upload.
      var limit: Int64?
    }
    let found = Mutex<Found?>(nil)
    let blocks = Mutex<[Int64: Int]>([:])
  }

  /// Bytes in a request: as many as pass in some seconds, since a cut connection costs the block that was under way.
  private static let blocks = 65_536...8_388_608

  /// Sends what the server does not have yet. On return `item.capture` is the server's id, if it told one. Progress is saved in the queue.
  ///
  /// - Throws: `Setback`, `UploadContent.Changed`, `FileTree.Problem`, `CancellationError`.
  func send(_ content: UploadContent, as item: inout UploadQueue.Item) async throws {
    try await findAbilities()
    let found = abilities.found.withLock { $0 } ?? .init()
    if let most = found.limit, content.count > most {
      throw Setback.final("it has \(UploadProgress.size(content.count)); the server takes at most \(UploadProgress.size(most))")
    }
    var location: URL?
    var offset: Int64 = 0
    if let known = item.location.flatMap({ URL(string: $0) }) {
      if let there = try await askOffset(known, content, &item) { (location, offset) = (known, there) }
    }
    if location == nil {
      let made = try await create(content, item)
      location = made
      (item.location, item.sent, offset) = (made.absoluteString, 0, 0)
      try await queue.save(item)
    } else if offset > 0 {
      progress.note("\(item.name): resumes at \(UploadProgress.size(offset)) of \(UploadProgress.size(content.count))")
    }
    guard let location else { return }
    try await keep(offset, &item)
    try await sendBlocks(content, from: offset, to: location, takesChecksums: found.takesChecksums, &item)
    if item.capture == nil { try await askCapture(location, content, &item) }
  }

  private func sendBlocks(
    _ content: UploadContent, from start: Int64, to location: URL, takesChecksums: Bool, _ item: inout UploadQueue.Item
  ) async throws {
    guard let id = item.id else { return }
    var offset = start
    var isCorrected = false
    while offset < content.count {
      var size = abilities.blocks.withLock { $0[id] } ?? 1_048_576
      if let limit { size = min(size, limit.chunk) }
      let end = min(offset + Int64(size), content.count)
      let block = try await Blocking.run { [offset] in try content.read(offset..<end) }
      var headers = ["Upload-Offset": "\(offset)", "Content-Type": "application/offset+octet-stream"]
      if takesChecksums { headers["Upload-Checksum"] = "sha256 " + Data(Digest.of(block).bytes).base64EncodedString() }
      let paid = try await limit?.wait(for: block.count)
      let began = ProcessInfo.processInfo.systemUptime
      let answer: HTTPClient.Answer
      do {
        answer = try await request("PATCH", location, headers, .data(block)) { [progress, offset] in progress.at(id, offset + $0) }
      } catch {
        // A smaller block may get through where this one was cut.
        abilities.blocks.withLock { $0[id] = max(size / 2, Self.blocks.lowerBound) }
        throw error
      }
      if answer.status == 409, !isCorrected, let there = try await askOffset(location, content, &item), there != offset {
        // Once: a server whose two answers differ for ever is not obeyed for ever.
        (offset, isCorrected) = (there, true)
        try await keep(offset, &item)
        continue
      }
      if answer.status == 460, end == content.count {
        // Of the whole: were the files changed without a trace in their times?
        let digest = try await Blocking.run { try content.digests().all }
        if digest != item.sha256 { throw UploadContent.Changed() }
      }
      guard answer.status == 204 || answer.status == 200 else { throw Setback(answer, isUpload: true) }
      if let paid { try await RateLimit.sleep(until: paid) }
      guard let next = answer.headers["upload-offset"].flatMap({ Int64($0) }), next > offset, next <= end else {
        throw Setback.temporary("the server acknowledged no new bytes")
      }
      offset = next
      isCorrected = false
      item.capture = Self.capture(answer) ?? item.capture
      try await keep(offset, &item)
      let seconds = ProcessInfo.processInfo.systemUptime - began
      let better = seconds < 2 ? size * 2 : seconds > 8 ? size / 2 : size
      abilities.blocks.withLock { $0[id] = min(max(better, Self.blocks.lowerBound), Self.blocks.upperBound) }
    }
    abilities.blocks.withLock { _ = $0.removeValue(forKey: id) }
  }

  /// Notes the number of bytes that the server has.
  private func keep(_ offset: Int64, _ item: inout UploadQueue.Item) async throws {
    item.sent = offset
    if offset > item.best {
      (item.best, item.attempts) = (offset, 0)
      outage.end()
    }
    if let id = item.id { progress.at(id, offset) }
    try await queue.save(item)
  }

  // MARK: Requests

  private func request(
    _ method: String, _ url: URL, _ headers: [String: String] = [:], _ body: HTTPClient.Body = .none,
    sent: @escaping @Sendable (Int64) -> Void = { _ in }
  ) async throws -> HTTPClient.Answer {
    do {
      return try await client.send(method, url, headers: headers.merging(["Tus-Resumable": "1.0.0"]) { $1 }, body: body, sent: sent)
    } catch let failure as HTTPClient.NoAnswer {
      throw failure.setback
    }
  }

  /// Asks once. A server without an answer to this question may still take uploads.
  private func findAbilities() async throws {
    guard abilities.found.withLock({ $0 }) == nil else { return }
    let answer = try await request("OPTIONS", server.at("/files"))
    var found = Abilities.Found()
    if answer.status == 200 || answer.status == 204 {
      func words(_ name: String) -> [String] {
        (answer.headers[name] ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces).lowercased() }
      }
      found.takesChecksums = words("tus-extension").contains("checksum") && words("tus-checksum-algorithm").contains("sha256")
      found.limit = answer.headers["tus-max-size"].flatMap { Int64($0) }.flatMap { $0 > 0 ? $0 : nil }
    } else if answer.status >= 500 || answer.status == 429 {
      throw Setback(answer, isUpload: false)
    }
    abilities.found.withLock { $0 = found }
  }

  private func create(_ content: UploadContent, _ item: UploadQueue.Item) async throws -> URL {
    let name = content.tree.isFolder ? item.name + ".tar" : item.name
    let metadata = [("filename", name), ("kind", item.kind), ("sha256", item.sha256 ?? "")]
      .map { "\($0) \(Data($1.utf8).base64EncodedString())" }.joined(separator: ",")
    let url = server.at("/files")
    let answer = try await request(
      "POST", url, ["Upload-Length": "\(content.count)", "Upload-Metadata": metadata], .data(Data()))
    guard answer.status == 201 || answer.status == 200 else { throw Setback(answer, isUpload: false) }
    guard let location = answer.headers["location"].flatMap({ server.resolve($0, from: url) }) else {
      throw Setback.temporary("the server named no place for the upload")
    }
    return location
  }

  /// Returns the number of bytes that the server has; `nil` where it has the upload no longer, or one of another length.
  private func askOffset(_ location: URL, _ content: UploadContent, _ item: inout UploadQueue.Item) async throws -> Int64? {
    let answer = try await request("HEAD", location)
    if [403, 404, 410].contains(answer.status) { return nil }
    guard answer.status == 200 || answer.status == 204 else { throw Setback(answer, isUpload: true) }
    guard let offset = answer.headers["upload-offset"].flatMap({ Int64($0) }), (0...content.count).contains(offset) else { return nil }
    if let length = answer.headers["upload-length"], Int64(length) != content.count { return nil }
    item.capture = Self.capture(answer) ?? item.capture
    return offset
  }

  /// Whether the server still has the capture that an upload became, in the project of the key. Throws `Setback`.
  func hasCapture(of item: UploadQueue.Item) async throws -> Bool {
    guard let capture = item.capture else { return false }
    let answer = try await request("HEAD", server.at("/api/v1/captures/\(capture)"))
    if [404, 410].contains(answer.status) { return false }
    guard answer.status == 200 else { throw Setback(answer, isUpload: false) }
    return true
  }

  /// The server has all the bytes, but its answer to the last of them was lost: asks again.
  private func askCapture(_ location: URL, _ content: UploadContent, _ item: inout UploadQueue.Item) async throws {
    guard let offset = try await askOffset(location, content, &item) else {
      // Finished uploads may be forgotten; sending once more gets the same capture.
      throw Setback.gone
    }
    guard item.capture == nil, offset == content.count else { return }
    let headers = ["Upload-Offset": "\(offset)", "Content-Type": "application/offset+octet-stream"]
    let answer = try await request("PATCH", location, headers, .data(Data()))
    guard answer.status == 204 || answer.status == 200 else { throw Setback(answer, isUpload: true) }
    item.capture = Self.capture(answer)
  }

  private static func capture(_ answer: HTTPClient.Answer) -> String? {
    answer.headers["x-capture-id"].flatMap { UUID(uuidString: $0) }.map { $0.uuidString.lowercased() }
  }

  /// Lets the server forget an upload that will not be finished; whether it does is its own affair.
  func abandon(_ location: String?) async {
    guard let url = location.flatMap({ URL(string: $0) }) else { return }
    _ = try? await request("DELETE", url)
  }
}

/// Calls that wait for a disk, kept off the threads that tasks run on.
package enum Blocking {
  /// Runs a call on the global dispatch queue, and returns its result or throws its error.
  package static func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async { continuation.resume(with: Swift.Result { try body() }) }
    }
  }
}
