import Testing

@testable import Evidence

@Suite struct MemberListTests {
  private func list(members: Int = 10, bytes: Double = 1000, ratio: Double = 10) -> MemberList {
    MemberList(limits: .init(members: members, bytes: bytes, ratio: ratio))
  }

  @Test func returnsPathsWithoutWhatSaysNothing() throws {
    var list = list()
    #expect(try list.add("./a//b/./c.jpg".utf8, .file, bytes: 1).map { String(decoding: $0, as: UTF8.self) } == "a/b/c.jpg")
    #expect(try list.add("a\\d.jpg".utf8, .file, bytes: 2).map { String(decoding: $0, as: UTF8.self) } == "a/d.jpg")
    #expect(try list.add("a/".utf8, .folder, bytes: 0) == nil)
    #expect(list.files == 2 && list.bytes == 3)
  }

  @Test(arguments: [
    ("/a", "has an absolute name"), ("\\\\host\\a", "has an absolute name"), ("C:\\a", "names a drive"), ("a/../b", "has .. in its name"),
    ("..", "has .. in its name"), ("a\0b", "has a zero in its name"), ("", "has no name"), ("./.", "has no name"),
    (String(repeating: "a/", count: 2049), "has a name of more than 4096 bytes"),
  ])
  func refusesNamesThatCouldEscape(name: String, what: String) {
    var list = list()
    #expect(throws: MemberList.Refusal.member(what)) { try list.add(name.utf8, .file, bytes: 1) }
  }

  @Test func refusesWhatIsNeitherFileNorFolder() {
    var list = list()
    #expect(throws: MemberList.Refusal.member("is a link")) { try list.add("a".utf8, .link, bytes: 1) }
    #expect(throws: MemberList.Refusal.member("is a device or a pipe")) { try list.add("a".utf8, .other, bytes: 1) }
  }

  @Test(arguments: ["a", String(repeating: "long", count: 20)])
  func refusesAPathThatOccursTwice(path: String) throws {
    var list = list()
    _ = try list.add(path.utf8, .file, bytes: 1)
    #expect(throws: MemberList.Refusal.member("occurs twice")) { try list.add("./\(path)".utf8, .file, bytes: 1) }
  }

  @Test func refusesMoreThanTheLimits() throws {
    var many = list(members: 2)
    _ = try many.add("a".utf8, .file, bytes: 1)
    _ = try many.add("b/".utf8, .folder, bytes: 0)
    #expect(throws: MemberList.Refusal.tooManyMembers) { try many.add("c".utf8, .file, bytes: 1) }
    var large = list()
    _ = try large.add("a".utf8, .file, bytes: 1000)
    #expect(throws: MemberList.Refusal.tooManyBytes) { try large.add("b".utf8, .file, bytes: 1) }
    #expect(throws: MemberList.Refusal.tooManyBytes) { try large.add("c".utf8, .file, bytes: .max) }
    #expect(throws: MemberList.Refusal.tooManyBytes) { try large.add("d".utf8, .file, bytes: -1) }
    try large.finish(archiveBytes: 100)
    #expect(throws: MemberList.Refusal.tooLarge(ratio: 10)) { try large.finish(archiveBytes: 99) }
  }
}
