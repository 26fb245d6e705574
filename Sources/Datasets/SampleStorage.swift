import Steps

/// The form in which a writer stores samples.
package struct SampleStorage: StepOptionGroup {
  /// The storage of images: arrays of pixels, or one file a row. `jpeg-source` keeps the bytes of the source's own JPEG files.
  package enum ImageEncoding: String, OptionChoice {
    case raw, jpeg, png
    case jpegSource = "jpeg-source"
  }

  @StepOption("byte shuffle and deflate for everything but images; 0 is none") package var compression = Compression.level(4)
  @StepOption(
    "raw: images as RGB arrays; jpeg: as JPEG files, where images that no step changed keep the source's own bytes; png: as PNG files, without loss; jpeg-source: only the source's own JPEG files"
  )
  package var image = ImageEncoding.raw
  @StepOption("quality of JPEG files, with full color resolution above 90 (libjpeg's scale)", 1...100) package var quality = 95
  @StepOption("the same for raw images; sensor noise compresses little, so the default is none") package var imageCompression =
    Compression.level(0)

  package init() {}
}
