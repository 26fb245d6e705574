import CHDF5

/// Attributes: text as variable-length UTF-8, which h5py reads as `str`, 64-bit integers, and truth values, which it reads as `bool`.
extension Object {
  /// Creates and writes an attribute. `H5Acreate2`, `H5Awrite`.
  package func setAttribute(_ key: String, _ value: String) throws {
    try withVariableString { type in
      try value.withCString { text in
        var pointer: UnsafePointer<CChar>? = text
        try setAttribute(key, type: type, dims: nil, from: &pointer)
      }
    }
  }

  /// Creates a scalar attribute of 64-bit integers, little-endian.
  package func setAttribute(_ key: String, _ value: Int64) throws {
    var value = value
    try setAttribute(key, type: chdf5_type_i64(), dims: nil, from: &value)
  }

  /// Creates a scalar attribute of 64-bit numbers, little-endian.
  package func setAttribute(_ key: String, _ value: Double) throws {
    var value = value
    try setAttribute(key, type: chdf5_type_f64(), dims: nil, from: &value)
  }

  /// Creates a scalar attribute of one signed byte.
  package func setAttribute(_ key: String, byte value: Int8) throws {
    var value = value
    try setAttribute(key, type: chdf5_type_i8(), dims: nil, from: &value)
  }

  /// Creates a scalar attribute of the type that h5py reads as `bool`: an enumeration of `FALSE` and `TRUE` over one byte.
  package func setAttribute(_ key: String, _ value: Bool) throws {
    var byte: Int8 = value ? 1 : 0
    try Datatype.boolean.withIdentifier { try setAttribute(key, type: $0, dims: nil, from: &byte) }
  }

  /// The value of a text attribute, or `nil` where there is none or it is no variable-length text. `H5Aopen`, `H5Aread`.
  package func textAttribute(_ key: String) throws -> String? {
    try withAttribute(key) { attribute, stored in
      guard try hdf5("H5Tis_variable_str", key, { H5Tis_variable_str(stored) }) > 0 else { return nil }
      return try withVariableString { type in
        var pointer: UnsafeMutablePointer<CChar>?
        try hdf5("H5Aread", self.attribute(key)) { H5Aread(attribute, type, &pointer) }
        defer { H5free_memory(pointer) }
        return pointer.map { String(cString: $0) }
      }
    }
  }

  /// The value of an attribute that is a whole number of at most 64 bits, or `nil` where there is none. `H5Aopen`, `H5Aread`.
  package func integerAttribute(_ key: String) throws -> Int64? {
    try withAttribute(key) { attribute, stored in
      guard H5Tget_class(stored) == H5T_INTEGER, H5Tget_size(stored) <= 8 else {
        throw HDF5Error(call: "H5Aread", target: self.attribute(key), message: "its type is no whole number of at most 64 bits")
      }
      var value: Int64 = 0
      try hdf5("H5Aread", self.attribute(key)) { H5Aread(attribute, chdf5_type_i64(), &value) }
      return value
    }
  }

  /// Runs `body` with an attribute and its type, if there is one. `H5Aopen`, `H5Aget_space`, `H5Aget_type`.
  ///
  /// - Throws: `HDF5Error` for an attribute that is no single value: `H5Aread` fills as much memory as the file says there are values.
  private func withAttribute<Value>(_ key: String, _ body: (_ attribute: hid_t, _ type: hid_t) throws -> Value?) throws -> Value? {
    guard try hdf5("H5Aexists", attribute(key), { H5Aexists(id, key) }) > 0 else { return nil }
    let attribute = try hdf5("H5Aopen", attribute(key)) { H5Aopen(id, key, chdf5_default) }
    defer { _ = try? hdf5("H5Aclose", key) { H5Aclose(attribute) } }
    let space = try hdf5("H5Aget_space", key) { H5Aget_space(attribute) }
    defer { _ = try? hdf5("H5Sclose", key) { H5Sclose(space) } }
    let count = try hdf5("H5Sget_simple_extent_npoints", key) { H5Sget_simple_extent_npoints(space) }
    guard count == 1 else {
      throw HDF5Error(call: "H5Aread", target: self.attribute(key), message: "it has \(count) values, expected one")
    }
    let stored = try hdf5("H5Aget_type", key) { H5Aget_type(attribute) }
    defer { _ = try? hdf5("H5Tclose", key) { H5Tclose(stored) } }
    return try body(attribute, stored)
  }

  /// The names of all attributes, in order. `H5Aget_name_by_idx`.
  package func attributeNames() throws -> [String] {
    var info = H5O_info_t()
    try hdf5("H5Oget_info", name) { H5Oget_info1(id, &info) }
    return try (0..<info.num_attrs).map { index in
      let length = try hdf5("H5Aget_name_by_idx", name) {
        H5Aget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, index, nil, 0, chdf5_default)
      }
      var bytes = [CChar](repeating: 0, count: length + 1)
      try hdf5("H5Aget_name_by_idx", name) {
        H5Aget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, index, &bytes, length + 1, chdf5_default)
      }
      return String(decoding: bytes.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }

  private func attribute(_ key: String) -> String { "\(name)@\(key)" }

  private func setAttribute(_ key: String, type: hid_t, dims: [Int]?, from value: UnsafeRawPointer) throws {
    try withDataspace(dims) { space in
      let attribute = try hdf5("H5Acreate2", attribute(key)) {
        H5Acreate2(id, key, type, space, chdf5_default, chdf5_default)
      }
      defer { _ = try? hdf5("H5Aclose", key) { H5Aclose(attribute) } }
      try hdf5("H5Awrite", self.attribute(key)) { H5Awrite(attribute, type, value) }
    }
  }

  private func withVariableString<Result>(_ body: (hid_t) throws -> Result) throws -> Result {
    let type = try hdf5("H5Tcopy", "text") { H5Tcopy(chdf5_type_string()) }
    defer { _ = try? hdf5("H5Tclose", "text") { H5Tclose(type) } }
    try hdf5("H5Tset_size", "text") { H5Tset_size(type, chdf5_variable()) }
    try hdf5("H5Tset_cset", "text") { H5Tset_cset(type, H5T_CSET_UTF8) }
    return try body(type)
  }
}
