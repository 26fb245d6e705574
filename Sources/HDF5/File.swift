import CGather
import CHDF5
import Glibc

/// An HDF5 file, written so that the same calls give the same bytes: object times are off on every object, and the format
/// bounds are those of HDF5 1.8, which all readers support.
///
///     let file = try File.create(at: path)
///     let times = try file.root.createGroup("meta").createDataset("dt_ns", Layout(type: .int64, dims: [2]))
///     try [Int64(0), 33_333_333].withUnsafeBytes { try times.write($0) }
///     try file.close()
package final class File {
  package let path: String
  private var id: hid_t
  package let root: Group

  private init(id: hid_t, path: String) throws {
    self.id = id
    self.path = path
    let root = try hdf5("H5Gopen2", path) { H5Gopen2(id, "/", chdf5_default) }
    self.root = Group(id: root, name: "\(path):")
  }

  /// Creates a file, which must not exist. `H5Fcreate`.
  ///
  /// - Parameter cacheBytes: What the library may keep of its structure. Names of many objects are not added in the order in which they are stored.
  package static func create(at path: String, cacheBytes: Int = 1 << 17) throws -> File {
    try withPropertyList(chdf5_class_file_create) { creation in
      try hdf5("H5Pset_obj_track_times", path) { H5Pset_obj_track_times(creation, false) }
      try hdf5("H5Pset_link_phase_change", path) { H5Pset_link_phase_change(creation, 1024, 512) }
      return try withPropertyList(chdf5_class_file_access) { access in
        try setWriting(access, path, cacheBytes)
        let id = try hdf5("H5Fcreate", path) { H5Fcreate(path, chdf5_acc_exclusive(), creation, access) }
        return try File(id: id, path: path)
      }
    }
  }

  /// Opens a file that `create` has made, to add to it. `H5Fopen`.
  package static func modify(_ path: String) throws -> File {
    try withPropertyList(chdf5_class_file_access) { access in
      try setWriting(access, path, 1 << 17)
      // The caller's own copy. A process that another thread has just started would keep a lock on it for a moment after it is closed.
      try hdf5("H5Pset_file_locking", path) { H5Pset_file_locking(access, false, true) }
      let id = try hdf5("H5Fopen", path) { H5Fopen(path, chdf5_acc_readwrite(), access) }
      return try File(id: id, path: path)
    }
  }

  private static func setWriting(_ access: hid_t, _ path: String, _ cacheBytes: Int) throws {
    try hdf5("H5Pset_libver_bounds", path) { H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18) }
    // Closing the file also closes its open objects: a shard is sealed by `close`, never by a deinit.
    try hdf5("H5Pset_fclose_degree", path) { H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) }
    try limitMetadataCache(access, path, cacheBytes)
    try hdf5("H5Pset_driver", path) { H5Pset_driver(access, cgather_driver(), nil) }
    // Without this buffer small arrays are written in H5Dwrite, which reports a full disk, not later in H5Dclose.
    try hdf5("H5Pset_sieve_buf_size", path) { H5Pset_sieve_buf_size(access, 0) }
  }

  /// Limits the cache of chunk indices and headers, by default to 128 KiB as stored, about four times that in memory; otherwise it
  /// would grow with the number of chunks. Chunks are written in order, so only the last index nodes are needed.
  /// `H5Pset_mdc_config`.
  private static func limitMetadataCache(_ access: hid_t, _ path: String, _ bytes: Int) throws {
    var config = H5AC_cache_config_t()
    config.version = H5AC__CURR_CACHE_CONFIG_VERSION
    try hdf5("H5Pget_mdc_config", path) { H5Pget_mdc_config(access, &config) }
    config.set_initial_size = true
    config.initial_size = bytes
    config.min_size = bytes
    config.max_size = bytes
    config.incr_mode = H5C_incr__off
    config.flash_incr_mode = H5C_flash_incr__off
    config.decr_mode = H5C_decr__off
    try hdf5("H5Pset_mdc_config", path) { H5Pset_mdc_config(access, &config) }
  }

  /// Opens a regular file for reading; a pipe would make the library wait. `H5Fopen`.
  package static func open(_ path: String) throws -> File {
    var status = stat()
    if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
      throw HDF5Error(call: "H5Fopen", target: path, message: "it is not a regular file")
    }
    return try withPropertyList(chdf5_class_file_access) { access in
      try hdf5("H5Pset_fclose_degree", path) { H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) }
      let id = try hdf5("H5Fopen", path) { H5Fopen(path, chdf5_acc_readonly(), access) }
      return try File(id: id, path: path)
    }
  }

  /// Flushes and closes the file and everything open in it. `H5Fflush`, `H5Fclose`.
  ///
  /// - Throws: `HDF5Error` when not everything could be written.
  package func close() throws {
    guard id >= 0 else { return }
    let closing = id
    id = -1
    let flushed = Swift.Result { () throws in
      _ = try hdf5("H5Fflush", path) { H5Fflush(closing, H5F_SCOPE_GLOBAL) }
    }
    let closed = Swift.Result { () throws in
      _ = try hdf5("H5Fclose", path) { H5Fclose(closing) }
    }
    // After a flush that failed, closing fails, too, and for reasons that are only its consequences.
    try flushed.get()
    try closed.get()
  }

  /// Leaves a file open that could not be written: libhdf5 may crash when it closes one on a full disk.
  package func abandon() { id = -1 }

  deinit { try? close() }
}
