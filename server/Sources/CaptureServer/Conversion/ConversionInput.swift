import Foundation
import GRDB

/// A capture's files as the converter should see them: what we added is left out, and the name is the capture's id, so that takes of one
/// dataset never have the same name.
struct ConversionInput {
  /// Name of the input below the folder.
  let name: String
  /// Names in the capture, and below the folder.
  let files: [(from: String, to: String)]

  init(_ capture: Capture, files: [CaptureFile], isNameTaken: (String) throws -> Bool) rethrows {
    let names = files.map(\.name).filter { $0 != "received.json" }
    if let only = names.first, names.count == 1, !only.contains("/") {
      let ending = URL(fileURLWithPath: only).pathExtension
      if capture.type == .movie, only.wholeMatch(of: /(video|recording)_[0-9]{9,10}\.[A-Za-z0-9]+/) != nil,
        try !isNameTaken(String(only.dropLast(ending.count + 1)))
      {
        // The reader takes the time of the recording from this name. A second recording of the same second goes without.
        name = only
      } else {
        name = ending.isEmpty ? capture.id : "\(capture.id).\(ending)"
      }
      self.files = [(only, name)]
      return
    }
    name = capture.id
    // Folders around everything have no say in the name.
    var root = ""
    while let first = names.first?.dropFirst(root.count), let slash = first.firstIndex(of: "/"),
      names.allSatisfy({ $0.hasPrefix(root + first[...slash]) })
    {
      root += first[...slash]
    }
    self.files = names.map { ($0, "\(capture.id)/\($0.dropFirst(root.count))") }
  }

  /// The files of a capture, the names that the converter sees, and the keys of its device.
  static func all(
    of capture: Capture, apps: [String], _ database: Database
  ) throws -> (files: [CaptureFile], input: ConversionInput, keys: ConversionKeys?) {
    let files = try CaptureFile.filter(Column("capture") == capture.id).order(Column("name")).fetchAll(database)
    let input = try ConversionInput(capture, files: files) { try isTaken($0, byOthersThan: capture, database) }
    return (files, input, try ConversionKeys(for: capture, apps: apps, database))
  }

  /// Puts the files below a folder, without copying them where that is possible; returns the input's path.
  func place(from source: String, in folder: String) throws -> String {
    try DurableFile.link(files, from: source, to: folder)
    return folder + "/" + name
  }

  /// Whether another capture of the project has a take of this name.
  static func isTaken(_ name: String, byOthersThan capture: Capture, _ database: Database) throws -> Bool {
    try Bool.fetchOne(
      database,
      sql: """
        SELECT EXISTS (SELECT 1 FROM take JOIN capture ON capture.id = take.capture WHERE take.id = ? AND capture.id <> ? AND project = ?)
        """, arguments: [name, capture.id, capture.project]) ?? false
  }
}

/// Public keys of devices, for the converter's `--keys`.
struct ConversionKeys: Codable, Sendable {
  var app_ids: [String]
  var devices: [String: String]

  /// The key of the capture's device; without a device, those of its project. `nil` if there are none, or no app is configured.
  init?(for capture: Capture, apps: [String], _ database: Database) throws {
    guard !apps.isEmpty else { return nil }
    var request = Device.filter(Column("publicKey") != nil && ["secure_enclave", "registered_key"].contains(Column("level")))
    request = if let device = capture.device { request.filter(key: device) } else { request.filter(Column("project") == capture.project) }
    devices = Dictionary(
      try request.fetchAll(database).compactMap { device in device.publicKey.map { (device.id.lowercased(), $0.base64EncodedString()) } },
      uniquingKeysWith: { first, _ in first })
    if devices.isEmpty { return nil }
    app_ids = apps
  }
}
