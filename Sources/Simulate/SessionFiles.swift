import Evidence
import Foundation
import Model
import Steps

/// The files of a session, for applying a quirk to them.
struct SessionFiles {
  let directory: String

  func url(_ name: String) -> URL { URL(fileURLWithPath: directory + "/" + name) }

  func read(_ name: String) throws -> Data {
    guard let data = FileManager.default.contents(atPath: url(name).path) else { throw UsageError("the session has no \(name) to change") }
    return data
  }

  func write(_ name: String, _ data: Data) throws {
    try FileManager.default.createDirectory(at: url(name).deletingLastPathComponent(), withIntermediateDirectories: true)
    try data.write(to: url(name))
  }

  func remove(_ name: String) throws {
    _ = try read(name)
    try FileManager.default.removeItem(at: url(name))
  }

  /// Names of the files of a folder, sorted.
  func names(_ folder: String) throws -> [String] {
    guard let names = try? FileManager.default.contentsOfDirectory(atPath: url(folder).path), !names.isEmpty else {
      throw UsageError("the session has no \(folder)/ to change")
    }
    return names.sorted()
  }

  /// Indices in the sorted listing of a folder, from its middle on.
  func middle(_ folder: String, _ count: Int) -> Range<Int> {
    let all = (try? names(folder).count) ?? 0
    return all / 2..<min(all / 2 + count, max(all, 1))
  }

  func remove(_ folder: String, _ index: Int) throws { try remove("\(folder)/\(names(folder)[index])") }

  func cut(_ folder: String, _ index: Int, to part: Double) throws {
    let name = "\(folder)/\(try names(folder)[index])"
    let data = try read(name)
    try write(name, data.prefix(Int(Double(data.count) * part)))
  }

  func value(_ name: String) throws -> JSONValue { try JSONReader(Array(read(name))).value() }

  func edit(_ name: String, _ change: (inout JSONValue) throws -> Void) throws {
    var document = try value(name)
    try change(&document)
    try write(name, Data(document.canonicalBytes))
  }

  func editList(_ name: String, _ change: (inout [JSONValue]) -> Void) throws {
    try edit(name) { document in
      guard case .array(var list) = document, list.count > 12 else { throw UsageError("\(name) has too few entries to change") }
      change(&list)
      document = .array(list)
    }
  }
}

/// A writer that packs a session into an archive next to its folder, as the app or the packing script does, and removes the folder.
struct SessionArchive {
  let directory: String

  func pack(_ quirk: SessionQuirk) throws {
    let session = SessionFiles(directory: directory)
    let metadata = try session.read("metadata.json")
    let paths = try FileManager.default.subpathsOfDirectory(atPath: directory).filter {
      try Directory.kind(at: directory + "/" + $0) == .file
    }
    let root = URL(fileURLWithPath: directory).lastPathComponent
    let members = paths.sorted().map { (name: "\(root)/\($0)", path: "\(directory)/\($0)") }
    switch quirk {
    case .zip: try ZipFile.write(members, to: directory + ".zip")
    case .tar: try tar(members)
    default: break
    }
    if quirk != .tar { try metadata.write(to: URL(fileURLWithPath: directory + ".metadata.json")) }
    try FileManager.default.removeItem(atPath: directory)
  }

  private func tar(_ members: [(name: String, path: String)]) throws {
    var bytes = Data()
    for member in members {
      guard let contents = FileManager.default.contents(atPath: member.path) else { throw UsageError("\(member.path) cannot be read") }
      var header = [UInt8](repeating: 0, count: 512)
      func put(_ text: String, at offset: Int) { header.replaceSubrange(offset..<(offset + text.utf8.count), with: text.utf8) }
      guard member.name.utf8.count <= 100 else { throw UsageError("the name of the session is too long for a tar file") }
      put(member.name, at: 0)
      put("0000644", at: 100)
      put(contents.count.padded(to: 11, radix: 8), at: 124)
      put(0.padded(to: 11, radix: 8), at: 136)
      put("        ", at: 148)
      put("0", at: 156)
      put("ustar\u{0}00", at: 257)
      put(header.reduce(0) { $0 + Int($1) }.padded(to: 6, radix: 8) + "\u{0}", at: 148)
      bytes += header + contents + Data(count: (512 - contents.count % 512) % 512)
    }
    try (bytes + Data(count: 1024)).write(to: URL(fileURLWithPath: directory + ".tar"))
  }
}
