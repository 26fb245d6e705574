import CHDF5

/// A group: named links to groups, datasets and objects in other files.
package final class Group: Object {
  /// The kind of an object that a link leads to; `external` is a link to another file, which is not followed.
  package enum Member: Equatable, Sendable {
    case group, dataset, external, other
  }

  init(id: hid_t, name: String) { super.init(id: id, name: name, close: H5Gclose) }

  private func path(_ member: String) -> String { "\(name)/\(member)" }

  /// Creates a group directly under this one. `H5Gcreate2`.
  ///
  /// `isSmall`: Whether it will have a few dozen members at most.
  package func createGroup(_ member: String, isSmall: Bool = true) throws -> Group {
    try withPropertyList(chdf5_class_group_create) { creation in
      try hdf5("H5Pset_obj_track_times", path(member)) { H5Pset_obj_track_times(creation, false) }
      // A few dozen links are faster to write and to read in the header than in a heap.
      if isSmall { try hdf5("H5Pset_link_phase_change", path(member)) { H5Pset_link_phase_change(creation, 1024, 512) } }
      let id = try hdf5("H5Gcreate2", path(member)) { H5Gcreate2(self.id, member, chdf5_default, creation, chdf5_default) }
      return Group(id: id, name: path(member))
    }
  }

  /// Opens the group at a path relative to this one; no link on it may lead to another file. `H5Gopen2`.
  package func group(_ member: String) throws -> Group {
    try withPropertyList(chdf5_class_group_access) { access in
      try Self.stayInFile(access, path(member))
      let id = try hdf5("H5Gopen2", path(member)) { H5Gopen2(self.id, member, access) }
      return Group(id: id, name: path(member))
    }
  }

  /// Opens the dataset at a path relative to this group. `H5Dopen2`.
  ///
  /// - Throws: `HDF5Error`, also where a link on the path leads to another file, or where the bytes are in another file or dataset: a file
  ///   from somebody else could show any other file of the user as its contents that way.
  package func dataset(_ member: String) throws -> HDF5Array {
    try withPropertyList(chdf5_class_dataset_access) { access in
      try Self.stayInFile(access, path(member))
      let id = try hdf5("H5Dopen2", path(member)) { H5Dopen2(self.id, member, access) }
      let dataset = try HDF5Array(id: id, name: path(member))
      guard !dataset.hasExternalStorage else {
        throw HDF5Error(call: "H5Dopen2", target: path(member), message: "its bytes are in another file")
      }
      guard dataset.isPlausiblyStored else {
        throw HDF5Error(call: "H5Dget_storage_size", target: path(member), message: "it claims many times the bytes that are stored")
      }
      return dataset
    }
  }

  /// Refuses links to other files. `H5Pset_elink_cb`.
  private static func stayInFile(_ access: hid_t, _ target: String) throws {
    try hdf5("H5Pset_elink_cb", target) { H5Pset_elink_cb(access, { _, _, _, _, _, _, _ in -1 }, nil) }
  }

  /// The members of this group in name order, with their kinds; links to other files are not followed.
  package func members() throws -> [(name: String, kind: Member)] {
    var info = H5G_info_t()
    try hdf5("H5Gget_info", name) { H5Gget_info(id, &info) }
    return try (0..<info.nlinks).map { index in
      let length = try hdf5("H5Lget_name_by_idx", name) {
        H5Lget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, index, nil, 0, chdf5_default)
      }
      var bytes = [CChar](repeating: 0, count: length + 1)
      try hdf5("H5Lget_name_by_idx", name) {
        H5Lget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, index, &bytes, length + 1, chdf5_default)
      }
      let member = String(decoding: bytes.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
      return (member, try kind(of: member))
    }
  }

  /// File and object path of an external link. `H5Lget_val`, `H5Lunpack_elink_val`.
  package func externalTarget(_ member: String) throws -> (file: String, object: String) {
    var link = H5L_info_t()
    try hdf5("H5Lget_info", path(member)) { H5Lget_info(id, member, &link, chdf5_default) }
    guard link.type == H5L_TYPE_EXTERNAL, link.u.val_size < 1 << 16 else {
      throw HDF5Error(call: "H5Lget_val", target: path(member), message: "is not a link to another file")
    }
    var value = [UInt8](repeating: 0, count: link.u.val_size)
    try hdf5("H5Lget_val", path(member)) { H5Lget_val(id, member, &value, value.count, chdf5_default) }
    // One byte of flags, then two strings, each terminated by NUL.
    let parts = value.dropFirst().split(separator: 0, omittingEmptySubsequences: false)
    guard parts.count >= 2 else {
      throw HDF5Error(call: "H5Lget_val", target: path(member), message: "is not a link to another file")
    }
    return (String(decoding: parts[0], as: UTF8.self), String(decoding: parts[1], as: UTF8.self))
  }

  /// Whether every component of a path below this group is a hard link, not a soft or external one.
  package func isHardLinked(_ path: String) -> Bool {
    var prefix = ""
    for part in path.split(separator: "/") {
      prefix += (prefix.isEmpty ? "" : "/") + part
      var link = H5L_info_t()
      let name = prefix
      guard (try? hdf5("H5Lget_info", self.path(name)) { H5Lget_info(id, name, &link, chdf5_default) }) != nil,
        link.type == H5L_TYPE_HARD
      else { return false }
    }
    return true
  }

  /// Throws `HDF5Error` unless a member and everything below it is in this file. `copy` would follow what leads out of it.
  package func checkIsWhole(_ member: String, depth: Int = 0) throws {
    guard depth < 16, isHardLinked(member) else {
      throw HDF5Error(call: "H5Lget_info", target: path(member), message: "it is a link to something else")
    }
    switch try kind(of: member) {
    case .group:
      let group = try group(member)
      for (name, _) in try group.members() { try group.checkIsWhole(name, depth: depth + 1) }
    // Opening it refuses storage elsewhere.
    case .dataset: _ = try dataset(member)
    default: throw HDF5Error(call: "H5Oget_info", target: path(member), message: "it is neither a group nor a dataset")
    }
  }

  /// Whether a link has this name, wherever it leads. Also false where the file cannot be read. `H5Lexists`.
  package func contains(_ member: String) -> Bool {
    ((try? hdf5("H5Lexists", path(member)) { H5Lexists(id, member, chdf5_default) }) ?? 0) > 0
  }

  private func kind(of member: String) throws -> Member {
    var link = H5L_info_t()
    try hdf5("H5Lget_info", path(member)) { H5Lget_info(id, member, &link, chdf5_default) }
    if link.type == H5L_TYPE_EXTERNAL { return .external }
    guard link.type == H5L_TYPE_HARD else { return .other }
    var object = H5O_info_t()
    try hdf5("H5Oget_info_by_name", path(member)) { H5Oget_info_by_name1(id, member, &object, chdf5_default) }
    return object.type == H5O_TYPE_GROUP ? .group : object.type == H5O_TYPE_DATASET ? .dataset : .other
  }

  /// Removes a member with everything below it. Its bytes in the file may be used for what is created next. `H5Ldelete`.
  package func remove(_ member: String) throws {
    try hdf5("H5Ldelete", path(member)) { H5Ldelete(id, member, chdf5_default) }
  }

  /// Links `member` to an object in another file, whose path is relative to this file. `H5Lcreate_external`.
  package func link(_ member: String, toFile file: String, object: String) throws {
    try hdf5("H5Lcreate_external", path(member)) {
      H5Lcreate_external(file, object, id, member, chdf5_default, chdf5_default)
    }
  }

  /// Copies a member of another group with everything below it, without decoding stored bytes. `H5Ocopy`.
  package func copy(_ member: String, from source: Group, as newName: String) throws {
    try hdf5("H5Ocopy", path(newName)) {
      H5Ocopy(source.id, member, id, newName, chdf5_default, chdf5_default)
    }
  }
}
