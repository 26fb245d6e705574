package import Datasets
import Model
import Readers
package import Steps
import Transforms

/// All steps that a pipeline file can name, in alphabetical order: the table of contents of the product.
package enum Registry {
  package static let readers: [any Reader.Type] = [
    ScannerApp.self,
    AnySense.self,
    ARKitScenes.self,
    IPhUMI.self,
    OpenCameraSensors.self,
    Polycam.self,
    RealityCamBundle.self,
    Record3D.self,
    SlowMotionVideo.self,
    SpectacularRec.self,
    StackSession.self,
    StrayScanner.self,
    TransformsJSON.self,
  ]

  package static let transforms: [any Transform.Type] = [
    Actions.self,
    Align.self,
    Crop.self,
    Decimate.self,
    DropFrames.self,
    MinFrames.self,
    Normalize.self,
    PoseFrameChange.self,
    Python.self,
    Rename.self,
    Resample.self,
    ResampleDepth.self,
    ResizeImage.self,
    Rotate.self,
    Select.self,
    Split.self,
    SplitAtGaps.self,
    SplitEpisodes.self,
    Trim.self,
    VerifyDepth.self,
    VerifyHashChain.self,
  ]

  package static let writers: [any Writer.Type] = [
    HDF5Writer.self
  ]

  /// The writer of a pipeline that names none.
  package static let defaultWriter: any Writer.Type = HDF5Writer.self

  /// The step that relates the clocks of a take, also before takes are joined.
  static let aligning: any Transform.Type = Align.self

  /// Returns the reader type with that name; `nil` without one.
  package static func reader(_ name: String) -> (any Reader.Type)? { readers.first { $0.name == name } }
  /// Returns the transform type with that name; `nil` without one.
  package static func transform(_ name: String) -> (any Transform.Type)? { transforms.first { $0.name == name } }
}
