import Evidence
import Foundation
import HTTPTypes
import Hummingbird

/// Files of this server as one tar, which is made while it is sent.
struct TarAnswer: Sendable {
  struct Member: Sendable {
    /// The name in the tar; begins with its folder.
    var name: String
    var bytes: Int64
  }

  /// Name of the download, without its ending.
  let name: String
  let members: [Member]
  /// Hands over the bytes of a member, by its number.
  let read: @Sendable (Int, (ByteBuffer) async throws -> Void) async throws -> Void

  func response() -> Response {
    let heads = members.map { TarBlocks.header(of: $0.name, bytes: $0.bytes) }
    let length = zip(members, heads).reduce(Int64(TarBlocks.end.count)) { sum, member in
      sum + Int64(member.1.count) + member.0.bytes + Int64(TarBlocks.padding(after: member.0.bytes).count)
    }
    let headers: HTTPFields = [
      .contentType: "application/x-tar", .contentDisposition: "attachment; filename=\"\(name).tar\"", .contentLength: "\(length)",
      .cacheControl: "private, no-cache", .xContentTypeOptions: "nosniff",
    ]
    return Response(
      status: .ok, headers: headers,
      body: ResponseBody(contentLength: Int(length)) { writer in
        for (number, member) in members.enumerated() {
          try await writer.write(ByteBuffer(bytes: heads[number]))
          try await read(number) { try await writer.write($0) }
          try await writer.write(ByteBuffer(bytes: TarBlocks.padding(after: member.bytes)))
        }
        try await writer.write(ByteBuffer(bytes: TarBlocks.end))
        try await writer.finish(nil)
      })
  }
}
