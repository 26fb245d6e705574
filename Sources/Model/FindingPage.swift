/// The page of a code in `takeset explain` and `docs/findings.md`.
package struct FindingPage: Sendable {
  /// Outcome of the take, or `dataset` for a finding about the dataset as a whole.
  package enum Group: String, Sendable, CaseIterable { case written, dataset, failed, rejected }

  package var group: Group
  /// The usual severity, and another that some findings have.
  package var severity: Finding.Severity
  package var other: Finding.Severity?
  package var meaning: String
  /// Advice to the person who holds the file.
  package var advice: String

  /// `warning`, `info or warning`, `rejected`.
  package var severityWords: String {
    if group == .rejected { return "rejected" }
    return severity.rawValue + (other.map { " or \($0.rawValue)" } ?? "")
  }

  static func written(
    _ severity: Finding.Severity, or other: Finding.Severity? = nil, _ meaning: String, _ advice: String
  ) -> FindingPage {
    FindingPage(group: .written, severity: severity, other: other, meaning: meaning, advice: advice)
  }
  static func dataset(_ meaning: String, _ advice: String) -> FindingPage {
    FindingPage(group: .dataset, severity: .warning, meaning: meaning, advice: advice)
  }
  static func failed(_ meaning: String, _ advice: String) -> FindingPage {
    FindingPage(group: .failed, severity: .error, meaning: meaning, advice: advice)
  }
  static func rejected(_ meaning: String, _ advice: String) -> FindingPage {
    FindingPage(group: .rejected, severity: .info, meaning: meaning, advice: advice)
  }
}

extension FindingCode {
  package var severity: Finding.Severity { page.severity }

  /// One case each, so that a code without a page does not compile.
  package var page: FindingPage {
    switch self {
    case .accelerationInG:
      .written(
        .info,
        "Accelerations in units of standard gravity, as Stray Scanner writes them since February 2025. They are multiplied by 9.80665; the manifest has the unit of the file.",
        "Nothing needs to be done.")
    case .actionsMissing:
      .dataset(
        "Some takes have actions and some have none, because they have no poses.",
        "Leave the takes without poses out, or train on the others by a filter.")
    case .archiveAmbiguous:
      .failed(
        "An archive that holds several takes side by side.",
        "Pack one take per archive, or unpack it into a directory.")
    case .archiveDamaged:
      .failed(
        "A damaged archive member that the take needs.",
        "Copy the archive again.")
    case .archiveHostile:
      .failed(
        "An archive member that could escape the archive (absolute name, `..`, drive, link, device) or occurs twice. The whole archive is refused.",
        "Do not trust the archive; ask its sender for a clean one.")
    case .archiveMissing:
      .failed(
        "A copy of a session's metadata whose archive is gone.",
        "Copy the archive next to it, or remove the copy.")
    case .archiveUnreadable:
      .failed(
        "A zip or tar file that is truncated, encrypted or otherwise cannot be listed.",
        "Copy the archive again, without encryption.")
    case .assertionAbsent:
      .written(
        .info,
        "Bundle metadata without a signature, so the hash chain is unproven. The take is written and the manifest records the absence.",
        "Nothing; set `verify-hash-chain: {require: assertion}` to reject such takes.")
    case .assertionInvalid:
      .written(
        .warning,
        "A signature that cannot be parsed, was made for an app the keys file does not name, or does not verify against any known key over the chain's end or a checkpoint.",
        "Check that the keys file lists this device and app; set `verify-hash-chain: {require: assertion}` to reject such takes.")
    case .assertionMock:
      .written(
        .warning, "The fixed text of a debug build in place of a signature.",
        "Record with a release build of the app; set `verify-hash-chain: {require: assertion}` to reject such takes.")
    case .assertionPlaceholder:
      .written(
        .warning, "The text that was to be signed in place of a signature.",
        "Record again with an app version that signs; set `verify-hash-chain: {require: assertion}` to reject such takes.")
    case .assertionUnverified:
      .written(
        .info, or: .warning,
        "An unchecked signature: info when the run was given no keys, warning when the keys file is empty or has no key for the device the metadata name.",
        "Run with `--keys FILE`, and add this device's key to the file.")
    case .axesUnknown:
      .written(
        .info,
        "`pose-frame` leaves poses as they are, because the axes of their camera, or the up axis of their world, are not known: synthetic data, or a SLAM program's world.",
        "Do not mix such poses with others; their attributes name their axes.")
    case .badName:
      .failed(
        "A take name that is not UTF-8, has control characters, or is longer than 200 bytes.",
        "Rename the take.")
    case .bodyDamaged:
      .failed(
        "An upload body that is truncated, or whose boundaries do not match.",
        "Upload or copy it again.")
    case .captureSourceUnknown:
      .written(
        .warning, "A `captureSource` that the app never writes. The session is read as one without ARKit.",
        "Check the variant in the manifest; correct `captureSource` in a copy of the session if ARKit recorded it.")
    case .chainAbsent:
      .written(
        .warning, "A bundle without a hash chain, or with an empty one. The manifest records it.",
        "Nothing; set `verify-hash-chain: {require: assertion}` to reject such takes.")
    case .chainBroken:
      .written(
        .warning, "A hash chain that fails validation; the message gives the reason. The take is rejected unless `require: none` is set.",
        "Upload the bundle again, or set `verify-hash-chain: {require: none}` to convert it anyway.")
    case .chainCountMismatch:
      .written(
        .warning, "A hash chain that declares counts different from the lengths of its lists. The lists are used.",
        "Nothing; the declared counts are ignored.")
    case .chainReordered:
      .written(
        .warning, "A checkpoint whose hash appears in the chain at a frame other than the one it names. The chain is accepted.",
        "Nothing; the checkpoint is used where its hash is.")
    case .chainShort:
      .written(
        .warning, "A hash chain with up to 5 hashes fewer than the recorded frames. The chain is accepted.",
        "Nothing; the last frames of the recording are not covered by the chain.")
    case .changedWhileReading:
      .failed(
        "A file of the take that changed during the conversion.",
        "Run again once the file is no longer being written.")
    case .checkpointSpacing:
      .written(
        .warning, "Checkpoints that are not at every 150th frame, in order. They are accepted where they are.",
        "Nothing; the checkpoints are used at their own positions.")
    case .clockUnaligned:
      .written(
        .warning, "A stream on a clock that no method can relate to the frames' clock (see the page on time). All its rows are masked.",
        "Record with the IMU on; or, for joints without one, try `align: {correlate-joints: true}`.")
    case .codecMismatch:
      .written(
        .warning, "Bundle metadata that name a codec other than the video's. The video wins.",
        "Nothing; the codec is read from the video.")
    case .codecUnsupported:
      .failed(
        "A video that is neither H.264 nor HEVC.",
        "Re-encode the video as H.264 or HEVC.")
    case .colorPrimaries:
      .written(
        .info, "Color primaries other than those of BT.709 or BT.601. Colors are stored without adaptation to sRGB.",
        "Convert the video to BT.709 first if exact colors matter.")
    case .colorUnsupported:
      .failed(
        "An HDR (PQ, HLG) or logarithmic video, or another one that is not representable as sRGB without tone mapping.",
        "Tone-map the video to BT.709 first.")
    case .colorUntagged:
      .written(
        .info, "A video that does not state its color matrix. BT.601 is assumed, as FFmpeg does.",
        "Tag the video with its matrix if it is not BT.601.")
    case .confidenceMissing:
      .written(
        .warning, "Depth maps with no file of the same number in `confidence/`. Their confidence is masked.",
        "Copy the missing confidence maps from the device, if it still has them.")
    case .confidenceUndecodable:
      .written(
        .warning,
        "A confidence map that is damaged, differs in size, or holds values other than 0, 1 and 2. The confidence of its rows is masked.",
        "Copy the file from the device again.")
    case .countMismatch:
      .written(
        .warning, "A count in the metadata that differs from what the files hold. The files win; both numbers are reported.",
        "Check that the take was copied completely.")
    case .countUnusable:
      .written(
        .warning, "A count in the metadata of 2^53 or more. It is ignored and does not appear in the output.",
        "Nothing; counts are taken from the files.")
    case .conversionCrashed:
      .failed(
        "The process that converted the take crashed, twice. A library that decodes its files has a fault, or the take was made to exploit one.",
        "Copy the take again if its files may be damaged. If it still crashes, report it with the take: it is a fault of Takeset or of a library."
      )
    case .cropOutside:
      .failed(
        "A crop that does not fit within the images of the take.",
        "Choose a smaller box, resize first, or convert takes of other sizes separately.")
    case .csvInvalid:
      .failed(
        "A table with an invalid field; the message gives line and column.",
        "Correct the field in a copy of the take.")
    case .dayContradictory:
      .written(
        .info,
        "Dates of a take that cannot all be right, such as that of its name and that of its metadata. The first one counts for `split`: the name's, then the metadata's, then the video's.",
        "Correct the name, or group by something else (`split: {group: regex}`), if the first one is wrong.")
    case .dayUnknown:
      .dataset(
        "Takes without a date in their name, metadata or video, which `split` cannot group by the time of recording. Each is a group of its own, so recordings of one place may be in train and in valid.",
        "Put the date into their names (`2026-01-31`), or group them otherwise: `split: {group: directory}` or `{group: regex}`.")
    case .depthAlignmentAmbiguous:
      .written(
        .warning,
        "Depth keyframes without times, in a number other than the app records, so their frames are unknown. All depth rows are masked.",
        "Set `ambiguous-depth: assume` on the reader to pair keyframe k with frame 3k anyway.")
    case .depthCountMismatch:
      .written(
        .warning, "A number of depth keyframes that differs from the metadata. The depth part wins.",
        "Check that the depth part was uploaded completely.")
    case .depthFormat:
      .written(
        .warning,
        "Depth maps that are half floats, have padded rows, or differ in size from `depthResolution`. They are read in the format they are in.",
        "Check the depth values of one episode; correct `depthResolution` in a copy of the session if the grid is wrong.")
    case .depthMetricsUnavailable:
      .written(
        .warning, "Fewer than 2 depth maps for `verify-depth` to measure. The take is not judged.",
        "Lower `every`, or accept that the take is too short to be measured.")
    case .depthMissing:
      .written(
        .warning,
        "Depth maps that poses or rows name and `depth/` does not hold. Their frames get the nearest other map within the tolerance, or a mask.",
        "Copy the missing depth maps from the device, or drop these frames with `drop-frames: {with: [depth-missing]}`.")
    case .depthOrphaned:
      .written(
        .warning, "Depth maps that no pose or row names. They are skipped.",
        "Nothing; check that the poses were copied completely if there are many.")
    case .depthSeveralMembers:
      .written(
        .warning, "A gzip depth part of several members. All of them are read.",
        "Nothing; the depth is complete.")
    case .depthSuspicious:
      .written(
        .warning, "Depth that is unlikely to come from one real scene, according to `verify-depth`. The manifest has the measurements.",
        "Look at the depth of the take; set `verify-depth: {on-miss: reject}` to reject such takes.")
    case .depthTimesUnordered:
      .written(
        .warning, "Times in the depth index that do not ascend. They are ignored, and keyframes are paired by their number.",
        "Check the depth alignment of this take; upload the bundle again if the part was damaged.")
    case .depthTrailingBytes:
      .written(
        .warning, "Bytes after the end of the compressed depth. They are not read.",
        "Nothing; the depth before them is complete.")
    case .depthUndecodable:
      .written(
        .warning, or: .error,
        "As a warning, a depth map that is damaged, or differs in size or type from the first: its rows are masked. As an error, the depth part of a bundle in no known container, damaged, or of the wrong size.",
        "Copy or upload the depth again; set `depth: optional` on `realitycam-bundle` to convert without it.")
    case .depthWrongSize:
      .written(
        .warning, "A depth file whose length does not match its grid. The rows that would use it are masked.",
        "Copy the file from the device again.")
    case .duplicate:
      .rejected(
        "An archive next to a folder of the same name with the same files. The folder is converted.",
        "Nothing; remove one of the two to silence it.")
    case .duplicateContent:
      .dataset(
        "Takes whose files have the same bytes as those of another take, or whose poses are the same at the same times, such as a folder and its archive, or images that were encoded again: copies of one recording. The split's rule puts them into one part, so that nothing learned is tested, and a split file or a merge may not; they count twice in training.",
        "Remove the copies and run again with `--prune`, or leave them out with `takeset select`.")
    case .duplicateID:
      .written(
        .warning, "A take with the same name as another one. This take is called `<name>-2`, `-3`, and so on.",
        "Rename one of them if the ids should carry meaning.")
    case .durationMismatch:
      .written(
        .warning, "A duration in the metadata more than 2 s off the length of the video. The video wins.",
        "Check that the video was uploaded completely.")
    case .editListRetimed:
      .written(
        .warning, "An edit list that plays the video at a speed other than the recorded one. The times of the recording are kept.",
        "Nothing; rows have the recorded times.")
    case .encoderCSVLinesSkipped:
      .written(
        .warning, "Lines of an encoder table that are not readings. They are skipped.",
        "Check the table if it should hold nothing but readings.")
    case .encoderCSVUnaligned:
      .written(
        .warning, "Joint readings logged by a laptop, on a clock that nothing relates to the phone's. They are masked.",
        "Set `csv-clock-offset` to the seconds to add to the laptop's times.")
    case .exifRotation:
      .written(
        .warning, "A first image with an EXIF orientation other than 1. Images are stored as coded, without rotation.",
        "Rotate in your loader if the images must be upright; depth and poses belong to the coded orientation.")
    case .fileEmpty:
      .failed(
        "A video file of zero bytes.",
        "Copy the file from the device again.")
    case .formatAmbiguous:
      .written(
        .warning, "A take that several readers recognize with equal confidence. The first of them by name reads it.",
        "Check the take's reader in the manifest; name another in the pipeline file with `reader: {name: ...}`.")
    case .frameCountMismatch:
      .written(
        .warning, "A frame count in the metadata that differs from the video's. The video wins.",
        "Check that the video was uploaded completely.")
    case .frameRate:
      .written(
        .info, "A bundle whose frame rate is outside 24 to 31 Hz. The measured rate is used.",
        "Nothing; timestamps are the video's own.")
    case .framesDropped:
      .written(
        .warning,
        "Steps between frames longer than 1.5 periods, where the camera dropped frames; frames that the reader skipped do not count. They are listed in `meta/gaps`.",
        "Keep training windows from crossing gaps, for example with `split-at-gaps`.")
    case .gridsDiffer:
      .failed(
        "A step combines two streams of one camera whose grids cannot be matched.",
        "Apply the step before the one that changed only one of them, or use `method: nearest`.")
    case .hashEncoding:
      .written(
        .info, "Hashes in hexadecimal or in a nonstandard form of base64. They are read.",
        "Nothing; the encoding does not change the check.")
    case .imageMissing:
      .written(
        .warning, "Poses or rows whose image is missing. Their frames are dropped; the other frames keep their pairing.",
        "Copy the missing images from the device, if it still has them.")
    case .imageSizeChanged:
      .failed(
        "An image whose size differs from the first one's.",
        "Separate images of different sizes into different takes.")
    case .imageUndecodable:
      .written(
        .warning, or: .error,
        "As a warning, an image that is empty, truncated or not a JPEG: its row is kept with pixels 0 and the mask off. As an error, more than a fifth of the images of a take are undecodable.",
        "Copy the images from the device again.")
    case .imuUnusable:
      .written(
        .warning, "IMU readings that are not finite or not numeric. They are skipped.",
        "Nothing; check the recording app if there are many.")
    case .inputMissing:
      .failed(
        "A named input that does not exist.",
        "Check the path.")
    case .inputTooLarge:
      .failed(
        "A file larger than the reader's limit.",
        "Raise the reader's limit if you trust the file.")
    case .inputIgnored:
      FindingPage(
        group: .dataset, severity: .info,
        meaning:
          "Folders, archives or files among the inputs that no reader recognizes, or links to directories. Nothing of them is in the dataset.",
        advice:
          "Check that they are no takes; `takeset inspect` of one says what is expected there. `--follow-links` searches links to directories."
      )
    case .inputVanished:
      .written(
        .warning, "A take that an earlier run wrote and that is no longer among the inputs. Its episode is kept.",
        "Restore the input, or run with `--prune` to remove the episode.")
    case .internal:
      .failed(
        "A defect in Takeset.",
        "Report it, with the message and the manifest's entry for the take.")
    case .intrinsicsDiffer:
      .written(
        .warning, "`calib.txt` and `cameraIntrinsics` that disagree. `calib.txt` is used; the manifest has both.",
        "Remove or correct the calibration you do not trust.")
    case .intrinsicsImplausible:
      .written(
        .warning,
        "Intrinsics that cannot be those of the images: the principal point is outside of them, or the field of view along the longer side is not within 30 to 120 degrees. They are stored as they are.",
        "Check whether the images were resized or cropped after the recording; convert the original files.")
    case .intrinsicsMissing:
      .failed(
        "A step needs the intrinsics of a camera, and the take has none.",
        "Remove the step, or convert such takes with another pipeline.")
    case .intrinsicsScaled:
      .written(
        .info,
        "Intrinsics for images of another size than those of the take, which were resized after the recording. They are scaled to the images.",
        "Nothing, if the images were not cropped.")
    case .intrinsicsUnusable:
      .written(
        .warning,
        "Intrinsics without positive focal lengths, in `cameraIntrinsics`, `calib.txt` or `camera_matrix.csv`. That source is ignored.",
        "Correct the file in a copy of the take, or supply `calib.txt`.")
    case .jointDead:
      .written(
        .warning, "A joint whose sensor never answered. The channel is masked.",
        "Check the sensor and its wiring before the next recording.")
    case .jointReadFailed:
      .written(
        .warning, "Readings of exactly -1, the firmware's value for no answer. They are masked before angles are unwrapped.",
        "Check the sensor's wiring if there are many.")
    case .jointSignsUnknown:
      .written(
        .warning,
        "Joint readings from before 2026-02-18 08:00 UTC, when firmware reversed the third and fourth joints. They are written unchanged.",
        "Set `joint-signs` on the reader, for example `\"++--\"`, once you know the firmware.")
    case .jointsGap:
      .written(
        .warning, "A pause of more than 0.2 s between joint readings. Frames within it are masked.",
        "Drop these frames with `drop-frames: {with: [joints-missing]}` if your policy needs joints.")
    case .jointsLate:
      .written(
        .warning, "A first joint reading that arrived more than 1.1 s after the start. The clock is not aligned by the first reading.",
        "Start the encoders before recording, or record an IMU so that motion can align the clocks.")
    case .jointsRecalibrated:
      .written(
        .warning, "All joints stepping at once by more than 8 degrees, as when a new zero is set. The angles are written unchanged.",
        "Look at the joints around the step, and trim the take in a copy if needed.")
    case .jsonInvalid:
      .failed(
        "A file that is not valid JSON; the message gives line and column.",
        "Copy the file again, or correct it in a copy of the take.")
    case .jsonType:
      .failed(
        "A JSON value of the wrong type; the message gives its path.",
        "Correct the value in a copy of the take.")
    case .limit:
      .failed(
        "A size, count, length or decoding time over its limit.",
        "Raise the limit the message names if you trust the file.")
    case .locationRemoved:
      .written(
        .info, "A location in the metadata, in the tags of a video or in the EXIF data of an image. It is withheld from the output.",
        "Set `keep-location: true` on the reader to keep it in `details.location`, or with the stored JPEG files.")
    case .memoryLimit:
      .failed(
        "The process that converted the take needed more memory than `--take-memory` permits.",
        "Raise `--take-memory` if the take is that large. A small take that needs so much is damaged, or was made to exhaust memory.")
    case .metadataFromSidecar:
      .written(
        .warning, "An archive without `metadata.json` whose copy is next to it. The copy is used.",
        "Nothing; keep the copy next to the archive.")
    case .metadataInvalid:
      .failed(
        "A field of a bundle's metadata that is missing, of the wrong type or, with `strict: true`, out of range.",
        "Correct the field, or upload the bundle again.")
    case .metadataMissing:
      .written(
        .warning, "A take without metadata. Sizes come from the files, and the start time is unknown.",
        "Add the take's `metadata.json` if you have it.")
    case .metadataNumber:
      .written(
        .info, "Whole numbers written as fractions, such as 240.0. They are read.",
        "Nothing; the values are unchanged.")
    case .metadataRange:
      .written(
        .warning, "A metadata value that the app's server would refuse. The take is accepted.",
        "Set `strict: true` on `realitycam-bundle` to fail such takes.")
    case .minFrames:
      .rejected(
        "A take or an episode with fewer frames than the step `min-frames` asks for.",
        "Lower `count`, or leave the step out.")
    case .mixedSizes:
      .dataset(
        "Takes with several shapes under one key of the dataset. They are written; only takes of one shape fit in a batch.",
        "Resize to one size with `resize-image: {mode: cover}`, leave joints out of actions (`joints: none`), or filter takes by shape.")
    case .mixedUnits:
      .dataset(
        "Takes that give one key different units, axes or types. Statistics are kept apart under `/stats/<key>@<unit>`.",
        "Set one unit of depth (`resample-depth: {unit: m}`) and one convention of axes (`pose-frame: {axes: arkit}`); convert takes of an arbitrary scale into another dataset."
      )
    case .movieCorrupt:
      .failed(
        "A video frame that cannot be decoded, or an index that contradicts itself; the message says how many frames were decodable.",
        "Copy the video again, or cut the damaged part off.")
    case .movieCountMismatch:
      .written(
        .warning,
        "A video whose frame count differs from `rgb/` or from the odometry. A session then takes no times from it. A Stray Scanner recording is paired by time or by number; one frame less than rows means that the first is missing.",
        "Check that the video was copied completely.")
    case .movieEncrypted:
      .failed(
        "An encrypted video.",
        "Supply the video without encryption.")
    case .movieExternalData:
      .failed(
        "A video that refers to another file, which is never opened.",
        "Export the video as one self-contained file.")
    case .movieTruncated:
      .failed(
        "A video whose samples lie beyond the end of the file.",
        "Copy the file again.")
    case .movieUnfinished:
      .failed(
        "A video without an index, from a recording that was never finished.",
        "Repair the file with a recovery tool, or record again.")
    case .movieUnusable:
      .written(
        .warning, "A `video.mov` that cannot be read. Frame times come from another source.",
        "Copy the video from the device again.")
    case .nameRemoved:
      .written(
        .info, "A person's or a device's name in the metadata or in the tags of a video. It is withheld from the output.",
        "Nothing; the name appears in no output file.")
    case .nameTaken:
      .failed(
        "`rename` gives a stream the name of another one.",
        "Choose another name, or rename the other stream too.")
    case .needsSLAM:
      .rejected(
        "A session of a later app version that was recorded without poses.",
        "Compute poses with SLAM, or set `poses: optional` on `stack-session` to convert without them.")
    case .noFrames:
      .failed(
        "A take in which no image has a pose, or which has no images or no poses at all.",
        "Check that images and poses belong together and were copied completely.")
    case .noTakeFound:
      .failed(
        "A directory in which no reader recognizes a take.",
        "Name the directory that holds the takes; `takeset steps` lists the readers.")
    case .noVideo:
      .failed(
        "A file without a video track.",
        "Remove the file from the inputs.")
    case .notAMovie:
      .failed(
        "A file with the extension of a video that is not a video.",
        "Remove or rename the file.")
    case .notARegularFile:
      .failed(
        "A symbolic link, pipe or device among the files of a take.",
        "Replace it with the file itself.")
    case .notATake:
      .failed(
        "A file that no reader recognizes.",
        "Remove it from the inputs; `takeset steps` lists the readers.")
    case .notAligned:
      .failed(
        "A stream that needs the step `align`, in a pipeline that does not have it.",
        "Add `align` to the pipeline.")
    case .notJPEG:
      .failed(
        "`image: jpeg-source` for images that are not untouched JPEG files, for example frames of a video.",
        "Store images with `image: jpeg`, `png` or `raw`.")
    case .odometryTruncated:
      .written(
        .warning, "A last line of `odometry.csv` that is cut short. The line is skipped.",
        "Copy the file from the device again if it should be longer.")
    case .optionUnused:
      .written(
        .info, "An option of the pipeline names a stream that the take does not have. It is a warning of the dataset where no take has it.",
        "Correct the name if no take has the stream; `takeset inspect` lists streams.")
    case .packedWithout:
      .written(
        .warning, "A packed session whose metadata still mention the video and IMU that packing removed. It is read without them.",
        "Convert the original session if you need its IMU or its true frame times.")
    case .partEmpty:
      .failed(
        "An empty part of a bundle. With `depth: optional`, an empty depth part is a warning.",
        "Upload the bundle again, or set `depth: optional` if only depth is empty.")
    case .partMissing:
      .failed(
        "A missing part of a bundle. With `depth: optional`, a missing depth part is a warning.",
        "Upload the bundle again, or set `depth: optional` if only depth is missing.")
    case .partialMismatch:
      .written(
        .warning, "Metadata that call the bundle partial although the complete chain is signed. The signature wins.",
        "Nothing; the take counts as complete.")
    case .partialUpload:
      .written(
        .warning, "Images that end before the poses do. The frames that arrived are used; `details.coverage` says how many.",
        "Upload or copy the rest of the images.")
    case .partiallyVerified:
      .written(
        .warning, "A signature over a checkpoint and not over the end of the recording. The manifest records how far it reaches.",
        "Use only the verified seconds (`takes[].verification`) where authenticity matters.")
    case .permission:
      .failed(
        "A file or directory that Takeset may not read.",
        "Grant read permission.")
    case .poseInterpolated:
      .written(
        .warning, "Frames whose pose SLAM filled in between others. Their quality bit is set.",
        "Drop them with `drop-frames: {with: [pose-interpolated]}`.")
    case .poseJump:
      .written(
        .warning, "Frames to which the camera would have moved faster than 5 m/s or 10 rad/s. Their quality bit is set.",
        "Drop them with `drop-frames: {with: [pose-jump]}`.")
    case .poseMissing:
      .written(
        .warning, "Images without a pose of the same number. Their frames are dropped.",
        "Nothing; check that the poses were copied completely if there are many.")
    case .poseRepeated:
      .written(
        .warning, "Three or more frames in a row with the same pose, as when tracking is lost. Their quality bit is set.",
        "Drop them with `drop-frames: {with: [pose-repeated]}`.")
    case .poseUnusable:
      .written(
        .warning, "A transform that is not finite, not a rotation, or has a wrong last row. Its frame is dropped.",
        "Nothing; check how the poses were made if there are many.")
    case .posesDuplicate:
      .written(
        .warning, "Several entries with the same frame number and different poses. The first is used.",
        "Remove the entries you do not trust in a copy of the take.")
    case .posesMissing:
      .failed(
        "A session without `poses.json`, or a Stray Scanner recording without `odometry.csv`.",
        "Copy the file from the device, or compute poses with SLAM.")
    case .posesTransposed:
      .written(
        .warning, "Matrices written column by column. They are transposed.",
        "Nothing; write them row by row in future.")
    case .posesTruncated:
      .written(
        .warning, "A `poses.json` that ends too early. The complete entries before the cut are used.",
        "Copy the file from the device again.")
    case .posesUnreadable:
      .written(
        .warning, "A `poses.json` from SLAM that cannot be read at all. The session is handled as one without poses.",
        "Run SLAM again.")
    case .posesUnsorted:
      .written(
        .info, "Entries that are not in the order of their frame numbers. They are sorted.",
        "Nothing; the order in the file has no meaning.")
    case .resolutionMismatch:
      .written(
        .warning,
        "A resolution in the metadata that differs from the images or the video. The images win; for a bundle, depth may not cover the image edge to edge.",
        "Check depth against the images with `inspect --preview` before training on it.")
    case .resolutionUnusable:
      .written(
        .warning, "An `rgbResolution` or `depthResolution` that is not two numbers from 1 to 65535. Sizes are taken from the files.",
        "Nothing; correct the metadata in a copy if the sizes come out wrong.")
    case .rotationIgnored:
      .written(
        .warning,
        "A display matrix on the video of a recording with poses. Images are stored as coded, because poses and intrinsics belong to the coded images.",
        "Nothing; rotate in your loader if images must be upright.")
    case .rotationSuspect:
      .written(
        .warning, "A display matrix that would rotate images that are already upright. Images are stored as coded.",
        "Set `rotation: apply` on the reader if the images come out sideways.")
    case .rotationUnknown:
      .written(
        .warning,
        "`rotate: {degrees: upright}` could not tell which side of the images is up: the take has no poses in a world whose up is known, or the camera looks up or down most of the time. The images are not rotated.",
        "Give the angle: `rotate: {degrees: 90}`.")
    case .rotationUnsupported:
      .written(
        .warning, "A display matrix that mirrors, or rotates by something other than a multiple of 90 degrees. Images are stored as coded.",
        "Re-encode the video upright if orientation matters.")
    case .sampleMissing:
      .dataset(
        "A row of a dataset that had no readable sample when it was written. The row stays masked.",
        "Look up the take's own findings in the manifest for the cause.")
    case .sampleSize:
      .failed(
        "A source that returned a sample of the wrong size.",
        "Report it, with the take if you can share it.")
    case .samplesHidden:
      .written(
        .info, "Video samples that the edit list hides. They are skipped.",
        "Nothing; hidden samples were never meant to be shown.")
    case .scaleArbitrary:
      .written(
        .warning, "Poses from SLAM without a scale. They are written with `unit` = `arbitrary`.",
        "Use these poses relative to each other only, or scale them first.")
    case .scaleClaimed:
      .written(
        .warning,
        "Poses from SLAM that the metadata claim were scaled to meters, without proof. They are written with `unit` = `m (claimed)`.",
        "Check the scale against a known length before mixing these takes with ARKit ones.")
    case .senderClockUnusable:
      .written(
        .warning, "Encoder milliseconds that do not advance with the arrival times. Arrival times are used.",
        "Nothing; joint times carry the network delay.")
    case .senderRestarted:
      .written(
        .warning, "An encoder clock that restarted during the take. Each segment is fitted separately.",
        "Nothing; check the encoder's power supply if it happens often.")
    case .shortEpisode:
      .written(
        .warning, "An episode of fewer than 18 frames, too short for 2 observed and 16 predicted rows. It is written.",
        "Filter it by `num_samples` when training, or record longer takes.")
    case .sidecarDiffers:
      .written(
        .warning, "A copy of the metadata next to an archive that differs from the one inside. The one inside is used.",
        "Remove or correct the copy.")
    case .slamOrdinals:
      .written(
        .warning, "Poses from SLAM where the image numbers have gaps. `rgbIndex` is taken as the position in the sorted listing.",
        "Check that poses follow the images in this take.")
    case .splitEmpty:
      .dataset(
        "A part of the split has a share above 0, or names in the split file, and no take; or train has none.",
        "Add takes of other groups, choose another `group` in `split`, or correct the split file.")
    case .splitFileUnknown:
      .dataset(
        "The split file names takes that the dataset does not have.",
        "Correct the names, or find out why these takes failed or were rejected; ids are in the manifest.")
    case .splitFileUnlisted:
      .dataset(
        "The split file does not name every take; the others are in train.",
        "Add them to the split file.")
    case .startTimeUnreadable:
      .written(
        .warning, "A `startTime` that is not an ISO 8601 time from 1970 to 2096. The take has no start time.",
        "Correct `startTime` in a copy of the session.")
    case .streamMissing:
      .failed(
        "A step needs a stream that the take does not have.",
        "Remove the option or the step, or convert such takes with another pipeline.")
    case .timeNotAscending:
      .written(
        .warning, "A timestamp that does not fit between its neighbors. Its frame is dropped.",
        "Nothing; the other frames keep their own times.")
    case .timeLimit:
      .failed(
        "The process that converted the take was still busy after the seconds of `--take-time`.",
        "Raise `--take-time` if the take is that long. A short take that needs so long is damaged, or was made to keep a decoder busy.")
    case .timesAssumed:
      .written(
        .warning,
        "A session with no evidence of when images were taken. 60 frames per second are assumed, and dropped frames cannot be detected.",
        "Convert the session with its `video.mov` or `imu.json` if you have one.")
    case .timesFromIMU:
      .written(
        .warning, "Frame times spread evenly over the span of the IMU, because no video gives them. Dropped frames cannot be detected.",
        "Convert the session with its `video.mov` if you have it.")
    case .timesFromMovie:
      .written(
        .info, "Frame times taken from `video.mov`, because the poses have none of their own.",
        "Nothing; these are the true presentation times.")
    case .streamNeeded:
      .failed(
        "A step leaves out or renames a stream that actions are computed from.",
        "Name that stream in `select` too, and place `rename` before `actions`.")
    case .tooFewImages:
      .failed(
        "Fewer than half of the images that the poses name.",
        "Copy or upload the rest of the images.")
    case .tooFewPoses:
      .failed(
        "More than a fifth of the transforms of a take are unusable.",
        "Compute the poses again.")
    case .tooFewTimes:
      .failed(
        "More than a fifth of the timestamps of a take do not ascend.",
        "Check how the timestamps were written.")
    case .trim:
      .rejected(
        "A take whose camera never moves, and `trim: {start: motion}` removes what is still.",
        "Leave the step out for such takes.")
    case .unreadable:
      .failed(
        "A file or directory that the operating system could not read.",
        "Check the disk or network mount, and run again.")
    case .verifyDepth:
      .rejected(
        "With `on-miss: reject`, a take whose depth is unlikely to come from one real scene.",
        "Look at the depth of the take; lower the thresholds, or set `on-miss: finding` to keep it.")
    case .verifyHashChain:
      .rejected(
        "A bundle whose hash chain is broken or, with `require: assertion`, whose signature is not verified.",
        "Upload the bundle again, or lower `require`.")
    case .videoAmbiguous:
      .failed(
        "A file with several video tracks.",
        "Export the track you want as a file with one video track.")
    }
  }
}
