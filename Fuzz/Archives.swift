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

  /// The list, and every member, read forwards and in any order.
  private static func archive(_ name: String, _ format: Archive.Format) -> FuzzTarget {
    FuzzTarget(name, throws: TakeFailure.self) { bytes in
      let path = FuzzFiles.shared.write("fuzzed.\(name)", bytes)
      _ = Archive.format(named: "fuzzed", start: Array(bytes.prefix(512)))
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
