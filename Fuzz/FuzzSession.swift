import TestSupport

/// The session of this process; each input replaces one of its files.
nonisolated(unsafe) private let session = try? FuzzedSession()

/// libFuzzer's entry point. The first byte selects the file.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 0, let session else { return 0 }
  let parts = FuzzedSession.Part.allCases
  let part = parts[Int(start[0]) % parts.count]
  do {
    _ = try session.open(part, Array(UnsafeBufferPointer(start: start + 1, count: count - 1)))
  } catch {
    fatalError("\(part.rawValue): \(error)")
  }
  return 0
}
