/// A commented pipeline file for one use of the data: a file of `examples/recipes/`, which is part of the program for `takeset init`.
package enum Recipe: String, CaseIterable, Sendable {
  case act
  case diffusionPolicy = "diffusion-policy"
  case umiBimanual = "umi-bimanual"
  case robomimic
  case nerf
  case lerobot
  case server

  /// The use of the data, in a few words.
  package var title: String {
    switch self {
    case .act: "ACT: absolute poses at 50 Hz, images of 640x480"
    case .diffusionPolicy: "diffusion policy, as for UMI: relative motions at 20 Hz, 16 steps ahead, images of 224x224"
    case .umiBimanual: "diffusion policy with two grippers, as for UMI: takes of two phones as one, with the openings of both grippers"
    case .robomimic: "robomimic: relative motions at 20 Hz, images of 84x84"
    case .nerf: "NeRF and Gaussian splatting: unchanged images with camera poses and depth"
    case .lerobot: "LeRobot: relative motions at 30 Hz, JPEG images of 640x480, depth in millimeters"
    case .server: "the capture server: the default pipeline, and the depth measured"
    }
  }

  /// The pipeline file, with a newline at its end.
  package var pipeline: String {
    let bytes =
      switch self {
      case .act: PackageResources.act_yaml
      case .diffusionPolicy: PackageResources.diffusion_policy_yaml
      case .umiBimanual: PackageResources.umi_bimanual_yaml
      case .robomimic: PackageResources.robomimic_yaml
      case .nerf: PackageResources.nerf_yaml
      case .lerobot: PackageResources.lerobot_yaml
      case .server: PackageResources.server_yaml
      }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The file of the step in Python that the pipeline names, which has to be beside it.
  package var step: (name: String, text: String)? {
    self == .umiBimanual ? ("gripper_width.py", String(decoding: PackageResources.gripper_width_py, as: UTF8.self)) : nil
  }
}
