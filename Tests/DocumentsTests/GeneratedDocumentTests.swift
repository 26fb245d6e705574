import Foundation
import Model
import Testing
import TestSupport

@testable import Documents

@Suite struct GeneratedDocumentTests {
  private let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..").standardizedFileURL

  /// `make generate` brings them up to date.
  @Test(arguments: GeneratedDocument.all.map(\.path)) func isUpToDate(path: String) throws {
    let document = try #require(GeneratedDocument.all.first { $0.path == path })
    let copy = try TemporaryDirectory()
    try copy.write(path, try Data(contentsOf: root.appendingPathComponent(path)))
    #expect(try !document.write(below: copy.path), "\(path) is stale; run make generate")
    #expect(try !document.write(below: copy.path))
  }

  /// Who adds a step forgets its section once, and is told.
  @Test func aStepWithoutASectionIsRefused() throws {
    let path = "docs/pipeline.md"
    let document = try #require(GeneratedDocument.all.first { $0.path == path })
    let page = try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    let copy = try TemporaryDirectory()
    try copy.write(path, Array(page.replacing("<!-- generated: options of trim -->\n", with: "").utf8))
    let error = #expect(throws: GeneratedDocument.Missing.self) { try document.write(below: copy.path) }
    #expect(error?.description.contains("add the lines <!-- generated: options of trim --> and <!-- end -->") == true)
  }

  @Test func aSectionThatCodeDoesNotHaveIsRefused() throws {
    let copy = try TemporaryDirectory()
    try copy.write("docs/pipeline.md", Array("<!-- generated: options of blur -->\n<!-- end -->\n".utf8))
    let document = try #require(GeneratedDocument.all.first { $0.path == "docs/pipeline.md" })
    #expect(throws: GeneratedDocument.Missing.self) { try document.write(below: copy.path) }
  }

  @Test func aStaleDocumentIsWrittenAnew() throws {
    let path = "schemas/pipeline.schema.json"
    let document = try #require(GeneratedDocument.all.first { $0.path == path })
    let copy = try TemporaryDirectory()
    try copy.write(path, Array("{}\n".utf8))
    #expect(try document.write(below: copy.path))
    #expect(try copy.read(path) == Array(try Data(contentsOf: root.appendingPathComponent(path))))
    #expect(try !document.write(below: copy.path))
  }

  @Test func onlySectionsAreReplaced() throws {
    let path = "docs/pipeline.md"
    let document = try #require(GeneratedDocument.all.first { $0.path == path })
    let step = try #require(StepDescription.all.first { $0.name == "align" })
    let page = try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8) + "\nWritten by hand.\n"
    let copy = try TemporaryDirectory()
    try copy.write(path, Array(page.replacing(step.table, with: "| of an |\n| earlier version |").utf8))
    #expect(try document.write(below: copy.path))
    #expect(String(decoding: try copy.read(path), as: UTF8.self) == page)
  }
}
