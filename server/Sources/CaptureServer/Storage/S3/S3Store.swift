import Crypto
import Foundation
import NIOCore
import NIOPosix

/// Captures as objects `<prefix>/<capture>/<file>` of an S3-compatible server. Each part is sent with its SHA-256, which the server checks.
struct S3Store: CaptureStore {
  private let client: S3Client
  /// Where captures are fetched to for their conversion.
  private let cache: String
  /// Bytes of a part of a large object; S3 wants at least 5 MiB.
  private static let partSize = 8 << 20

  init(_ client: S3Client, cache: String) throws {
    self.client = client
    self.cache = cache
    DurableFile.removeFolder(cache)
    try DurableFile.makeFolder(cache)
  }

  private func key(_ capture: String, _ name: String) -> String { "captures/\(capture)/\(name)" }

  func publish(_ folder: String, as capture: String, files: [CaptureFile]) async throws {
    do {
      for file in files { try await put(folder + "/" + file.name, as: key(capture, file.name), bytes: file.bytes) }
    } catch let refusal as S3Client.Refusal {
      try? await remove(capture)
      throw Failure(.internalServerError, "STORAGE_ERROR", "The upload could not be stored. Try again later.", reason: "\(refusal)")
    } catch {
      try? await remove(capture)
      throw error
    }
    DurableFile.removeFolder(folder)
  }

  private func put(_ path: String, as key: String, bytes: Int64) async throws {
    if bytes <= Self.partSize {
      let data = try await part(path, 0, Int(bytes))
      try await client.send("PUT", key, headers: Self.checksum(data), body: data)
      return
    }
    guard
      let (answer, _) = try await client.send(
        "POST", key, query: [("uploads", "")], headers: ["content-type": "application/octet-stream", "x-amz-checksum-algorithm": "SHA256"]),
      let upload = S3Client.element("UploadId", in: answer)
    else { throw S3Client.Refusal(status: 0, description: "\(key): the server names no upload") }
    do {
      var parts = ""
      var offset: Int64 = 0
      var number = 1
      while offset < bytes {
        let data = try await part(path, offset, Int(min(Int64(Self.partSize), bytes - offset)))
        let checksum = Self.checksum(data)
        guard
          let (_, headers) = try await client.send(
            "PUT", key, query: [("partNumber", "\(number)"), ("uploadId", upload)], headers: checksum, body: data),
          let tag = headers["etag"]
        else { throw S3Client.Refusal(status: 404, description: "\(key): the upload is gone") }
        parts +=
          "<Part><PartNumber>\(number)</PartNumber><ETag>\(tag)</ETag><ChecksumSHA256>\(checksum["x-amz-checksum-sha256"] ?? "")</ChecksumSHA256></Part>"
        offset += Int64(data.count)
        number += 1
      }
      let body = Data("<CompleteMultipartUpload>\(parts)</CompleteMultipartUpload>".utf8)
      guard
        let (done, _) = try await client.send(
          "POST", key, query: [("uploadId", upload)], headers: ["content-type": "application/xml"], body: body),
        S3Client.element("ETag", in: done) != nil
      else { throw S3Client.Refusal(status: 0, description: "\(key): the upload was not completed") }
    } catch {
      _ = try? await client.send("DELETE", key, query: [("uploadId", upload)])
      throw error
    }
  }

  private static func checksum(_ data: Data) -> [String: String] {
    ["x-amz-checksum-sha256": Data(SHA256.hash(data: data)).base64EncodedString()]
  }

  private func part(_ path: String, _ offset: Int64, _ count: Int) async throws -> Data {
    try await NIOThreadPool.singleton.runIfActive {
      let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
      defer { try? handle.close() }
      try handle.seek(toOffset: UInt64(offset))
      guard let data = try handle.read(upToCount: count) ?? (count == 0 ? Data() : nil), data.count == count else {
        throw DurableFile.failure("read", path)
      }
      return data
    }
  }

  func remove(_ capture: String) async throws {
    for key in try await client.list(key(capture, "")) { try await client.send("DELETE", key) }
  }

  func withFolder<Result: Sendable>(
    of capture: String, files: [CaptureFile], _ body: @Sendable (String) async throws -> Result
  ) async throws -> Result {
    let folder = cache + "/" + capture
    DurableFile.removeFolder(folder)
    try DurableFile.makeFolder(folder)
    defer { DurableFile.removeFolder(folder) }
    for file in files {
      let path = folder + "/" + file.name
      try FileManager.default.createDirectory(atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
      let copy = try IncomingFile(path: path)
      try await read(file, 0..<file.bytes) { try await copy.append($0) }
      guard Hex.text(try await copy.finish()) == file.sha256 else {
        throw Failure(
          .internalServerError, "STORAGE_ERROR", "A stored file is damaged", reason: "\(key(capture, file.name)) has another digest")
      }
    }
    return try await body(folder)
  }

  func read(_ file: CaptureFile, _ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws {
    var offset = range.lowerBound
    while offset < range.upperBound {
      let end = min(range.upperBound, offset + Int64(Self.partSize))
      guard let (data, _) = try await client.send("GET", key(file.capture, file.name), headers: ["range": "bytes=\(offset)-\(end - 1)"]),
        data.count == Int(end - offset)
      else { throw Failure(.internalServerError, "STORAGE_ERROR", "A stored file is gone", reason: "\(key(file.capture, file.name))") }
      offset = end
      try await body(ByteBuffer(bytes: data))
    }
  }

  func captures() async throws -> [String] {
    try await client.list("captures/", folders: true).compactMap { $0.split(separator: "/").last.map(String.init) }
  }
}
