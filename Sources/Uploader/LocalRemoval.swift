import Foundation
import HTTP

/// Deletes local files, once the server has shown that it keeps them.
struct LocalRemoval: Sendable {
  let client: HTTPClient
  let server: ServerAddress

  /// The reason why nothing was deleted.
  struct Refusal: Error, CustomStringConvertible {
    var description: String
  }

  /// Deletes the files of an uploaded item. They are hashed again, so that what was changed after the upload stays; and the server's list
  /// must hold the digest of what was sent or, where it unpacked a folder, the digest of every file.
  ///
  /// - Throws: `Refusal`, `Setback`, `CancellationError`.
  func remove(_ item: UploadQueue.Item) async throws {
    guard let capture = item.capture else { throw Refusal(description: "the server told no id for the capture") }
    let answer: HTTPClient.Answer
    do {
      answer = try await client.send("GET", server.at("/api/v1/captures/\(capture)"))
    } catch let failure as HTTPClient.NoAnswer {
      throw failure.setback
    }
    guard answer.status == 200 else { throw Setback(answer, isUpload: false) }
    let kept = try Self.digests(answer.body)
    let (content, digests) = try await Blocking.run {
      let content = try UploadContent(FileTree(item.path), name: item.name)
      return (content, try content.digests(withFiles: true))
    }
    guard digests.all == item.sha256 else { throw Refusal(description: "it was changed after it was sent") }
    guard kept.contains(digests.all) || (!digests.files.isEmpty && digests.files.allSatisfy(kept.contains)) else {
      throw Refusal(description: "the server does not list the digests of what was sent")
    }
    try await Blocking.run { try Self.delete(content.tree) }
  }

  /// `data.files[].sha256`, in lower case.
  private static func digests(_ body: Data) throws -> Set<String> {
    struct Answer: Decodable {
      struct File: Decodable { var sha256: String }
      struct Contents: Decodable { var files: [File] }
      var data: Contents
    }
    guard let answer = try? JSONDecoder().decode(Answer.self, from: body) else {
      throw Refusal(description: "the server does not list what it keeps")
    }
    return Set(answer.data.files.map { $0.sha256.lowercased() })
  }

  /// Deletes the listed files and the folders that are then empty.
  ///
  /// A folder is first given a hidden name: what is left of it after a kill looks like no capture, and is not sent as one.
  private static func delete(_ tree: FileTree) throws {
    guard tree.isFolder else { return try delete(tree, at: tree.root) }
    let url = URL(fileURLWithPath: tree.root)
    let hidden = url.deletingLastPathComponent().path + "/.\(url.lastPathComponent).uploaded-\(UUID().uuidString.prefix(8))"
    guard rename(tree.root, hidden) == 0 else {
      throw Refusal(description: "\(tree.root) cannot be renamed: \(String(cString: strerror(errno)))")
    }
    // What came meanwhile, or was never sent, is shown again.
    defer { if access(hidden, F_OK) == 0 { rename(hidden, tree.root) } }
    try delete(tree, at: hidden)
  }

  private static func delete(_ tree: FileTree, at root: String) throws {
    func path(_ file: FileTree.File) -> String { file.path.isEmpty ? root : root + "/" + file.path }
    // Every file has the time and the length of the listing that was just hashed, or all stay.
    for file in tree.files {
      guard let status = FileTree.status(path(file), followsLinks: false), FileTree.nanoseconds(status) == file.modifiedAt,
        Int64(status.st_size) == file.bytes
      else { throw Refusal(description: "\(tree.root)\(file.path.isEmpty ? "" : "/" + file.path) was changed meanwhile") }
    }
    var folders: Set<String> = tree.isFolder ? [root] : []
    for file in tree.files {
      guard unlink(path(file)) == 0 else {
        throw Refusal(description: "\(tree.root) cannot be deleted: \(String(cString: strerror(errno)))")
      }
      var folder = file.path.split(separator: "/").dropLast()
      while !folder.isEmpty {
        folders.insert(root + "/" + folder.joined(separator: "/"))
        folder = folder.dropLast()
      }
    }
    // The deepest first; what is not empty stays.
    for folder in folders.sorted(by: { $0.utf8.count > $1.utf8.count }) { rmdir(folder) }
  }
}
