// swift-tools-version: 6.1
import PackageDescription

// The root package has the same sources as a product, because an app in another repository can name only that package.
let package = Package(
  name: "takeset-recorder",
  platforms: [.iOS(.v17), .macOS(.v14)],
  products: [
    .library(name: "TakesetRecorder", targets: ["TakesetRecorder", "EdgeOverlay"]),
    // Empty on Linux.
    .library(name: "TakesetRecorderApple", targets: ["TakesetRecorderApple"]),
  ],
  targets: [
    .target(name: "EdgeOverlay"),
    .target(name: "TakesetRecorder"),
    .target(name: "TakesetRecorderApple", dependencies: ["TakesetRecorder"]),
    .testTarget(name: "TakesetRecorderTests", dependencies: ["EdgeOverlay", "TakesetRecorder"]),
  ])
