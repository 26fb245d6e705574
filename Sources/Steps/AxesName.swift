package import Model

/// The axes of a camera as people name them. ARKit's and OpenGL's are the same.
package enum AxesName: String, OptionChoice {
  case arkit, opencv, opengl, ros

  package var cameraAxes: PoseFrame.CameraAxes {
    switch self {
    case .arkit, .opengl: .arkit
    case .opencv: .opencv
    case .ros: .ros
    }
  }
}
