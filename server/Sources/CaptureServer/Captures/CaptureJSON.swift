import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import NIOCore

/// Captures as JSON. SQLite writes it, so that thousands of captures are a matter of milliseconds.
enum CaptureJSON {
  /// Members of a capture's object; its only argument is the server's public root.
  private static let members = """
    'bytes', bytes, 'capture_id', id, 'device_id', device, 'is_verified', json(iif(isVerified, 'true', 'false')), 'name', name,
    'project', project, 'reason', reason, 'received_at', strftime('%Y-%m-%dT%H:%M:%fZ', receivedAt / 1000.0, 'unixepoch'),
    'rows', rows, 'signature', signature, 'status', status, 'type', type, 'verification_url', ? || '/verify/' || id
    """

  /// The columns that they are made of. The indexes of lists have all of them, so that the table's long rows are not read.
  private static let columns = "bytes, device, id, isVerified, name, project, reason, receivedAt, rows, signature, status, type"

  /// A capture with its files and with what is known of its evidence; `nil` if there is none.
  static func capture(_ id: String, of project: String?, root: String, _ database: Database) throws -> String? {
    try String.fetchOne(
      database,
      sql: """
        SELECT json_object(\(members), 'evidence', iif(json_valid(evidence), json(evidence), NULL),
          'labels', json(iif(json_valid(labels), labels, '{}')), 'labels_revision', labelsRevision, 'files', json((
          SELECT json_group_array(json_object('bytes', bytes, 'name', name, 'sha256', sha256))
          FROM (SELECT bytes, name, sha256 FROM file WHERE file.capture = capture.id ORDER BY name)
        ))) FROM capture WHERE id = ? AND (? IS NULL OR project = ?)
        """, arguments: [root, id, project, project])
  }

  /// The captures of a page as an array, and where the next page begins, if there is one.
  static func page(_ listing: CaptureListing, root: String, _ database: Database) throws -> (
    json: String, next: CaptureListing.Cursor?
  ) {
    let (order, arguments) = listing.selection
    let json = try String.fetchOne(
      database, sql: "SELECT json_group_array(json_object(\(members))) FROM (SELECT \(columns) FROM capture \(order) LIMIT ?)",
      arguments: [root] + arguments + [listing.limit])
    let ends = try Row.fetchAll(
      database, sql: "SELECT receivedAt, id FROM capture \(order) LIMIT 2 OFFSET ?", arguments: arguments + [listing.limit - 1])
    return (json ?? "[]", ends.count < 2 ? nil : .init(receivedAt: ends[0]["receivedAt"], id: ends[0]["id"]))
  }

  /// `{"data": …, "meta": …}` around JSON of megabytes, which is copied once.
  static func response(_ json: String, _ meta: some Encodable) throws -> Response {
    let meta = try JSONAnswer.data(meta)
    var body = ByteBuffer()
    body.reserveCapacity(json.utf8.count + meta.count + 32)
    body.writeString("{\"data\":")
    body.writeString(json)
    body.writeString(",\"meta\":")
    body.writeBytes(meta)
    body.writeString("}")
    return Response(status: .ok, headers: [.contentType: "application/json"], body: .init(byteBuffer: body))
  }
}
