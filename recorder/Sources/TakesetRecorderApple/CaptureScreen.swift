#if canImport(SwiftUI) && canImport(UIKit)
  import SwiftUI
  import TakesetRecorder
  import UIKit

  /// A `CaptureModel` for SwiftUI: it sends time to the recorder and to the model, and gives the effects to the app.
  @MainActor
  public final class CaptureScreenModel: ObservableObject {
    @Published public private(set) var model: CaptureModel
    private let tickRecorder: (Double) -> RecordingMachine.State
    private let perform: (CaptureModel.Effect) -> Void

    /// - Parameter tick: Calls `BundleRecorder.tick` with the seconds it is given, each 0.1 s; returns `idle` without a recorder.
    public init(
      _ model: CaptureModel, tick: @escaping (_ time: Double) -> RecordingMachine.State, perform: @escaping (CaptureModel.Effect) -> Void
    ) {
      (self.model, tickRecorder, self.perform) = (model, tick, perform)
    }

    public func handle(_ event: CaptureModel.Event) { model.handle(event, at: ProcessInfo.processInfo.systemUptime).forEach(perform) }

    func tick() { handle(.tick(tickRecorder(ProcessInfo.processInfo.systemUptime))) }
  }

  /// Carries out the haptics of a recorder: its `onEffect`.
  public func vibrate(_ effect: RecordingMachine.Effect) {
    guard case .haptic(let haptic) = effect else { return }
    Task { @MainActor in
      switch haptic {
      case .medium: UIImpactFeedbackGenerator(style: .medium).impactOccurred()
      case .heavy: UIImpactFeedbackGenerator(style: .heavy).impactOccurred()
      case .warning: UINotificationFeedbackGenerator().notificationOccurred(.warning)
      }
    }
  }

  /// The capture screen over the app's own view of the camera.
  public struct CaptureScreen<Camera: View>: View {
    @ObservedObject private var screen: CaptureScreenModel
    private let camera: Camera

    public init(_ screen: CaptureScreenModel, camera: Camera) { (self.screen, self.camera) = (screen, camera) }

    public var body: some View {
      ZStack {
        camera
        VStack {
          Text(screen.model.banner ?? "")
          Spacer()
          Text(screen.model.caption ?? "")
          Text(screen.model.timer ?? "")
          Text(screen.model.badge ?? screen.model.uploadText ?? "")
          ProgressView(value: screen.model.progress)
          HStack {
            Button("Photo") { screen.handle(.choose(.photo)) }.disabled(screen.model.isModeLocked)
            button
            Button("Video") { screen.handle(.choose(.video)) }.disabled(screen.model.isModeLocked)
          }
          HStack {
            Button("Use") { screen.handle(.use) }
            Button("Retake") { screen.handle(.retake) }
            Button("Retry") { screen.handle(.retry) }
            Button("Close") { screen.handle(.close) }
            Button("Edges") { screen.handle(.toggleEdges) }
          }
        }
      }
      .task {
        while !Task.isCancelled {
          screen.tick()
          try? await Task.sleep(nanoseconds: 100_000_000)
        }
      }
    }

    private var button: some View {
      Text(screen.model.showsDot ? "Stop" : "Record")
        .gesture(
          DragGesture(minimumDistance: 0)
            .onChanged { _ in if !isDown { isDown = true; screen.handle(.press) } }
            .onEnded { _ in
              isDown = false
              screen.handle(.release)
            })
    }

    @State private var isDown = false
  }
#endif
