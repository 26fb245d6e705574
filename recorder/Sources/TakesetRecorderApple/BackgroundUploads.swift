#if canImport(UIKit)
  import TakesetRecorder
  import UIKit

  /// Uploads that outlive the app. What the answers mean is the owner's.
  ///
  /// `@unchecked Sendable`: `session` is set once, in `init`.
  public final class BackgroundUploads: NSObject, URLSessionTaskDelegate, URLSessionDataDelegate, @unchecked Sendable {
    public typealias Progress = @Sendable (_ id: String, _ sent: Int64, _ total: Int64) -> Void
    public typealias End = @Sendable (_ id: String, _ status: Int?) -> Void

    private let onProgress: Progress
    private let onEnd: End
    private let onAllEnded: @Sendable () -> Void
    private var session: URLSession?

    /// Answers of an earlier launch come as soon as the session is made, so the callbacks are there first.
    ///
    /// - Parameters:
    ///   - onProgress: Called with the bytes of an upload that were sent; the total is -1 where it is not known.
    ///   - onEnd: Called with an upload's answer: a status, or none where there was no network.
    ///   - onAllEnded: Calls what the system gave with `handleEventsForBackgroundURLSession`.
    public init(
      identifier: String, onProgress: @escaping Progress, onEnd: @escaping End, onAllEnded: @escaping @Sendable () -> Void
    ) {
      (self.onProgress, self.onEnd, self.onAllEnded) = (onProgress, onEnd, onAllEnded)
      super.init()
      let configuration = URLSessionConfiguration.background(withIdentifier: identifier)
      configuration.isDiscretionary = false
      configuration.sessionSendsLaunchEvents = true
      session = URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
    }

    /// Sends a file, which has to stay until the end.
    public func send(_ request: URLRequest, file: URL, id: String) {
      let task = session?.uploadTask(with: request, fromFile: file)
      task?.taskDescription = id
      task?.resume()
    }

    public func urlSession(
      _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64, totalBytesExpectedToSend: Int64
    ) {
      if let id = task.taskDescription { onProgress(id, totalBytesSent, totalBytesExpectedToSend) }
    }

    public func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
      if let id = task.taskDescription { onEnd(id, error == nil ? (task.response as? HTTPURLResponse)?.statusCode : nil) }
    }

    public func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) { onAllEnded() }
  }
#endif
