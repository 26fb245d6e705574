import Foundation

/// A location in the file system that may hold a take.
package struct TakeLocation: Hashable, Sendable, Codable {
  package var path: String
  package var isDirectory: Bool
  package init(path: String, isDirectory: Bool) {
    self.path = path
    self.isDirectory = isDirectory
  }

  package var name: String { url.lastPathComponent }
  /// The name of the directory that holds it.
  package var folder: String { url.deletingLastPathComponent().lastPathComponent }
  /// The name without its extension.
  var stem: String { URL(name: name).deletingPathExtension().lastPathComponent }
  private var url: URL { URL(fileURLWithPath: path, isDirectory: isDirectory) }
}

/// One raw recording.
package struct Take: Sendable {
  package var id: String
  package var location: TakeLocation
  package var inputs: TakeInputs
  /// The folder next to an archive with the archive's name, if it is another take of the run; it may hold the same files.
  package var duplicateFolder: TakeLocation?
  package init(id: String, location: TakeLocation, inputs: TakeInputs, duplicateFolder: TakeLocation? = nil) {
    (self.id, self.location, self.inputs, self.duplicateFolder) = (id, location, inputs, duplicateFolder)
  }
}
