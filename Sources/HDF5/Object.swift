import CHDF5

/// An open HDF5 object with its path, closed with its last reference.
package class Object {
  let id: hid_t
  /// File path and path inside the file, for messages.
  package let name: String
  private let close: (hid_t) -> herr_t

  init(id: hid_t, name: String, close: @escaping (hid_t) -> herr_t) {
    self.id = id
    self.name = name
    self.close = close
  }

  // Closing a file closes its objects too, so a failure here is harmless.
  deinit { _ = try? hdf5("close", name) { close(id) } }
}

/// Runs `body` with a property list. `H5Pcreate`, `H5Pclose`.
func withPropertyList<Result>(_ kind: () -> hid_t, _ body: (hid_t) throws -> Result) throws -> Result {
  let list = try hdf5("H5Pcreate", "property list") { H5Pcreate(kind()) }
  defer { _ = try? hdf5("H5Pclose", "property list") { H5Pclose(list) } }
  return try body(list)
}

/// Runs `body` with a dataspace of these extents (none: a scalar). `H5Screate_simple`, `H5Sclose`.
func withDataspace<Result>(_ dims: [Int]?, _ body: (hid_t) throws -> Result) throws -> Result {
  let space = try hdf5("H5Screate_simple", "dataspace \(dims ?? [])") {
    guard let dims else { return H5Screate(H5S_SCALAR) }
    return H5Screate_simple(Int32(dims.count), dims.map { hsize_t($0) }, nil)
  }
  defer { _ = try? hdf5("H5Sclose", "dataspace") { H5Sclose(space) } }
  return try body(space)
}
