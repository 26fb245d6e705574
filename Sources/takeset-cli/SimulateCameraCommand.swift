import ArgumentParser
import Foundation
import Model
import Phones

struct SimulateCamera: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "camera", abstract: "A slow-motion camera that streams to a server, obeys it, and uploads its movies.",
    discussion: """
      Connects to the socket, streams every floor(rate / stream rate)-th frame as a JPEG, and records all frames from the command start \
      to the command stop, as a viewer of the server gives them. A movie goes to /upload of the same server, on port 3000 where the socket has 8080, \
      and is deleted when the server has answered with its digest. A lost connection ends no movie; movies that an earlier run has left in \
      --output are uploaded first. Images carry their number from the camera's start.

        takeset simulate camera --to ws://127.0.0.1:8080/camera --output movies

      Prints lines of JSON: connected, status, recording, recorded, uploaded, upload-failed, disconnected, unreachable.

      Exit codes: 0 so many takes are on the server; 64 a mistake in the command; 1 the folder cannot be used.
      """)

  @Option(help: ArgumentHelp("The server's socket.", valueName: "url")) var to: String
  @Option(name: .shortAndLong, help: ArgumentHelp("Folder of movies that are not uploaded yet.", valueName: "dir")) var output: String
  @Option(help: "Frames per second.") var rate = 120
  @Option(help: "Frames per second of the stream.") var streamRate = 15
  @Option(help: ArgumentHelp("Size of the images.", valueName: "WxH")) var size = ImageSize(width: 640, height: 360)
  @Option(help: "Random seed of the scene.") var seed: UInt64 = 1
  @Option(help: ArgumentHelp("Movies to upload before it ends.", valueName: "n")) var takes = 1

  func validate() throws {
    guard (1...1000).contains(rate), (1...1000).contains(streamRate) else {
      throw ValidationError("--rate, --stream-rate: expected 1 to 1000")
    }
    guard size.width % 2 == 0, size.height % 2 == 0 else { throw ValidationError("--size: expected even sides") }
    guard (1...10_000).contains(takes) else { throw ValidationError("--takes: expected 1 to 10000") }
  }

  func run() throws {
    var options = SimulatedCamera.Options()
    (options.to, options.output, options.rate, options.streamRate) = (to, output, rate, streamRate)
    (options.width, options.height, options.seed, options.takes) = (size.width, size.height, seed, takes)
    try SimulatedCamera(options) { standardOutput($0) }.run()
  }
}
