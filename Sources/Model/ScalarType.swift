/// The type of one number of a sample, little-endian.
package enum ScalarType: String, Hashable, Sendable, Codable, CaseIterable {
  case uint8, int8, uint16, int32, int64, float32, float64

  /// Size of one number in bytes.
  package var size: Int {
    switch self {
    case .uint8, .int8: 1
    case .uint16: 2
    case .int32, .float32: 4
    case .int64, .float64: 8
    }
  }

  /// NumPy's name of the type: `|u1`, `<f4`.
  package var numpyName: String {
    switch self {
    case .uint8: "|u1"
    case .int8: "|i1"
    case .uint16: "<u2"
    case .int32: "<i4"
    case .int64: "<i8"
    case .float32: "<f4"
    case .float64: "<f8"
    }
  }
}
