package import Model

/// A step that says how the keys of a dataset are normalized.
package protocol NormalizationRule: Transform {
  /// The parameters of a key with these statistics; `nil` if none are to be stored.
  func parameters(of statistics: Statistics) -> Normalization?
}

extension NormalizationRule {
  package static var concernsIndexOnly: Bool { true }
  /// Returns the episode unchanged: the rule concerns the index.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode { episode }
}

/// Parameters that normalize a key, one element per channel: normalized = (x - offset) / scale.
package struct Normalization: Sendable, Equatable {
  package var method: String
  /// Never 0; 1 for a channel without a spread or without values.
  package var scale: [Double] = []
  package var offset: [Double] = []

  package init(method: String, scale: [Double] = [], offset: [Double] = []) {
    (self.method, self.scale, self.offset) = (method, scale, offset)
  }
}
