import Foundation
import Testing
import TestSupport

@testable import Exports
@testable import Steps

@Suite struct ArchiveWriterTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  /// A file that members are appended to, in which large pieces of zeros are holes.
  private func sparse(_ name: String, _ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void) throws -> String {
    let path = directory.path + "/" + name
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    var offset: off_t = 0
    try body { piece in
      if piece.count < 1 << 24 { #expect(pwrite(descriptor, piece.baseAddress, piece.count, offset) == piece.count) }
      offset += off_t(piece.count)
      #expect(ftruncate(descriptor, offset) == 0)
    }
    return path
  }

  private func read(_ content: some ArchiveContent, _ entry: Int) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 100)
    let count = try bytes.withUnsafeMutableBytes { try content.open(entry).read(into: $0) }
    return Array(bytes[..<count])
  }

  /// 17 members of 256 MiB: the last one begins beyond 32 bits.
  @Test func membersBeyondFourGigabytesAreFound() throws {
    let zeros = [UInt8](repeating: 0, count: 1 << 28)
    let path = try sparse("far.zip") { write in
      try withoutActuallyEscaping(write) { write in
        var zip = StoredZip(write)
        try zip.add(Array("near".utf8), named: "data/.zgroup")
        for index in 0..<17 { try zip.add(zeros, named: "data/\(index)") }
        try zip.add(Array("far".utf8), named: "meta/.zgroup")
        try zip.finish()
      }
    }
    let zip = try ZipContent(try InputFile(path), limit: 100)
    #expect(zip.entries.count == 19 && zip.entries[17].bytes == 1 << 28)
    #expect(try read(zip, 0) == Array("near".utf8) && read(zip, 18) == Array("far".utf8))
    #expect(String(decoding: zip.entries[18].name, as: UTF8.self) == "meta/.zgroup")
  }

  /// 65535 in the record of 16 bits means that the number is in the one of 64.
  @Test func aZipOf65535MembersOrMoreHasTheirNumberIn64Bits() throws {
    final class End { var bytes: [UInt8] = [] }
    let end = End()
    func number(_ start: Int, _ count: Int) -> Int { end.bytes[start..<(start + count)].reversed().reduce(0) { $0 << 8 | Int($1) } }
    var zip = StoredZip { end.bytes = Array($0) }
    for index in 1...65536 {
      try zip.add([], named: "m")
      guard index >= 65534 else { continue }
      var finished = zip
      try finished.finish()
      let last = end.bytes.count - 22
      #expect(number(last, 4) == 0x0605_4B50 && number(last + 10, 2) == min(index, 65535))
      if index < 65535 {
        #expect(last == 0)
      } else {
        try #require(last == 56 + 20)
        #expect(number(0, 4) == 0x0606_4B50 && number(24, 8) == index && number(32, 8) == index && number(56, 4) == 0x0706_4B50)
      }
    }
  }

  @Test func aTarIsReadAsItWasWritten() throws {
    let long = String(repeating: "x", count: 93) + "-000000.json"
    let members = [("a-000000.png", [UInt8](1...255)), ("empty", []), (long, Array("{}".utf8)), ("b", [UInt8](repeating: 7, count: 1024))]
    let path = try sparse("shard.tar") { write in
      try withoutActuallyEscaping(write) { write in
        let tar = TarWriter(write)
        for (name, contents) in members { try tar.add(contents, named: name) }
        try tar.finish()
      }
    }
    let tar = try TarContent(try InputFile(path), limit: 100)
    #expect(tar.entries.map { String(decoding: $0.name, as: UTF8.self) } == members.map(\.0))
    #expect(tar.entries.map(\.bytes) == members.map { Int64($0.1.count) })
    for index in [0, 2] { #expect(try read(tar, index) == Array(members[index].1.prefix(100))) }
    // 4 headers and 4 blocks of contents, 2 blocks for the long name, 2 for the end.
    #expect(try directory.read("shard.tar").count == 512 * 12)
  }
}
