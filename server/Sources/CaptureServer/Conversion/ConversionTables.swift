import GRDB

extension ServerDatabase {
  /// Adds the tables of the conversions besides the queue.
  static func addConversions(to migrator: inout DatabaseMigrator) {
    migrator.registerMigration("conversions") { database in
      try database.alter(table: "conversion") { table in
        /// Digest of the pipeline that wrote the takes: datasets hold takes of one pipeline.
        table.add(column: "pipeline", .text)
        /// Time at which they were written.
        table.add(column: "finishedAt", .integer)
      }
      /// The takes that a capture's conversion wrote. Their ids are unique within a project.
      try database.create(table: "take") { table in
        table.column("id", .text).notNull()
        table.column("capture", .text).notNull().references("capture", onDelete: .cascade)
        table.primaryKey(["id", "capture"])
      }
      try database.create(index: "takeByCapture", on: "take", columns: ["capture"])
      /// The captures that each dataset holds, also those that were deleted since.
      try database.create(table: "merged") { table in
        table.column("dataset", .text).notNull()
        table.column("capture", .text).notNull()
        table.column("at", .integer).notNull()
        /// `finishedAt` of the conversion that it holds: a capture that was converted again is merged again.
        table.column("conversion", .integer).notNull()
        table.primaryKey(["dataset", "capture"])
      }
      try database.create(index: "mergedByCapture", on: "merged", columns: ["capture"])
    }
  }
}
