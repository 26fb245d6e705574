import Evidence
import Testing

/// Lists of tars that are made here, byte by byte.
@Suite struct TarListTests {
  private func header(_ name: String, size: String = "0", type: Character = "0", prefix: String = "", magic: String = "ustar\0") -> [UInt8]
  {
    var header = [UInt8](repeating: 0, count: 512)
    func write(_ text: String, at offset: Int) { header.replaceSubrange(offset..<offset + text.utf8.count, with: Array(text.utf8)) }
    write(name, at: 0)
    write(size, at: 124)
    write(String(type), at: 156)
    write(magic, at: 257)
    write(prefix, at: 345)
    return summed(header)
  }

  private func summed(_ header: [UInt8]) -> [UInt8] {
    var header = header
    header.replaceSubrange(148..<156, with: Array("        ".utf8))
    let digits = Array(String(header.reduce(0) { $0 + Int($1) }, radix: 8).utf8)
    header.replaceSubrange(148..<148 + digits.count, with: digits)
    return header
  }

  private func member(_ name: String, _ data: [UInt8] = [], type: Character = "0", prefix: String = "", magic: String = "ustar\0")
    -> [UInt8]
  {
    let filling = [UInt8](repeating: 0, count: (512 - data.count % 512) % 512)
    return header(name, size: String(data.count, radix: 8), type: type, prefix: prefix, magic: magic) + data + filling
  }

  /// A pax record, whose length counts its own digits.
  private func record(_ key: String, _ value: String) -> [UInt8] {
    let rest = " \(key)=\(value)\n"
    var length = rest.utf8.count
    while "\(length)".utf8.count + rest.utf8.count != length { length += 1 }
    return Array("\(length)\(rest)".utf8)
  }

  private let end = [UInt8](repeating: 0, count: 1024)

  private func list(_ tar: [UInt8], most: Int = .max) throws -> [TarList.Member] {
    var members: [TarList.Member] = []
    try TarList.read(
      Int64(tar.count), { Array(tar[min(Int($0.lowerBound), tar.count)..<min(Int($0.upperBound), tar.count)]) }
    ) {
      members.append($0)
      return members.count < most
    }
    return members
  }

  private func problem(_ tar: [UInt8]) -> String? {
    do {
      _ = try list(tar)
      return nil
    } catch { return "\(error)" }
  }

  @Test func membersHaveNamesKindsAndPlaces() throws {
    let tar =
      member("a", Array("abc".utf8)) + member("folder/") + member("x", type: "5") + member("link", type: "2") + member("pipe", type: "6")
      + member("name", prefix: "long/prefix") + member("name", prefix: "junk", magic: "ustar ") + end
    let found = try list(tar)
    let names = found.map { String(decoding: $0.name, as: UTF8.self) }
    #expect(names == ["a", "folder/", "x", "link", "pipe", "long/prefix/name", "name"])
    #expect(found.map(\.kind) == [.file, .folder, .folder, .link, .other, .file, .file])
    #expect(found[0].data == 512..<515 && found[1].data == 1536..<1536)
    #expect(try list(tar, most: 2).count == 2)
    #expect(TarList.isHeader(Array(tar.prefix(512))) && !TarList.isHeader(Array(tar[512..<1024])) && !TarList.isHeader(end))
  }

  @Test func aSecondTarBehindTheEndIsNotLostSilently() throws {
    let one = member("a", Array("abc".utf8)) + end
    let filled = one + [UInt8](repeating: 0, count: 10_240 - one.count)
    #expect(problem(one + one) == "a second tar follows its end at byte \(one.count); split them, or pack the members into one")
    #expect(problem(filled + one)?.hasPrefix("a second tar follows its end at byte 10240;") == true)
    #expect(problem(filled) == nil && problem(one + Array("what some program adds".utf8)) == nil)
  }

  @Test func recordsReplaceNamesAndSizes() throws {
    let long = String(repeating: "n", count: 300)
    let tar =
      member("PaxHeaders/x", record("comment", "a=b") + record("path", "second"), type: "x") + member("first")
      + member("././@LongLink", Array(long.utf8) + [0], type: "L") + member("short")
      + member("PaxHeaders/x", record("size", "3"), type: "x") + header("sized") + Array("abc".utf8) + [UInt8](repeating: 0, count: 509)
      + member("last") + end
    let found = try list(tar)
    #expect(found.map { String(decoding: $0.name, as: UTF8.self) } == ["second", long, "sized", "last"])
    #expect(found[2].data.count == 3)
    let all = try list(member("PaxHeaders/g", record("path", "all"), type: "g") + member("a") + member("b") + end)
    #expect(all.map { String(decoding: $0.name, as: UTF8.self) } == ["all", "all"])
  }

  @Test func sizesMayBeBinary() throws {
    var large = header("large")
    large.replaceSubrange(124..<136, with: [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1])
    let found = try list(summed(large) + [UInt8](repeating: 1, count: 1024) + end)
    #expect(found.first?.data == 512..<1025)
  }

  @Test func whatIsDamagedIsSaid() {
    let good = member("a", Array("abc".utf8))
    #expect(problem(good) == "it is cut off: there is no end mark at byte 1024")
    #expect(problem(good + end.prefix(300)) == "it is cut off: there is no end mark at byte 1024")
    #expect(problem(Array(good.prefix(514))) == "it is cut off: the member at byte 0 claims 3 bytes, 2 are left")
    #expect(problem(header("a", size: "77777777777") + end)?.contains("it is cut off") == true)
    #expect(problem(header("a", size: "-1") + end) == "the header at byte 0 has no size")
    var damaged = good
    damaged[3] = 1
    #expect(problem(damaged + end) == "the header at byte 0 has a wrong checksum")
    #expect(problem(member("a", type: "S") + end) == "the member at byte 0 is of an unsupported type")
    #expect(
      problem(member("x", record("GNU.sparse.major", "1"), type: "x") + good + end) == "it has sparse members, which are not supported")
    for size in ["-1", "+1", "", "9223372036854775807", "1e3"] {
      #expect(problem(member("x", record("size", size), type: "x") + good + end) == "a pax size is not a number", "\(size)")
    }
    for text in ["5 path=x\n", "999999 path=x\n", "-3 path=x\n", "path=x\n", "9 pathxx\n", "6 =\n"] {
      #expect(problem(member("x", Array(text.utf8), type: "x") + good + end) == "a pax header is malformed", "\(text)")
    }
    let empty = member("x", type: "x")
    #expect(problem((0...100).flatMap { _ in empty } + good + end)?.contains("too many without a member") == true)
    #expect(
      problem(header("x", size: "1000000", type: "L") + [UInt8](repeating: 0, count: 1 << 18) + end)?.contains("bytes of names") == true)
  }
}
