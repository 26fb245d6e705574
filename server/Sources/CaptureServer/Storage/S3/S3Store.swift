import Foundation
import NIOCore
import NIOPosix

/// Captures as objects `<prefix>/captures/<capture>/<file>` of an S3-compatible server.
struct S3Store: CaptureStore {
  private let client: S3Client
  /// The folder that captures are fetched into for their conversion.
  private let cache: String
  /// Files of a capture that are sent, fetched or removed at a time.
  private static let width = 8
  /// Bytes that are asked for at a time: for a conversion, and for a download, where a reader that takes nothing keeps them in memory.
  private static let (fetchSize, blockSize): (Int64, Int64) = (2 << 20, 256 << 10)

  /// Throws `Mistake` if the bucket cannot be used.
  init(_ client: S3Client, cache: String) async throws {
    self.client = client
    self.cache = cache
    DurableFile.removeFolder(cache)
    try DurableFile.makeFolder(cache)
    try await client.check()
  }

  private func key(_ capture: String, _ name: String) -> String { "captures/\(capture)/\(name)" }

  func publish(_ folder: String, as capture: String, files: [CaptureFile]) async throws {
    do {
      try await Self.forEach(files) { try await put(folder + "/" + $0.name, as: key(capture, $0.name), bytes: $0.bytes) }
    } catch let refusal as S3Client.Refusal {
      throw Failure(
        .internalServerError, "STORAGE_ERROR", "The upload could not be stored. Try again later.", reason: refusal.description)
    }
    DurableFile.removeFolder(folder)
  }

  /// The parts in which a file is sent: at most 10,000, the same size but for the last, and none where a single request does.
  static func parts(of bytes: Int64) -> [Range<Int64>] {
    let unit: Int64 = 1 << 20
    let size = max(8 * unit, (bytes / 10_000 / unit + 1) * unit)
    guard bytes > size else { return [] }
    return stride(from: 0, to: bytes, by: Int(size)).map { $0..<min($0 + size, bytes) }
  }

  private func put(_ path: String, as key: String, bytes: Int64) async throws {
    let parts = Self.parts(of: bytes)
    guard !parts.isEmpty else {
      _ = try await client.put(key) { try await block(path, 0..<bytes) }
      return
    }
    let begun = try await client.send(
      "POST", key, query: [("uploads", "")], headers: ["content-type": "application/octet-stream", "x-amz-checksum-algorithm": "SHA256"])
    guard let upload = begun.element("UploadId") else {
      throw S3Client.Refusal(status: 501, description: "\(key): the store names no upload")
    }
    var list = ""
    for (number, part) in zip(1..., parts) {
      let sent = try await client.put(key, query: [("partNumber", "\(number)"), ("uploadId", upload)]) { try await block(path, part) }
      list += "<Part><PartNumber>\(number)</PartNumber><ETag>\(sent.tag)</ETag><ChecksumSHA256>\(sent.checksum)</ChecksumSHA256></Part>"
    }
    let body = Data("<CompleteMultipartUpload>\(list)</CompleteMultipartUpload>".utf8)
    do {
      try await client.send("POST", key, query: [("uploadId", upload)], headers: ["content-type": "application/xml"]) { body }
    } catch let refusal as S3Client.Refusal where refusal.status == 404 {
      // The answer to an earlier attempt may have been lost.
      guard try await client.send("HEAD", key).headers["content-length"] == "\(bytes)" else { throw refusal }
    }
  }

  private func block(_ path: String, _ range: Range<Int64>) async throws -> Data {
    try await NIOThreadPool.singleton.runIfActive {
      let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
      defer { try? handle.close() }
      try handle.seek(toOffset: UInt64(range.lowerBound))
      let data = range.isEmpty ? Data() : try handle.read(upToCount: range.count) ?? Data()
      guard data.count == range.count else { throw DurableFile.failure("read", path) }
      return data
    }
  }

  func remove(_ capture: String) async throws {
    do {
      for upload in try await client.uploads(key(capture, "")) {
        try await ignoringAbsence { try await client.send("DELETE", upload.key, query: [("uploadId", upload.id)]) }
      }
    } catch let refusal as S3Client.Refusal where refusal.status == 501 {
      // A small server that cannot list them, and has to clear them away by itself.
    }
    try await Self.forEach(try await client.list(key(capture, ""))) { key in
      try await ignoringAbsence { try await client.send("DELETE", key) }
    }
  }

  private func ignoringAbsence(_ body: () async throws -> S3Client.Answer) async throws {
    do { _ = try await body() } catch let refusal as S3Client.Refusal where refusal.status == 404 {}
  }

  func withFolder<Result: Sendable>(
    of capture: String, files: [CaptureFile], _ body: @Sendable (String) async throws -> Result
  ) async throws -> Result {
    let folder = cache + "/" + UUID().uuidString.lowercased()
    try DurableFile.makeFolder(folder)
    defer { DurableFile.removeFolder(folder) }
    do {
      try await Self.forEach(files) { try await fetch($0, to: folder + "/" + $0.name) }
    } catch let refusal as S3Client.Refusal where refusal.mayPass {
      throw StoreUnavailable(description: "the store is away: \(refusal)")
    }
    return try await body(folder)
  }

  private func fetch(_ file: CaptureFile, to path: String) async throws {
    try FileManager.default.createDirectory(atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
    let copy = try IncomingFile(path: path)
    try await read(file, 0..<file.bytes, by: Self.fetchSize) { try await copy.append($0) }
    guard Hex.text(try await copy.finish()) == file.sha256 else { throw damaged(file, "has another digest") }
  }

  func read(_ file: CaptureFile, _ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws {
    try await read(file, range, by: Self.blockSize, body)
  }

  private func read(
    _ file: CaptureFile, _ range: Range<Int64>, by size: Int64, _ body: (ByteBuffer) async throws -> Void
  ) async throws {
    var offset = range.lowerBound
    while offset < range.upperBound {
      let end = min(range.upperBound, offset + size)
      let data: Data
      do {
        data = try await client.send("GET", key(file.capture, file.name), headers: ["range": "bytes=\(offset)-\(end - 1)"]).body
      } catch let refusal as S3Client.Refusal where [404, 416].contains(refusal.status) {
        throw damaged(file, "is gone: \(refusal)")
      }
      guard data.count == Int(end - offset) else { throw damaged(file, "has another size") }
      offset = end
      try await body(ByteBuffer(bytes: data))
    }
  }

  private func damaged(_ file: CaptureFile, _ what: String) -> Failure {
    Failure(.internalServerError, "STORAGE_ERROR", "A stored file is damaged", reason: "\(key(file.capture, file.name)) \(what)")
  }

  /// Several at a time; the first error ends it.
  private static func forEach<Item: Sendable>(_ items: [Item], _ body: @escaping @Sendable (Item) async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (index, item) in items.enumerated() {
        if index >= width { try await group.next() }
        group.addTask { try await body(item) }
      }
      try await group.waitForAll()
    }
  }
}
