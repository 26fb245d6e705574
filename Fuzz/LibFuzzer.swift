import Foundation

/// The target of this process, which the environment variable `TAKESET_FUZZ_TARGET` names.
nonisolated(unsafe) private var target: FuzzTarget?

/// libFuzzer's first call. Without a target, prints the names of all.
@_cdecl("LLVMFuzzerInitialize")
public func start(_ count: UnsafeMutablePointer<CInt>?, _ arguments: UnsafeMutableRawPointer?) -> CInt {
  target = ProcessInfo.processInfo.environment["TAKESET_FUZZ_TARGET"].flatMap { FuzzTarget.named($0) }
  if target == nil {
    print(FuzzTarget.all.map(\.name).joined(separator: "\n"))
    exit(64)
  }
  return 0
}

/// libFuzzer's call for each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  target?.test(Array(UnsafeBufferPointer(start: start, count: count)))
  return 0
}
