import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Runs
@testable import Steps
@testable import Transforms

/// The laws that every registered step obeys.
@Suite struct StepLaws {
  private static let steps: [any Step.Type] = Registry.readers + Registry.transforms + Registry.writers

  @Test func namesAreKebabCaseUniqueAndInOrder() {
    for kind in [Registry.readers as [any Step.Type], Registry.transforms, Registry.writers] {
      let names = kind.map { $0.name }
      #expect(names == names.sorted())
      #expect(Set(names).count == names.count)
      #expect(names.allSatisfy { $0.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" } })
    }
  }

  /// Steps that do nothing without options, and refuse to.
  private static let demanding: [String: [String: JSONValue]] = [
    "crop": ["center": [4, 2]], "decimate": ["every": 2], "drop-frames": ["with": ["pose-jump"]], "min-frames": ["count": 2],
    "pose-frame": ["axes": "opencv"],
    "python": [
      "file": "step.py",
      "recorded": [
        "kind": "rows", "reads": ["pose", "camera_image"], "writes": ["kind": "vector", "name": "made", "elements": ["a"], "unit": "m"],
      ],
    ], "rename": ["streams": ["joints": "hand"]], "resample": ["rate": 20],
    "resample-depth": ["width": 2, "height": 2], "rotate": ["degrees": 90], "select": ["streams": ["camera_image", "pose"]],
    "split-episodes": ["at": "gaps"], "trim": ["start-frames": 1],
  ]

  @Test(arguments: Self.steps.indices) func defaultsSurviveARoundTrip(index: Int) throws {
    func check<S: Step>(_ type: S.Type) throws {
      let options = Options.values(of: S()).object ?? [:]
      let needed = Self.demanding[S.name] ?? [:]
      let merged = options.merging(needed) { _, new in new }
      #expect(try Options.values(of: Options.decode(S.self, over: .object(merged), at: "x")) == .object(merged))
      if !needed.isEmpty { #expect(throws: PipelineFileError.self) { try Options.decode(S.self, over: nil, at: "x") } }
    }
    try check(Self.steps[index])
  }

  @Test(arguments: Self.steps.indices) func unknownOptionsAreRefusedByPath(index: Int) {
    func check<S: Step>(_ type: S.Type) {
      let error = #expect(throws: PipelineFileError.self) { try Options.decode(S.self, over: ["rte": 1], at: "transforms[1].\(S.name)") }
      #expect(error?.path == "transforms[1].\(S.name).rte")
      #expect(error?.message.contains("unknown option") == true)
    }
    check(Self.steps[index])
  }

  @Test(arguments: Self.steps.indices) func everyOptionHasAMeaningAndChecksItsValues(index: Int) throws {
    func check<S: Step>(_ type: S.Type) throws {
      #expect(!S.summary.isEmpty)
      for option in Options.declarations(of: S()) {
        #expect(!option.meaning.isEmpty)
        #expect(option.mistake(in: option.value) == nil, "the default of \(S.name).\(option.name) is refused")
        // What a step of the user's gets is any object, and a description has mistakes of its own.
        let isAnyObject = [Python.name, "folder"].contains(S.name) && option.expectation.contains("object")
        for wrong: JSONValue in [[[[]]], .number(.infinity)] + (isAnyObject ? [] : [["a": [[]]]]) {
          let error = #expect(throws: PipelineFileError.self, "\(S.name).\(option.name) took \(wrong)") {
            try Options.decode(S.self, over: .object([option.name: wrong]), at: S.name)
          }
          #expect(error?.path == "\(S.name).\(option.name)")
          #expect(error?.message.hasPrefix("expected \(option.expectation), found ") == true, "\(error?.message ?? "")")
        }
        guard let range = option.range else { continue }
        for outside in [range.minimum.map { $0 - 1 }, range.exclusiveMinimum, range.maximum.map { $0 * 2 + 1 }].compactMap(\.self) {
          #expect(option.mistake(in: outside == outside.rounded() ? .integer(Int64(outside)) : .number(outside)) != nil)
        }
        for inside in [range.minimum, range.maximum].compactMap(\.self) where abs(inside) < 1e15 {
          #expect(option.mistake(in: inside == inside.rounded() ? .integer(Int64(inside)) : .number(inside)) == nil)
        }
      }
    }
    try check(Self.steps[index])
  }

  /// Options under which a transform has something to do.
  private func busy(_ type: any Transform.Type) throws -> any Transform {
    func make<T: Transform>(_ type: T.Type) throws -> any Transform {
      let options = Self.demanding.mapValues { JSONValue.object($0) }.merging(["resize-image": ["width": 4, "height": 3]]) { own, _ in own }
      return try Options.decode(T.self, over: options[T.name], at: T.name)
    }
    return try make(type)
  }

  /// An episode as the transform expects it: those that need aligned streams come after `align`.
  private func prepared(_ synthetic: SyntheticEpisode = SyntheticEpisode(), for index: Int) throws -> Episode {
    Registry.transforms[index].needsAligned ? try Align().apply(to: synthetic.episode) : synthetic.episode
  }

  @Test(arguments: Registry.transforms.indices) func transformsReadNoImageAndNoDepth(index: Int) throws {
    let synthetic = SyntheticEpisode()
    let transform = try busy(Registry.transforms[index])
    _ = try transform.apply(to: prepared(synthetic, for: index))
    #expect(synthetic.readCount == 0 || transform.readsSamples)
  }

  @Test(arguments: Registry.transforms.indices) func timestampsStayAscendingAndRowsStayInside(index: Int) throws {
    let episode = try busy(Registry.transforms[index]).apply(to: prepared(for: index))
    #expect(zip(episode.frames.timestamps, episode.frames.timestamps.dropFirst()).allSatisfy { $0 < $1 })
    #expect(episode.frames.sourceIndex.count == episode.frames.count)
    for (_, stream) in episode.streams {
      #expect(zip(stream.timestamps, stream.timestamps.dropFirst()).allSatisfy { $0 <= $1 })
      #expect(stream.sourceIndex.count == stream.timestamps.count)
      if let rows = stream.rows {
        #expect(rows.count == episode.frames.count)
        #expect(
          rows.allSatisfy {
            $0.map { stream.timestamps.indices.contains($0.sample) && stream.timestamps.indices.contains($0.next) } ?? true
          })
      }
    }
  }

  @Test(arguments: Registry.transforms.indices) func theSameInGivesTheSameOut(index: Int) throws {
    func outline(_ episode: Episode) -> [String] {
      ["\(episode.frames)", "\(episode.findings)", "\(episode.dropped)", "\(episode.alignments)"]
        + episode.streams.sorted { $0.key < $1.key }.map {
          "\($0.key) \($0.value.spec) \($0.value.timestamps) \(String(describing: $0.value.rows))"
        }
    }
    let transform = try busy(Registry.transforms[index])
    #expect(try outline(transform.apply(to: prepared(for: index))) == outline(transform.apply(to: prepared(for: index))))
  }

  @Test(arguments: Registry.transforms.indices) func framesInAreFramesOutAndDropped(index: Int) throws {
    let before = try prepared(for: index)
    let after = try busy(Registry.transforms[index]).apply(to: before)
    #expect(after.frames.count + after.dropped.reduce(0) { $0 + $1.count } == before.frames.count + after.repeated)
  }
}
