// swift-tools-version: 6.1
import PackageDescription

/// A system C library: a module map and a shim, nothing else.
func system(_ name: String, _ pkgConfig: String, _ apt: String) -> Target {
  .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([apt])])
}

let settings: [SwiftSetting] = [.enableUpcomingFeature("InternalImportsByDefault")]

let package = Package(
  name: "takeset",
  products: [
    .executable(name: "takeset", targets: ["takeset-cli"]),
    // What the server in server/ shares with the command.
    .library(name: "Evidence", targets: ["Evidence"]),
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
    system("CZip", "libzip", "libzip-dev"),
    .target(name: "CFFmpeg"),
    .target(name: "CPixels"),
    .target(name: "CSandbox"),
    .target(name: "CRevision"),
    .systemLibrary(name: "CLinux"),
    // Without pkg-config: its file has a flag that SwiftPM warns about.
    .target(name: "CSimdJSON", linkerSettings: [.linkedLibrary("simdjson"), .linkedLibrary("stdc++")]),

    .target(name: "Model", swiftSettings: settings),
    .target(name: "HDF5", dependencies: ["CHDF5", "CDeflate"], swiftSettings: settings),
    .target(name: "Media", dependencies: ["CFFmpeg", "CJPEG", "CPixels", "CPNG", "Model"], swiftSettings: settings),
    .target(name: "Evidence", dependencies: ["CCrypto", "Model"], swiftSettings: settings),
    .target(
      name: "Takeset",
      dependencies: [
        "Evidence", "HDF5", "Media", "Model", "CCrypto", "CLinux", "CSandbox", "CSimdJSON", "CZip", "CZlib",
        .product(name: "Yams", package: "Yams"),
      ],
      swiftSettings: settings),
    .target(
      name: "Simulate", dependencies: ["CCrypto", "CZip", "CZlib", "Evidence", "Media", "Model", "Takeset"], swiftSettings: settings),
    .executableTarget(
      name: "takeset-cli",
      dependencies: [
        "CLinux", "CRevision", "Evidence", "Media", "Model", "Simulate", "Takeset",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: settings),
    .target(name: "TestSupport", dependencies: ["Evidence", "Model", "Simulate", "Takeset"], swiftSettings: settings),

    .testTarget(name: "ModelTests", dependencies: ["Model", "Simulate", "TestSupport"], swiftSettings: settings),
    .testTarget(name: "EvidenceTests", dependencies: ["Evidence", "Model", "Simulate"], swiftSettings: settings),
    .testTarget(name: "HDF5Tests", dependencies: ["HDF5", "Simulate"], swiftSettings: settings),
    .testTarget(name: "MediaTests", dependencies: ["Media", "Model", "TestSupport"], swiftSettings: settings),
    .testTarget(
      name: "TakesetTests", dependencies: ["Evidence", "HDF5", "Media", "Model", "Simulate", "Takeset", "TestSupport"],
      swiftSettings: settings),
    .testTarget(name: "SimulateTests", dependencies: ["Model", "Simulate"], swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx17
)

// Only with this variable, because libFuzzer has its own main and builds everything differently; see Fuzz/README.md.
if Context.environment["TAKESET_FUZZ"] != nil {
  package.targets.append(
    .executableTarget(
      name: "fuzz", dependencies: ["CZlib", "Evidence", "HDF5", "Media", "Model", "Takeset"], path: "Fuzz", exclude: ["README.md"],
      swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])]))
}
