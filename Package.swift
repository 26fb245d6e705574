// swift-tools-version: 6.1
import PackageDescription

/// A system C library: a module map and a shim, nothing else.
func system(_ name: String, _ pkgConfig: String, _ apt: String) -> Target {
  .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([apt])])
}

let settings: [SwiftSetting] = [.enableUpcomingFeature("InternalImportsByDefault")]

/// The tests of a target, which compile in a third of the time like this, beside the optimized targets that they test.
func tests(_ target: String, _ others: [Target.Dependency]) -> Target {
  .testTarget(
    name: target + "Tests", dependencies: [.byName(name: target)] + others,
    swiftSettings: settings + [.unsafeFlags(["-Onone"], .when(configuration: .release))])
}

let package = Package(
  name: "takeset",
  // Of the recorder; everything else is for Linux.
  platforms: [.iOS(.v17), .macOS(.v14)],
  products: [
    .executable(name: "takeset", targets: ["takeset-cli"]),
    // What the server in server/ shares with the command.
    .library(name: "Evidence", targets: ["Evidence"]),
    .library(name: "HTTP", targets: ["HTTP"]),
    .library(name: "Model", targets: ["Model"]),
    // What apps record with; recorder/Package.swift has the same sources, to build them alone.
    .library(name: "TakesetRecorder", targets: ["TakesetRecorder", "EdgeOverlay"]),
    // Empty on Linux.
    .library(name: "TakesetRecorderApple", targets: ["TakesetRecorderApple"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
  ],
  targets: [
    system("CHDF5", "hdf5", "libhdf5-dev"),
    system("CDeflate", "libdeflate", "libdeflate-dev"),
    system("CJPEG", "libturbojpeg", "libturbojpeg0-dev"),
    system("CPNG", "libpng", "libpng-dev"),
    system("CCrypto", "libcrypto", "libssl-dev"),
    system("CZlib", "zlib", "zlib1g-dev"),
    system("CSQLite", "sqlite3", "libsqlite3-dev"),
    system("CZip", "libzip", "libzip-dev"),
    system("CLZ4", "liblz4", "liblz4-dev"),
    system("CZstd", "libzstd", "libzstd-dev"),
    .target(name: "CCurl"),
    .target(name: "CFFmpeg"),
    .target(name: "CGather", dependencies: ["CHDF5"]),
    .target(name: "CKernels"),
    .target(name: "CSandbox"),
    .target(name: "CRevision"),
    .systemLibrary(name: "CLinux"),
    .target(name: "Model", swiftSettings: settings),
    .target(name: "HDF5", dependencies: ["CGather", "CHDF5", "CDeflate"], swiftSettings: settings),
    .target(name: "Codecs", dependencies: ["CDeflate", "CLZ4", "CZstd", "Model"], swiftSettings: settings),
    .target(name: "Media", dependencies: ["CFFmpeg", "CJPEG", "CKernels", "CPNG", "Model"], swiftSettings: settings),
    .target(name: "Evidence", dependencies: ["CCrypto", "CKernels", "Model"], swiftSettings: settings),
    .target(
      name: "Hosts", dependencies: ["CSandbox", "Evidence", "Model"], resources: [.embedInCode("host.py"), .embedInCode("steps.py")],
      swiftSettings: settings),
    .target(name: "HTTP", dependencies: ["CCrypto", "CCurl"], swiftSettings: settings),
    // What is true of takes, and the steps that convert them: a target imports only those above it.
    .target(
      name: "Steps",
      dependencies: ["CLinux", "CZip", "Evidence", "Hosts", "Media", "Model", .product(name: "Yams", package: "Yams")],
      swiftSettings: settings),
    .target(name: "Rasters", dependencies: ["CKernels", "Evidence", "Media", "Model", "Steps"], swiftSettings: settings),
    .target(
      name: "Readers", dependencies: ["CZlib", "Codecs", "Evidence", "Media", "Model", "Rasters", "Steps"],
      swiftSettings: settings),
    .target(name: "Transforms", dependencies: ["Evidence", "Hosts", "Model", "Rasters", "Steps"], swiftSettings: settings),
    .target(
      name: "Datasets",
      dependencies: ["CZlib", "Evidence", "HDF5", "Media", "Model", "Rasters", "Steps", .product(name: "Yams", package: "Yams")],
      swiftSettings: settings),
    .target(
      name: "Runs",
      dependencies: [
        "CLinux", "CSandbox", "Datasets", "Evidence", "HDF5", "Hosts", "Media", "Model", "Rasters", "Readers", "Steps", "Transforms",
        .product(name: "Yams", package: "Yams"),
      ],
      swiftSettings: settings),
    .target(
      name: "Exports", dependencies: ["Codecs", "Datasets", "Evidence", "HDF5", "Media", "Model", "Steps"], swiftSettings: settings),
    .target(name: "Merging", dependencies: ["Datasets", "Evidence", "HDF5", "Model", "Runs", "Steps"], swiftSettings: settings),
    .target(name: "Provenance", dependencies: ["Datasets", "Evidence", "HDF5", "Model", "Steps"], swiftSettings: settings),
    .target(
      name: "Loaders", dependencies: ["Datasets", "Evidence", "HDF5", "Media", "Model", "Rasters", "Steps"],
      swiftSettings: settings),
    .target(
      name: "Documents", dependencies: ["Evidence", "Exports", "Loaders", "Model", "Runs", "Steps"],
      // For its input, and no use.
      exclude: ["Recipes/mcap.yaml"],
      resources: ["act", "diffusion-policy", "lerobot", "nerf", "robomimic", "server", "umi-bimanual"].map {
        .embedInCode("Recipes/\($0).yaml")
      } + [.embedInCode("gripper_width.py")],
      swiftSettings: settings),
    .target(
      name: "Reports",
      dependencies: [
        "CZlib", "Datasets", "EdgeOverlay", "Evidence", "HDF5", "Media", "Model", "Rasters", "Readers", "Runs", "Steps",
        "Transforms",
      ],
      resources: [.embedInCode("findings.md"), .embedInCode("Page/page.css"), .embedInCode("Page/page.js")], swiftSettings: settings),
    .target(
      name: "Simulate",
      dependencies: ["CCrypto", "CZip", "CZlib", "Codecs", "Evidence", "Media", "Model", "Rasters", "Steps", "TakesetRecorder"],
      swiftSettings: settings),
    // For the recorder's screen and for reports, which share nothing else.
    .target(name: "EdgeOverlay", path: "recorder/Sources/EdgeOverlay"),
    .target(name: "TakesetRecorder", path: "recorder/Sources/TakesetRecorder"),
    .target(name: "TakesetRecorderApple", dependencies: ["TakesetRecorder"], path: "recorder/Sources/TakesetRecorderApple"),
    .target(name: "Uploader", dependencies: ["CSQLite", "Evidence", "HTTP", "TakesetRecorder"], swiftSettings: settings),
    .target(
      name: "Phones", dependencies: ["CCrypto", "Evidence", "HTTP", "Media", "Model", "Simulate", "TakesetRecorder", "Uploader"],
      swiftSettings: settings),
    .executableTarget(
      name: "takeset-cli",
      dependencies: [
        "CLinux", "CRevision", "Datasets", "Documents", "Evidence", "Exports", "Hosts", "Loaders", "Media", "Merging", "Model", "Phones",
        "Provenance", "Reports", "Runs", "Simulate", "Steps", "TakesetRecorder", "Uploader",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: settings),
    .target(
      name: "TestSupport", dependencies: ["Datasets", "Evidence", "Model", "Readers", "Simulate", "Steps", "Transforms"],
      swiftSettings: settings),

    tests("Model", ["Simulate", "TestSupport"]),
    tests("Evidence", ["Model", "Simulate"]),
    tests("HDF5", ["Simulate"]),
    tests("Media", ["CKernels", "Model", "Simulate", "TestSupport"]),
    tests("Steps", ["Evidence", "Model", "TestSupport"]),
    tests("Rasters", ["CKernels", "Media", "Model", "Simulate", "TestSupport"]),
    tests("Readers", ["Evidence", "Media", "Model", "Simulate", "Steps", "TestSupport"]),
    tests(
      "Transforms", ["Datasets", "Evidence", "Media", "Model", "Rasters", "Runs", "Simulate", "Steps", "TakesetRecorder", "TestSupport"]),
    tests("Datasets", ["Evidence", "HDF5", "Model", "Readers", "Runs", "Simulate", "Steps", "TestSupport", "Transforms"]),
    tests("Runs", ["Datasets", "Evidence", "HDF5", "Media", "Model", "Readers", "Simulate", "Steps", "TestSupport", "Transforms"]),
    tests("Exports", ["Datasets", "Evidence", "Model", "Runs", "Steps", "TestSupport", "Transforms"]),
    tests("Merging", ["Datasets", "Evidence", "Model", "Runs", "Simulate", "Steps", "TestSupport", "Transforms"]),
    tests("Provenance", ["Datasets", "Evidence", "Model", "Runs", "Simulate", "Steps", "TestSupport", "Transforms"]),
    tests("Loaders", ["Datasets", "HDF5", "Model", "Runs", "TestSupport"]),
    tests("Documents", ["Model", "Runs", "Steps", "TestSupport"]),
    tests(
      "Reports", ["Datasets", "EdgeOverlay", "Evidence", "Media", "Model", "Runs", "Simulate", "Steps", "TestSupport", "Transforms"]),
    tests("Simulate", ["Media", "Model"]),
  ],
  swiftLanguageModes: [.v6],
)

// Only with this variable, because libFuzzer has its own main and builds everything differently; see Fuzz/README.md.
if Context.environment["TAKESET_FUZZ"] != nil {
  package.targets.append(
    .executableTarget(
      name: "fuzz",
      dependencies: [
        "CZlib", "Codecs", "Datasets", "Evidence", "HDF5", "Media", "Merging", "Model", "Provenance", "Readers", "Runs", "Steps",
      ],
      path: "Fuzz",
      exclude: ["README.md"],
      swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])]))
}
