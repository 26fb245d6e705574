import CZip
import Steps

/// Zip files of simulated takes.
enum ZipFile {
  /// Writes a zip, which must not exist, of files by their names in it. The same files give the same bytes.
  static func write(_ members: [(name: String, path: String)], to path: String) throws {
    var code: Int32 = 0
    guard let archive = zip_open(path, ZIP_CREATE | ZIP_EXCL, &code) else {
      throw UsageError("\(path) cannot be created; it may exist already")
    }
    for member in members {
      let source = zip_source_file(archive, member.path, 0, 0)
      let index = zip_file_add(archive, member.name, source, zip_flags_t(ZIP_FL_ENC_UTF_8))
      // A constant time, so that the same session gives the same bytes: 2026-01-01 in DOS format.
      guard index >= 0, zip_file_set_dostime(archive, zip_uint64_t(index), 0, 46 << 9 | 1 << 5 | 1, 0) == 0 else {
        zip_discard(archive)
        throw UsageError("\(path) cannot be created")
      }
    }
    guard zip_close(archive) == 0 else {
      zip_discard(archive)
      throw UsageError("\(path) cannot be written")
    }
  }
}
