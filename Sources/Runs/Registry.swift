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
    Folder.self,
    IPhUMI.self,
    MCAP.self,
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

  /// The parts of a folder's description, for the docs.
  package static let descriptionParts: [any Step.Type] = FolderParts.all

  /// A first description of a folder that no app made. Throws `FileError` where it cannot be listed, and `UsageError` where nothing in it could be a take.
  package static func draft(of folder: String) throws -> String { try FolderDraft(folder).text }

  /// Returns what a folder that no reader recognizes could be, as a sentence without its end; `nil` without any images.
  static func remedy(forUnrecognized folder: String) -> String? {
    if (try? Directory.kind(at: folder + "/takeset.yaml")) == .link { return "its takeset.yaml is a symbolic link, which is not followed" }
    return FolderDraft.words(for: folder).map { words in
      "it has \(words): described by a takeset.yaml in it, it is a take; takeset init --for folder \(shellWord(folder)) drafts one"
    }
  }

  /// Returns the reader type with that name; `nil` without one.
  package static func reader(_ name: String) -> (any Reader.Type)? { readers.first { $0.name == name } }
  /// Returns the transform type with that name; `nil` without one.
  package static func transform(_ name: String) -> (any Transform.Type)? { transforms.first { $0.name == name } }
}
