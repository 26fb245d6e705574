package import Evidence
package import Model

extension Intrinsics {
  /// fx, fy, cx, cy; `nil` unless these are four finite numbers with positive focal lengths, and a center: 0, 0 is what is written where none
  /// was measured.
  init?(_ numbers: [Double]) {
    guard numbers.count == 4, numbers.allSatisfy({ Float($0).isFinite }), numbers[0] > 0, numbers[1] > 0, numbers[2] != 0 || numbers[3] != 0
    else { return nil }
    self.init(fx: numbers[0], fy: numbers[1], cx: numbers[2], cy: numbers[3])
  }

  /// The record's object: pixels of images of this size.
  package func json(for size: ImageSize) -> JSONValue {
    [
      "fx": .number(fx), "fy": .number(fy), "cx": .number(cx), "cy": .number(cy), "width": JSONValue(size.width),
      "height": JSONValue(size.height),
    ]
  }
}
