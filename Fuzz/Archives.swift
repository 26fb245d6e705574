import Evidence
import Media
import Model

@testable import Steps

extension FuzzTarget {
  static let archives = [archive("zip", .zip), archive("tar", .tar)]

  private static let limits: Archive.Limits = {
    var limits = Archive.Limits()
    (limits.maxArchiveEntries, limits.maxArchiveGibibytes) = (1000, 0.004)
    return limits
  }()

  /// The server lists zips by itself.
  private static func list(_ bytes: [UInt8]) {
    do {
      try ZipList.read(Int64(bytes.count), limit: limits.maxArchiveEntries) { range in
        Array(bytes[Int(clamping: max(range.lowerBound, 0))..<min(Int(clamping: range.upperBound), bytes.count)])
      } _: { _, _, size in
        expect(size >= 0, "a member of \(size) bytes")
      }
    } catch is MalformedArchive {} catch is MemberList.Refusal {} catch {
      expect(false, "\(error)")
    }
  }

  /// The list, and every member, read forwards and in any order.
  private static func archive(_ name: String, _ format: Archive.Format) -> FuzzTarget {
    FuzzTarget(name, throws: TakeFailure.self) { bytes in
      let path = FuzzFiles.shared.write("fuzzed.\(name)", bytes)
      _ = Archive.format(named: "fuzzed", start: Array(bytes.prefix(512)))
      if format == .zip { list(bytes) }
      let archive = try Archive(path, format: format, limits: limits)
      expect(archive.members.count <= limits.maxArchiveEntries && archive.bytes <= 5 << 20, "more than the limits")
      for member in archive.members {
        let parts = member.path.split(separator: "/", omittingEmptySubsequences: false)
        expect(!parts.contains("..") && !parts.contains("") && !parts.contains("."), "a member named \(member.path)")
        var whole: [UInt8] = []
        do { try archive.read(member, into: &whole) } catch is ArchiveError { continue }
        expect(whole.count == member.bytes, "a member of \(whole.count) bytes, listed with \(member.bytes)")
        guard let slice = try? archive.slice(member) else { continue }
        let middle = Int64(whole.count / 2)
        // What was read once is there again, in whatever order.
        for range in [middle..<Int64(whole.count), 0..<middle] {
          let again = must("a slice") { try slice.bytes(range) }
          expect(again == Array(whole[Int(range.lowerBound)..<Int(range.upperBound)]), "other bytes in a slice")
        }
      }
      _ = try archive.root(holding: ["poses.json", "metadata.json"], folders: ["rgb"])
    }
  }
}
