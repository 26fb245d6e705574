/// The name of a capture for people: the name that it was given or, where a program has made that up, its time, length and kind.
enum CaptureName {
  /// - Parameters:
  ///   - receivedAt: Milliseconds since 1970.
  ///   - source: Such as the model of its device.
  static func shown(_ name: String, receivedAt: Int64, seconds: Double?, source: String) -> String {
    guard isMadeUp(name) else { return Figure.short(name, 200) }
    return [Figure.moment(receivedAt), seconds.map(Figure.duration), Figure.short(source, 60)].compactMap(\.self).joined(separator: ", ")
  }

  /// Names such as `video_1795803633388`, and `video_1795803633388_0d1e2f3a.mov` of a movie.
  static func isMadeUp(_ name: String) -> Bool {
    name.utf8.count < 100 && name.wholeMatch(of: /(?:video|stream|movie)_[0-9]{8,20}(?:_[0-9a-f]{8})?(?:\.[A-Za-z0-9]{1,4})?/) != nil
  }
}
