import Datasets
package import Evidence
import Model
import Steps

/// The differences between two pipelines in their canonical form, in words.
///
///     PipelineDifferences(before, after, in: ("the dataset", "this run")).sentences      // ["transforms[1].resize-image.width is 320 in …"]
package struct PipelineDifferences {
  package private(set) var sentences: [String] = []
  private let names: (String, String)

  /// - Parameter names: What each of both is in, such as a dataset.
  package init(_ a: JSONValue, _ b: JSONValue, in names: (String, String)) {
    self.names = names
    // What concerns the index alone makes no other rows. Episodes of Takeset 0.3.0 carry the digest of the whole pipeline.
    sentences = differences(Self.withoutIndexOptions(a), Self.withoutIndexOptions(b), at: "")
    if sentences.isEmpty { sentences = differences(a, b, at: "") }
  }

  /// Why a run refuses a directory, with the differences from the pipeline of its manifest, if it has one.
  static func refusal(of output: String, at path: String, _ pipeline: Pipeline, _ sentence: String) -> UsageError {
    let earlier = (try? Dataset(directory: path))?.record.pipeline
    let sentences = earlier.map { PipelineDifferences($0, pipeline.canonical(), in: ("the dataset", "this pipeline")).sentences } ?? []
    let words = sentences.isEmpty ? "" : ": \(sentences.abridged)"
    return UsageError("\(output) \(sentence)\(words); give another --output, or --replace to rebuild it")
  }

  /// A pipeline whose steps for the index alone have no options, and so do not differ.
  private static func withoutIndexOptions(_ pipeline: JSONValue) -> JSONValue {
    guard var members = pipeline.object, let steps = members["transforms"]?.array else { return pipeline }
    members["transforms"] = .array(
      steps.map { step in
        guard let name = step.object?.keys.first, Registry.transform(name)?.concernsIndexOnly == true else { return step }
        return .object([name: [:]])
      })
    return .object(members)
  }

  /// Returns the differences between two values, as sentences; of lists of steps only the first step that differs.
  private func differences(_ a: JSONValue, _ b: JSONValue, at path: String) -> [String] {
    // A whole number is the same with a decimal point.
    if a == b { return [] }
    if let a = a.object, let b = b.object {
      return Set(a.keys).union(b.keys).sorted().flatMap { key -> [String] in
        if path.hasSuffix(Self.files) { return a[key] == b[key] ? [] : ["the file \(key) of a step in Python is another one"] }
        return differences(a[key] ?? .null, b[key] ?? .null, at: path.isEmpty ? key : "\(path).\(key)")
      }
    }
    if let a = a.array, let b = b.array,
      let index = (0..<max(a.count, b.count)).first(where: { a.dropFirst($0).first != b.dropFirst($0).first })
    {
      let (own, other) = (a.dropFirst(index).first, b.dropFirst(index).first)
      if let own, let other, own.object.map({ Set($0.keys) }) == other.object.map({ Set($0.keys) }) {
        return differences(own, other, at: "\(path)[\(index)]")
      }
      return [sentence("\(path)[\(index)]", own, other)]
    }
    return [sentence(path, a, b)]
  }

  /// The end of the path of the digests of a step's files.
  private static let files = ".recorded.digests"

  private func sentence(_ path: String, _ a: JSONValue?, _ b: JSONValue?) -> String {
    "\(path) is \(Self.short(a)) in \(names.0) and \(Self.short(b)) in \(names.1)"
  }

  private static func short(_ value: JSONValue?) -> String {
    guard let value else { return "missing" }
    let text = value.canonicalText
    return text.count > 200 ? text.prefix(200) + "…" : text
  }
}
