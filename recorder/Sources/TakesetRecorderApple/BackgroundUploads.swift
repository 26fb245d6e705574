#if canImport(UIKit)
  import TakesetRecorder
  import UIKit

  /// Uploads that outlive the app. What the answers mean is the owner's.
  ///
  /// `@unchecked Sendable`: what changes is set before the first upload.
  public final class BackgroundUploads: NSObject, URLSessionTaskDelegate, URLSessionDataDelegate, @unchecked Sendable {
    /// Called with the bytes of an upload that were sent, and with its answer: a status, or none where there was no network.
    public var onProgress: @Sendable (_ id: String, _ sent: Int64, _ total: Int64) -> Void = { _, _, _ in }
    public var onEnd: @Sendable (_ id: String, _ status: Int?) -> Void = { _, _ in }
    /// What the system gave with `handleEventsForBackgroundURLSession`.
    public var onAllEnded: (@Sendable () -> Void)?

    private var session: URLSession?

    public init(identifier: String) {
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

    public func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) { onAllEnded?() }
  }
#endif
