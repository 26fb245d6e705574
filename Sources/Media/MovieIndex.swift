/// The index of a video, which a recorder writes last.
package enum MovieIndex {
  /// Reads the boxes of the index without decoding anything. Throws `MovieError` where they are missing or wrong.
  package static func check(_ input: FileSlice) throws { _ = try MovieBoxes(input, limits: MovieLimits()) }
}
