import GRDB

/// The storage that a project uses, which counts against its quota.
struct ProjectUse: FetchableRecord, Decodable, Sendable {
  var project: String
  var captures: Int64
  var bytes: Int64

  /// Project and bytes of each capture, and of each upload and session that is not complete; an upload has all the bytes that it has
  /// announced. The argument is whether captures of strangers are among them.
  static let parts = """
    SELECT project, 1 AS number, bytes FROM capture WHERE isStranger <= ?
    UNION ALL SELECT project, 0, COALESCE(length, "offset") FROM upload WHERE capture IS NULL
    UNION ALL SELECT project, 0, bytes FROM folder WHERE capture IS NULL
    """

  /// Returns the use of each project that has something, by name. Captures of strangers fill nobody's quota.
  ///
  /// - Parameter project: The only one; `nil` for all.
  static func all(of project: String?, _ database: Database) throws -> [ProjectUse] {
    var arguments: StatementArguments = [false]
    if let project { arguments += [project] }
    return try fetchAll(
      database,
      sql: """
        SELECT project, SUM(number) AS captures, SUM(bytes) AS bytes FROM (\(parts)) \(project == nil ? "" : "WHERE project = ?")
        GROUP BY project ORDER BY project
        """, arguments: arguments)
  }
}
