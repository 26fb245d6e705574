// https://developer.apple.com/documentation/uikit/uiimpactfeedbackgenerator, and of Foundation what is not in it on Linux:
// https://developer.apple.com/documentation/foundation/urlsession
@_exported import Foundation

@MainActor open class UIImpactFeedbackGenerator: NSObject {
  public enum FeedbackStyle: Int, Sendable { case light, medium, heavy, soft, rigid }
  public init(style: FeedbackStyle) { fatalError() }
  public func impactOccurred() { fatalError() }
}
@MainActor open class UINotificationFeedbackGenerator: NSObject {
  public enum FeedbackType: Int, Sendable { case success, warning, error }
  public func notificationOccurred(_ type: FeedbackType) { fatalError() }
}

public struct URLRequest: Sendable {}
open class URLResponse: NSObject, @unchecked Sendable {}
open class HTTPURLResponse: URLResponse, @unchecked Sendable { public var statusCode: Int { fatalError() } }
open class URLSessionConfiguration: NSObject, @unchecked Sendable {
  open class func background(withIdentifier identifier: String) -> URLSessionConfiguration { fatalError() }
  public var isDiscretionary: Bool {
    get { fatalError() }
    set { fatalError() }
  }
  public var sessionSendsLaunchEvents: Bool {
    get { fatalError() }
    set { fatalError() }
  }
}
open class URLSessionTask: NSObject, @unchecked Sendable {
  public var taskDescription: String? {
    get { fatalError() }
    set { fatalError() }
  }
  public var response: URLResponse? { fatalError() }
  public func resume() { fatalError() }
}
open class URLSessionUploadTask: URLSessionTask, @unchecked Sendable {}
public protocol URLSessionDelegate: AnyObject, Sendable {
  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession)
}
public protocol URLSessionTaskDelegate: URLSessionDelegate {
  func urlSession(
    _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64, totalBytesExpectedToSend: Int64)
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?)
}
public protocol URLSessionDataDelegate: URLSessionTaskDelegate {}
open class URLSession: NSObject, @unchecked Sendable {
  public init(configuration: URLSessionConfiguration, delegate: (any URLSessionDelegate)?, delegateQueue: OperationQueue?) { fatalError() }
  public func uploadTask(with request: URLRequest, fromFile file: URL) -> URLSessionUploadTask { fatalError() }
}
