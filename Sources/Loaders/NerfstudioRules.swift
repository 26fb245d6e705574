/// nerfstudio, which reads what `takeset export --to nerfstudio` writes: a `transforms.json` per episode, which is a scene.
///
/// Source: `nerfstudio/data/dataparsers/nerfstudio_dataparser.py` and `nerfstudio/data/utils/dataparsers_utils.py`.
extension Loader {
  /// The fewest images to train on. With fewer, its 90 % training split takes all of them.
  private static let fewestImages = 10
  private static let usualImages = 30
  private static let longestSide = 1600

  static let nerfstudioRules: [DoctorRule] =
    DoctorRule.sound + [
      DoctorRule(
        .severalPhones, .breaks, "a scene is the path of one camera, so the export refuses takes of several phones",
        Remedy("convert the takes by themselves, without join")
      ) { examined in examined.problem({ $0.observations.values.contains { $0.member != nil } }) { "\($0) streams of several phones" } },
      DoctorRule(
        .imagesMissing, .breaks, "there is nothing to reconstruct from", Remedy("convert with images, or leave these takes out")
      ) { $0.withoutImages() },
      DoctorRule(
        .posesMissing, .breaks, "nerfstudio reads a transform_matrix of each image",
        Remedy("leave these takes out, or compute poses", command: "ns-process-data images --data IMAGES --output-dir OUT")
      ) { $0.withoutPoses() },
      DoctorRule(
        .intrinsicsMissing, .breaks, "nerfstudio reads fl_x, fl_y, cx and cy of each image, so the export refuses them",
        Remedy("leave these takes out, or compute intrinsics", command: "ns-process-data images --data IMAGES --output-dir OUT")
      ) { $0.withoutIntrinsics() },
      DoctorRule(
        .intrinsicsImplausible, .trainsBadly, "the intrinsics are those of images of another size, so no ray meets what it shows",
        Remedy("leave these takes out, or record them again; after a crop far from the center all is well")
      ) { $0.withForeignIntrinsics() },
      DoctorRule(
        .notFinite, .trainsBadly, "the export leaves these views out", .again
      ) { $0.withoutNumbers(actions: false) },
      DoctorRule(
        .shortEpisode, .breaks, "nerfstudio trains on nine tenths of the images, rounded up, which leaves none to evaluate on",
        Remedy("leave them out", steps: "min-frames: {count: \(fewestImages)}")
      ) { $0.shorter(than: fewestImages, Remedy("record more views, or keep more frames")) },
      DoctorRule(
        .cameraStill, .breaks, "nerfstudio divides positions by their largest distance, and one viewpoint shows no depth",
        Remedy("record the scene from several sides")
      ) { $0.withoutMotion() },
      DoctorRule(
        .tooFewRows, .trainsBadly, "a scene needs some dozens of views", Remedy("record more views, or keep more frames")
      ) { examined in examined.problem({ (fewestImages..<usualImages).contains($0.rows) }) { "\($0) fewer than \(usualImages) images" } },
      DoctorRule(
        .poseOfBody, .trainsBadly, "the export moves them back to the camera by the body's pose",
        Remedy("convert without a body", steps: "pose-frame: {axes: opengl}")
      ) { $0.withPosesOfABody() },
      DoctorRule(
        .imagesBlurred, .trainsBadly, "the scene becomes as blurred", Remedy("drop blurred images", steps: "drop-frames: {blur: 100}")
      ) { $0.withBlurredImages() },
      DoctorRule(
        .imageUndecodable, .trainsBadly, "the export leaves these views out",
        .copyAgain
      ) { $0.withUndecodableImages() },
      DoctorRule(
        .rowsMasked, .trainsBadly, "nerfstudio wants depth for all images or none, so these have maps of 0",
        Remedy("drop the frames without depth", steps: "drop-frames: {with: [depth-missing]}")
      ) { $0.withMaskedRows(actions: false) },
      DoctorRule(
        .imageSize, .trainsBadly, "nerfstudio wants smaller copies in images_2/ above 1600 pixels, or loads the large ones",
        .size(1600, 1200)
      ) { $0.withImages { max($0.width, $0.height) > longestSide } },
      DoctorRule(
        .scaleArbitrary, .trainsBadly, "distances are in no unit, and the export leaves depth in meters out",
        Remedy("find the scale of each recording, or do without depth")
      ) { $0.withArbitraryScale() },
      DoctorRule(
        .imagesRepeated, .trainsBadly, "they cost time and show nothing new",
        Remedy("keep fewer frames", command: "takeset export DATASET --to nerfstudio --every 2 --output OUT")
      ) { $0.withRepeatedImages() },
    ]
    + DoctorRule.poses(
      jump: "such a camera is elsewhere than its image", repeated: "such a camera is elsewhere than its image",
      interpolated: "such a camera is only near its image")
}
