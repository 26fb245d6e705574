import Evidence
import Testing

/// Bodies with parts of any bytes, read in pieces of any size.
@Suite struct MultipartParserTests {
  private struct Part: Equatable {
    var name: String?
    var data: [UInt8]
  }

  /// What a parser makes of a body that arrives in pieces of `size` bytes.
  private func parts(_ body: [UInt8], size: Int, boundary: String = "B") throws -> [Part] {
    var parser = try #require(MultipartParser(boundary: boundary))
    var parts: [Part] = []
    var rest = body[...]
    while true {
      while let event = try parser.next() {
        switch event {
        case .part(let header): parts.append(Part(name: header.name, data: []))
        case .data(let bytes): parts[parts.count - 1].data += bytes
        case .endOfPart: break
        case .end: return parts
        }
      }
      if rest.isEmpty { parser.end() } else { parser.append(rest.prefix(size)) }
      rest = rest.dropFirst(size)
    }
  }

  private func body(_ parts: [Part], boundary: String = "B", end: String = "--\r\n") -> [UInt8] {
    parts.flatMap {
      Array("--\(boundary)\r\nContent-Disposition: form-data; name=\"\($0.name ?? "")\"\r\n\r\n".utf8) + $0.data + Array("\r\n".utf8)
    } + Array("--\(boundary)\(end)".utf8)
  }

  @Test(arguments: [1, 2, 3, 7, 64, 10_000]) func piecesOfAnySizeGiveTheSameParts(size: Int) throws {
    let wanted = [
      Part(name: "a", data: Array("\r\n--A\r\n-\r\n--".utf8)), Part(name: "b", data: []),
      Part(name: "c", data: (0..<1000).map { UInt8($0 % 256) }),
      Part(name: "d", data: Array("\r\n\r\r\n--C".utf8)),
    ]
    #expect(try parts(body(wanted), size: size) == wanted)
  }

  /// A phone that cannot read its file sends the header and at once the next boundary.
  @Test(arguments: [1, 5, 1000]) func aPartWithoutItsLineEndIsEmpty(size: Int) throws {
    let body = Array("--B\r\nContent-Disposition: form-data; name=\"video\"; filename=\"a.mov\"\r\n\r\n--B--\r\n".utf8)
    #expect(try parts(body, size: size) == [Part(name: "video", data: [])])
  }

  @Test func offsetsAreThoseInTheBody() throws {
    var parser = try #require(MultipartParser(boundary: "B"))
    let text = "--B\r\nContent-Disposition: form-data; name=x\r\n\r\nhello\r\n--B--"
    parser.append(Array(text.utf8))
    while let event = try parser.next(), event != .endOfPart {}
    #expect(parser.dataStart == Int64(text.utf8.count - "hello\r\n--B--".utf8.count))
  }

  @Test func headersMayBeQuotedEscapedAndInAnyOrder() throws {
    var parser = try #require(MultipartParser(boundary: "B"))
    parser.append(
      Array("--B\r\ncontent-type: video/mp4\r\nCONTENT-DISPOSITION: form-data; filename=\"a;\\\"b\\\".mov\"; name=video\r\n\r\n".utf8))
    guard case .part(let header) = try parser.next() else {
      Issue.record("there is no part")
      return
    }
    #expect(header.name == "video" && header.filename == "a;\"b\".mov" && header.contentType == "video/mp4")
  }

  @Test(arguments: [
    ("multipart/form-data; boundary=B", true), ("Multipart/Form-Data; charset=utf-8; boundary=\"a b;c\"", true),
    ("multipart/form-data", false),
    ("multipart/mixed; boundary=B", false), ("multipart/form-data; boundary=", false),
    ("multipart/form-data; boundary=" + String(repeating: "b", count: 71), false),
  ])
  func theBoundaryComesFromTheContentType(header: String, isForm: Bool) {
    #expect((MultipartParser(contentType: header) != nil) == isForm)
  }

  @Test(arguments: [
    ("hello", "does not start with its boundary"), ("--B", "ends at a boundary"), ("--Bx\r\n", "neither a line end nor --"),
    ("--B\r\nContent-Disposition: form-data", "does not end"), ("--B\r\n\r\n\r\ndata", "closing boundary"), ("", "first boundary"),
    ("--B\r\n" + String(repeating: "a", count: 9000), "does not end"),
    (String(repeating: "--B\r\n\r\n\r\n", count: 65) + "--B--", "more than 64 parts"),
  ])
  func malformedBodiesAreRefused(text: String, message: String) {
    for size in [1, 4096] {
      #expect {
        try parts(Array(text.utf8), size: size)
      } throws: {
        "\($0)".contains(message)
      }
    }
  }

  @Test(arguments: [1, 3, 64, 10_000]) func whatStandsBeforeTheFirstBoundaryIsIgnored(size: Int) throws {
    let part = Part(name: "a", data: [1])
    for preamble in ["\r\n", "To readers without forms\r\n", "--C\r\n--\r\n", String(repeating: "p", count: 8000) + "\r\n"] {
      #expect(try parts(Array(preamble.utf8) + body([part]), size: size) == [part])
    }
    #expect(throws: MultipartParser.Malformed.self) { try parts([UInt8](repeating: 0, count: 9000) + [13, 10] + body([part]), size: size) }
  }

  @Test(arguments: [
    ("filename*=UTF-8''a%20%C3%BC.mov", "a \u{FC}.mov"), ("filename=\"\"; filename*=utf-8'en'b.mov", "b.mov"),
    ("filename*=utf-8''b.mov; filename=\"a.mov\"", "b.mov"), ("filename*=ISO-8859-1''%fc%41.mov", "\u{FC}A.mov"),
    ("filename=\"a.mov\"; filename*=utf-8''%FF", "a.mov"), ("filename=\"a.mov\"; filename*=b.mov", "a.mov"),
    ("filename=\"a.mov\"; filename*=koi8-r''b.mov", "a.mov"),
  ])
  func namesMayBeExtended(parameters: String, name: String) throws {
    var parser = try #require(MultipartParser(boundary: "B"))
    parser.append(Array("--B\r\nContent-Disposition: form-data; name=video; \(parameters)\r\n\r\n".utf8))
    guard case .part(let header) = try parser.next() else {
      Issue.record("there is no part")
      return
    }
    #expect(header.filename == name)
  }

  @Test func whatFollowsTheEndIsIgnored() throws {
    let part = Part(name: "a", data: [1])
    #expect(try parts(body([part], end: "--\r\nepilogue\r\n--B\r\n"), size: 3) == [part])
  }
}
