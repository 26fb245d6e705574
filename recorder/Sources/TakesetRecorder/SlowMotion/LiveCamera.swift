import Foundation

/// The slow-motion camera: streams some of its frames to a server while it waits and records, obeys start and stop, and uploads each movie after its
/// stop. It touches nothing: the owner carries out the effects, in order.
///
/// A lost connection ends nothing but the stream. A movie is uploaded until the server has it.
///
///     for effect in camera.handle(.frame, at: now) { carryOut(effect) }
public struct LiveCamera: Sendable, Equatable {
  /// An event from the camera, the connection or the server.
  public enum Event: Sendable, Equatable {
    /// The connection that was asked for is there, or failed, or ended.
    case connected
    case disconnected
    /// A text message of the server.
    case text(String)
    case frame
    /// The movie is closed, under this name. Also said of movies that an earlier run has left.
    case movie(String)
    /// The movie had no frame, and is gone.
    case empty
    /// The server has the movie, by its digest.
    case uploaded(String)
    case uploadFailed(String)
    /// Time has passed; the owner sends one at least every 0.1 s.
    case tick
  }

  /// An action for the app to carry out.
  public enum Effect: Sendable, Equatable {
    case connect
    /// Close the connection; `disconnected` follows.
    case disconnect
    /// Send this status.
    case status(Status)
    /// Send the frame as a JPEG.
    case stream
    case openMovie
    /// Encode the frame into the movie.
    case record
    /// Finish the movie; `movie` follows.
    case closeMovie
    case upload(String)
  }

  /// The camera's state in the words of its viewers.
  public enum Status: String, Sendable { case waiting, recording, uploading }

  /// Seconds before the next attempt, after each failure in a row.
  static let pauses = [1.0, 2, 4, 8, 10]

  /// One of so many frames is streamed.
  public let every: Int
  public private(set) var isConnected = false
  public private(set) var isRecording = false
  /// Movies that the server does not have, the first of which is uploaded.
  public private(set) var pending: [String] = []

  private var frames = 0
  private var isConnecting = false
  private var connectAt = -Double.infinity
  private var failures = 0
  private var isUploading = false
  private var uploadAt = -Double.infinity
  private var uploadFailures = 0
  /// A movie is being closed.
  private var isClosing = false
  /// A start came meanwhile.
  private var startsWhenClosed = false

  /// - Parameters:
  ///   - rate: Frames per second of the camera.
  ///   - streamRate: Frames per second of the stream; every floor(rate / streamRate)-th frame is streamed, at least each.
  public init(rate: Int, streamRate: Int) { every = max(1, rate / max(1, streamRate)) }

  public var status: Status { isRecording ? .recording : isClosing || !pending.isEmpty ? .uploading : .waiting }

  /// Returns the actions that follow from an event, in order; those that are due by then are among them. Times are in seconds.
  public mutating func handle(_ event: Event, at time: Double) -> [Effect] {
    let (before, wasConnected) = (status, isConnected)
    var effects = react(to: event, at: time)
    effects += due(at: time)
    if isConnected, status != before || !wasConnected { effects.append(.status(status)) }
    return effects
  }

  private mutating func react(to event: Event, at time: Double) -> [Effect] {
    switch event {
    case .connected:
      guard isConnecting else { return [] }
      (isConnecting, isConnected, failures) = (false, true, 0)
    case .disconnected:
      guard isConnecting || isConnected else { return [] }
      (isConnecting, isConnected) = (false, false)
      connectAt = time + Self.pauses[min(failures, Self.pauses.count - 1)]
      failures += 1
    case .text(let text): return obey(text)
    case .frame:
      frames += 1
      return (isRecording ? [.record] : []) + (isConnected && frames % every == 0 ? [.stream] : [])
    case .movie(let name):
      if !pending.contains(name) { pending.append(name) }
      return closed()
    case .empty: return closed()
    case .uploaded(let name):
      guard isUploading, name == pending.first else { return [] }
      pending.removeFirst()
      (isUploading, uploadFailures) = (false, 0)
    case .uploadFailed(let name):
      guard isUploading, name == pending.first else { return [] }
      isUploading = false
      uploadAt = time + Self.pauses[min(uploadFailures, Self.pauses.count - 1)]
      uploadFailures += 1
      // Another one may pass where this one does not.
      pending.append(pending.removeFirst())
    case .tick: break
    }
    return []
  }

  private mutating func obey(_ text: String) -> [Effect] {
    guard isConnected, let members = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else { return [] }
    switch members["command"] as? String {
    case "start" where isClosing: startsWhenClosed = true
    case "start" where !isRecording:
      isRecording = true
      return [.openMovie]
    case "stop" where isRecording:
      (isRecording, isClosing) = (false, true)
      return [.closeMovie]
    case "stop": startsWhenClosed = false
    case "reconnect": return [.disconnect]
    default: break
    }
    return []
  }

  private mutating func closed() -> [Effect] {
    guard isClosing else { return [] }
    (isClosing, isRecording, startsWhenClosed) = (false, startsWhenClosed, false)
    return isRecording ? [.openMovie] : []
  }

  /// Returns the attempts that are due.
  private mutating func due(at time: Double) -> [Effect] {
    var effects: [Effect] = []
    if !isConnected, !isConnecting, time >= connectAt {
      isConnecting = true
      effects.append(.connect)
    }
    if !isUploading, let next = pending.first, time >= uploadAt {
      isUploading = true
      effects.append(.upload(next))
    }
    return effects
  }
}
