import CHDF5

/// The element types that Takeset stores: little-endian numbers, truth values, fixed-length byte strings, and variable-length byte
/// sequences.
package enum Datatype: Hashable, Sendable {
  case uint8, int8, uint16, int32, int64, float32, float64
  /// A byte that is 0 or 1, as h5py stores booleans: an enumeration of FALSE and TRUE.
  case boolean
  /// A byte string of exactly this many bytes, padded with NUL.
  case string(Int)
  /// UTF-8 in exactly this many bytes, padded with NUL.
  case text(Int)
  /// A variable-length sequence of bytes.
  case bytes

  /// Size of one element in bytes; for a sequence, the size of its reference in the array.
  package var size: Int {
    switch self {
    case .uint8, .int8, .boolean: 1
    case .uint16: 2
    case .int32, .float32: 4
    case .int64, .float64: 8
    case .string(let length), .text(let length): length
    case .bytes: 16
    }
  }

  /// The bytes of a text of fixed length; `nil` for another type.
  package var textWidth: Int? {
    switch self {
    case .string(let length), .text(let length): length
    default: nil
    }
  }

  /// NumPy's name of the type, little-endian: `|u1`, `<f4`, `|S12`.
  package var numpyName: String {
    switch self {
    case .uint8: "|u1"
    case .int8: "|i1"
    case .uint16: "<u2"
    case .int32: "<i4"
    case .int64: "<i8"
    case .float32: "<f4"
    case .float64: "<f8"
    case .boolean: "|b1"
    case .string(let length), .text(let length): "|S\(length)"
    case .bytes: "|O"
    }
  }

  /// Makes the type with that NumPy name; numbers and byte sequences only.
  package init?(numpyName: String) {
    guard let type = (Self.numbers + [.bytes]).first(where: { $0.numpyName == numpyName }) else { return nil }
    self = type
  }

  static let numbers: [Datatype] = [.uint8, .int8, .uint16, .int32, .int64, .float32, .float64]

  /// Runs `body` with the library's type. Number types are predefined and must not be closed, so only the others are made here.
  func withIdentifier<Result>(_ body: (hid_t) throws -> Result) throws -> Result {
    switch self {
    case .uint8: return try body(chdf5_type_u8())
    case .int8: return try body(chdf5_type_i8())
    case .uint16: return try body(chdf5_type_u16())
    case .int32: return try body(chdf5_type_i32())
    case .int64: return try body(chdf5_type_i64())
    case .float32: return try body(chdf5_type_f32())
    case .float64: return try body(chdf5_type_f64())
    case .boolean:
      let type = try hdf5("H5Tenum_create", numpyName) { H5Tenum_create(chdf5_type_i8()) }
      defer { _ = try? hdf5("H5Tclose", numpyName) { H5Tclose(type) } }
      for (name, value) in [("FALSE", Int8(0)), ("TRUE", 1)] {
        var value = value
        try hdf5("H5Tenum_insert", numpyName) { H5Tenum_insert(type, name, &value) }
      }
      return try body(type)
    case .string(let length), .text(let length):
      let type = try hdf5("H5Tcopy", numpyName) { H5Tcopy(chdf5_type_string()) }
      defer { _ = try? hdf5("H5Tclose", numpyName) { H5Tclose(type) } }
      try hdf5("H5Tset_size", numpyName) { H5Tset_size(type, length) }
      try hdf5("H5Tset_strpad", numpyName) { H5Tset_strpad(type, H5T_STR_NULLPAD) }
      if case .text = self { try hdf5("H5Tset_cset", numpyName) { H5Tset_cset(type, H5T_CSET_UTF8) } }
      return try body(type)
    case .bytes:
      let type = try hdf5("H5Tvlen_create", numpyName) { H5Tvlen_create(chdf5_type_u8()) }
      defer { _ = try? hdf5("H5Tclose", numpyName) { H5Tclose(type) } }
      return try body(type)
    }
  }

  /// The type of a stored dataset or attribute, or `nil` for a type that Takeset does not write.
  static func of(_ type: hid_t) throws -> Datatype? {
    for candidate in numbers + [.bytes, .boolean] {
      let same = try candidate.withIdentifier { known in
        try hdf5("H5Tequal", candidate.numpyName) { H5Tequal(type, known) }
      }
      if same > 0 { return candidate }
    }
    let isString = try hdf5("H5Tget_class", "") { H5Tget_class(type).rawValue == H5T_STRING.rawValue ? 1 : 0 }
    let isVariable = try hdf5("H5Tis_variable_str", "") { isString == 1 ? H5Tis_variable_str(type) : 1 }
    if isVariable > 0 { return nil }
    return H5Tget_cset(type) == H5T_CSET_UTF8 ? .text(H5Tget_size(type)) : .string(H5Tget_size(type))
  }
}
