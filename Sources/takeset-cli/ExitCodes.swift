import Datasets
import Merging
import Runs
import Steps
import Uploader

/// An error whose description the command prints before it ends with a code of its own; any other error ends it with 1.
protocol ExitCoded: Error {
  var exitCode: Int32 { get }
}

extension UsageError: ExitCoded { var exitCode: Int32 { 64 } }
extension PipelineFileError: ExitCoded { var exitCode: Int32 { 64 } }
extension UnusableValues: ExitCoded { var exitCode: Int32 { 65 } }
extension ExportRefusal: ExitCoded { var exitCode: Int32 { 65 } }
extension OutputExists: ExitCoded { var exitCode: Int32 { 73 } }
extension VersionMismatch: ExitCoded { var exitCode: Int32 { 78 } }
extension UnusableSource: ExitCoded { var exitCode: Int32 { (reason as? any ExitCoded)?.exitCode ?? 1 } }
extension UploaderProblem: ExitCoded {}
