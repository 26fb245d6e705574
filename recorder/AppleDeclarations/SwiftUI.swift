// https://developer.apple.com/documentation/swiftui
@_exported import Foundation

public protocol ObservableObject: AnyObject {}
@propertyWrapper public struct Published<Value> {
  public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
  public var wrappedValue: Value
}
@MainActor @propertyWrapper public struct ObservedObject<Object: ObservableObject> {
  public init(wrappedValue: Object) { self.wrappedValue = wrappedValue }
  public var wrappedValue: Object
}
@propertyWrapper public struct State<Value> {
  public init(wrappedValue: Value) { fatalError() }
  public var wrappedValue: Value {
    get { fatalError() }
    nonmutating set { fatalError() }
  }
}
@MainActor public protocol View {
  associatedtype Body: View
  @ViewBuilder var body: Body { get }
}
extension Never: View { public var body: Never { fatalError() } }
public struct TupleView<Contents>: View { public var body: Never { fatalError() } }
@resultBuilder public enum ViewBuilder {
  public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
  public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<(repeat each Content)> { fatalError() }
}
public struct Text: View {
  public init(_ content: some StringProtocol) { fatalError() }
  public var body: Never { fatalError() }
}
public struct Spacer: View {
  public init() { fatalError() }
  public var body: Never { fatalError() }
}
public struct ProgressView: View {
  public init(value: Double?) { fatalError() }
  public var body: Never { fatalError() }
}
public struct Button: View {
  public init(_ title: some StringProtocol, action: @escaping @MainActor () -> Void) { fatalError() }
  public var body: Never { fatalError() }
}
public struct ZStack<Content: View>: View {
  public init(@ViewBuilder content: () -> Content) { fatalError() }
  public var body: Never { fatalError() }
}
public struct VStack<Content: View>: View {
  public init(@ViewBuilder content: () -> Content) { fatalError() }
  public var body: Never { fatalError() }
}
public struct HStack<Content: View>: View {
  public init(@ViewBuilder content: () -> Content) { fatalError() }
  public var body: Never { fatalError() }
}
@MainActor public protocol Gesture {}
public struct DragGesture: Gesture {
  public struct Value: Sendable {}
  public init(minimumDistance: Double) { fatalError() }
  public func onChanged(_ action: @escaping (Value) -> Void) -> DragGesture { fatalError() }
  public func onEnded(_ action: @escaping (Value) -> Void) -> DragGesture { fatalError() }
}
extension View {
  public func disabled(_ isDisabled: Bool) -> some View { self }
  public func gesture(_ gesture: some Gesture) -> some View { self }
  public func task(_ action: @escaping @MainActor () async -> Void) -> some View { self }
}
