import Evidence
import Model
import Testing

@testable import Datasets
@testable import Runs
@testable import Steps

@Suite struct PipelineFileTests {
  @Test func readsTheExampleOfTheDocumentation() throws {
    let pipeline = try PipelineFile.parse(
      """
      version: 1
      reader: {name: stack-session, max-image-side: 4096}
      transforms:
        - align: {tolerance: 0.1, method: linear}
        - decimate: {rate: 29.97}
        - split
      writer:
        hdf5: {compression: fast, image-compression: 0}
      """)
    #expect(pipeline.transforms.map { type(of: $0).name } == ["align", "decimate", "split"])
    let canonical = pipeline.canonical()
    #expect(canonical["reader"]?["max-image-side"] == 4096)
    #expect(canonical["transforms"]?.array?[0]["align"]?["tolerance"] == .number(0.1))
    #expect(canonical["transforms"]?.array?[1]["decimate"] == ["every": nil, "rate": .number(29.97), "rule": "nearest"])
    #expect(canonical["writer"]?["hdf5"]?["compression"] == "fast")
  }

  @Test func acceptsJSON() throws {
    let pipeline = try PipelineFile.parse(#"{"version": 1, "transforms": [{"align": {}}], "writer": {"hdf5": {}}}"#)
    #expect(pipeline.transforms.count == 1)
  }

  @Test func theDigestDependsOnWhatIsDoneAndNotOnHowItIsWritten() throws {
    let short = try PipelineFile.parse("version: 1\ntransforms: [align]")
    let long = try PipelineFile.parse(
      "transforms:\n- align: {method: nearest, tolerance: 0.05}\nversion: 1\nreader: auto\nwriter: {hdf5: {compression: 4}}")
    #expect(short.digest() == long.digest())
    #expect(try short.digest() != PipelineFile.parse("version: 1\ntransforms: [align: {tolerance: 0.06}]").digest())
  }

  /// Wherever they stand.
  @Test func stepsOfTheIndexAreNoPartOfAConversion() throws {
    func digests(_ steps: String) throws -> [Digest] {
      let pipeline = try PipelineFile.parse("version: 1\ntransforms: [\(steps)]")
      return [pipeline.digest(), pipeline.conversionDigest()]
    }
    let plain = try digests("align, actions: {}")
    for others in ["split: {seed: 1}, align, actions", "align, split: {seed: 2}, actions, normalize: {}"] {
      let found = try digests(others)
      #expect(found[0] != plain[0] && found[1] == plain[1])
    }
    #expect(plain[0] == plain[1])
    #expect(try digests("align, actions: {horizon: 2}, split")[1] != plain[1])
  }

  @Test(arguments: [
    (
      "version: 1\ntransforms:\n- align: {}\n- decimate: {rte: 30}", "transforms[1].decimate.rte",
      "unknown option; decimate has \"every\", \"rate\""
    ),
    ("version: 1\ntransforms:\n- blur: {}", "transforms[0].blur", "unknown step \"blur\""),
    (
      "version: 1\ntransforms:\n- align: {tolerance: wide}", "transforms[0].align.tolerance",
      "expected a number from 0 to 3600, found the text \"wide\""
    ),
    (
      "version: 1\ntransforms:\n- align: {tolerance: -1}", "transforms[0].align.tolerance",
      "expected a number from 0 to 3600, found the number -1"
    ),
    ("version: 1\ntransforms:\n- decimate: {every: 1.5}", "transforms[0].decimate.every", "found the number 1.5"),
    ("version: 1\ntransforms:\n- align: {}\n  split: {}", "transforms[0]", "expected one step by name"),
    ("version: 1\nwriter: {hdf5: {compression: 12}}", "writer.hdf5.compression", "expected 0 to 9, or fast"),
    ("version: 1\nwriter: {zarr: {}}", "writer.zarr", "unknown writer"),
    ("version: 1\nreader: {name: nothing}", "reader", "unknown reader"),
    ("version: 2", "version", "expected 1"), ("transforms: []", "version", "missing"),
    ("version: 1\ntransform: []", "transform", "unknown key"), ("[1, 2]", "", "expected an object"), ("", "", "empty"),
    ("version: 1\ntransforms: {align: {}}", "transforms", "expected a list"), ("version: [", "", "not YAML"),
    (
      "version: 1\ntransforms:\n- split\n- resample: {rate: 30}\n- align: {}", "transforms[2].align",
      "resample needs streams that are aligned; put align before it"
    ),
    ("version: 1\ntransforms:\n- split: {valid: 0.6, test: 0.5}", "transforms[0].split.test", "leave nothing to train on"),
  ]) func namesTheFirstMistake(text: String, path: String, message: String) {
    let error = #expect(throws: PipelineFileError.self) { try PipelineFile.parse(text) }
    #expect(error?.path == path)
    #expect(error?.message.contains(message) == true, "\(String(describing: error))")
  }

  /// Each list holds the one before ten times: a billion values in half a kilobyte, which would take hours and all memory.
  @Test(.timeLimit(.minutes(1))) func aliasesAreRefusedBeforeTheyAreExpanded() {
    var text = "version: 1\na0: &a0 [x]\n"
    for level in 1...9 {
      text += "a\(level): &a\(level) [" + repeatElement("*a\(level - 1)", count: 10).joined(separator: ",") + "]\n"
    }
    let error = #expect(throws: PipelineFileError.self) { try PipelineFile.parse(text) }
    #expect(error?.message.contains("aliases are not supported") == true && error?.line == 3 && error?.column == 10)
    let split = #expect(throws: UsageError.self) { try SplitFile(Array(text.utf8), name: "split.yaml") }
    #expect(split?.message.contains("aliases are not supported") == true)
    for other in ["{\"a\":&x 1,\"b\":*x}", "[&a b,*a]", "&a a: 1\n*a : 2", "\u{FEFF}&a [1]\n--- *a"] {
      #expect(throws: PipelineFileError.self) { try PipelineFile.parse(other) }
    }
  }

  @Test(arguments: ["# R&D *new*", "# &a but no alias", "# *a but no anchor", "# 2 & 3 * 4 &", "# x&a x*a"])
  func ampersandsAndAsterisksInTextAreNoAliases(comment: String) throws {
    #expect(try PipelineFile.parse("version: 1 \(comment)\ntransforms: [align]").transforms.count == 1)
  }
}
