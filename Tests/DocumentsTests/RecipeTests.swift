import Foundation
import Testing

@testable import Documents
@testable import Runs
@testable import Steps

@Suite struct RecipeTests {
  @Test(arguments: Recipe.allCases) func isAPipelineThatStartsWithAlign(recipe: Recipe) throws {
    let pipeline = try PipelineFile.parse(recipe.pipeline)
    #expect(pipeline.transforms.first.map { type(of: $0).name } == "align")
  }

  @Test func thatOfTheServerIsTheDefaultAndMeasuresDepth() throws {
    let server = try PipelineFile.parse(Recipe.server.pipeline).canonical()
    let expected = try PipelineFile.defaultPipeline().canonical()
    #expect(server["reader"] == expected["reader"] && server["writer"] == expected["writer"])
    let (steps, usual) = (try #require(server["transforms"]?.array), try #require(expected["transforms"]?.array))
    let depth = try PipelineFile.parse("{version: 1, transforms: [align, verify-depth]}").canonical()["transforms"]?.array?.last
    #expect(Array(steps.dropLast()) == usual && steps.last == depth)
  }

  @Test(arguments: Recipe.allCases) func saysHowToRunItAndWhyEachStepIsThere(recipe: Recipe) {
    let lines = recipe.pipeline.split(separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.contains("#     takeset run sessions/ --output dataset/ --pipeline \(recipe.rawValue).yaml"))
    for (line, next) in zip(lines, lines.dropFirst()) where next.hasPrefix("  - ") || next == "writer:" {
      #expect(line.drop { $0 == " " }.hasPrefix("# "), "\(next)")
    }
    #expect(recipe.pipeline.hasSuffix("\n") && !recipe.pipeline.hasSuffix("\n\n"))
  }

  @Test func everyFileIsTheRecipeOfItsName() throws {
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../examples/recipes")
      .standardizedFileURL
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    // That one is for its input, of which a use knows nothing.
    #expect(Set(names) == Set(Recipe.allCases.map { "\($0.rawValue).yaml" } + ["mcap.yaml"]))
    for recipe in Recipe.allCases {
      #expect(try String(contentsOf: folder.appendingPathComponent("\(recipe.rawValue).yaml"), encoding: .utf8) == recipe.pipeline)
    }
  }
}
