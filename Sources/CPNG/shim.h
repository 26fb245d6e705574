#include <png.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// libpng reports errors by longjmp, which must not cross Swift frames; all calls that can jump are in this file.

typedef struct {
  const uint8_t *bytes;
  size_t count;
  size_t position;
  char *message;  // 128 bytes
} cpng_input;

static inline void cpng_failed(png_structp png, png_const_charp message) {
  cpng_input *input = (cpng_input *)png_get_error_ptr(png);
  snprintf(input->message, 128, "%s", message);
  longjmp(png_jmpbuf(png), 1);
}

static inline void cpng_warned(png_structp png, png_const_charp message) {
  (void)png;
  (void)message;
}

static inline void cpng_read(png_structp png, png_bytep output, size_t count) {
  cpng_input *input = (cpng_input *)png_get_io_ptr(png);
  if (count > input->count - input->position) png_error(png, "the file is truncated");
  memcpy(output, input->bytes + input->position, count);
  input->position += count;
}

/// Decodes a gray PNG of exactly `depth` bits per pixel, 8 or 16, unchanged: no gamma, no scaling, 16 bits little-endian.
/// With `output` NULL only the header is read, and width and height are set; otherwise the header must match them.
/// Returns 1, or 0 with a sentence in `message`, which has 128 bytes.
static inline int cpng_decode_gray(
    const uint8_t *bytes, size_t count, int depth, uint32_t most, uint32_t *width, uint32_t *height, uint8_t *output, char *message) {
  cpng_input input = {bytes, count, 0, message};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, cpng_failed, cpng_warned);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (info == NULL) {
    png_destroy_read_struct(&png, NULL, NULL);
    snprintf(message, 128, "out of memory");
    return 0;
  }
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_read_struct(&png, &info, NULL);
    return 0;
  }
  png_set_read_fn(png, &input, cpng_read);
  png_set_user_limits(png, most, most);
  png_set_chunk_malloc_max(png, 1 << 16);
  png_set_chunk_cache_max(png, 4);
  png_read_info(png, info);
  uint32_t w = png_get_image_width(png, info), h = png_get_image_height(png, info);
  if (png_get_color_type(png, info) != PNG_COLOR_TYPE_GRAY || png_get_bit_depth(png, info) != depth) {
    snprintf(message, 128, "it has %d bits per sample and %d per pixel; expected gray with %d bits", png_get_bit_depth(png, info),
             png_get_bit_depth(png, info) * png_get_channels(png, info), depth);
    png_destroy_read_struct(&png, &info, NULL);
    return 0;
  }
  if (output == NULL) {
    *width = w;
    *height = h;
  } else {
    if (w != *width || h != *height) {
      snprintf(message, 128, "it is %ux%u; expected %ux%u", w, h, *width, *height);
      png_destroy_read_struct(&png, &info, NULL);
      return 0;
    }
    if (depth == 16) png_set_swap(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t stride = png_get_rowbytes(png, info);
    for (int pass = 0; pass < passes; pass++)
      for (uint32_t row = 0; row < h; row++) png_read_row(png, output + row * stride, NULL);
    png_read_end(png, NULL);
  }
  png_destroy_read_struct(&png, &info, NULL);
  return 1;
}

typedef struct {
  uint8_t *bytes;
  size_t capacity;
  size_t count;
  char *message;
} cpng_output;

static inline void cpng_refused(png_structp png, png_const_charp message) {
  cpng_output *output = (cpng_output *)png_get_error_ptr(png);
  snprintf(output->message, 128, "%s", message);
  longjmp(png_jmpbuf(png), 1);
}

static inline void cpng_write(png_structp png, png_bytep bytes, size_t count) {
  cpng_output *output = (cpng_output *)png_get_io_ptr(png);
  if (count > output->capacity - output->count) png_error(png, "the buffer is too small");
  memcpy(output->bytes + output->count, bytes, count);
  output->count += count;
}

static inline void cpng_flush(png_structp png) { (void)png; }

/// Encodes gray rows of 8 or 16 bits, 16 bits little-endian. Returns the number of bytes, or 0 with a sentence in `message`.
static inline size_t cpng_encode_gray(
    const uint8_t *pixels, int depth, uint32_t width, uint32_t height, uint8_t *bytes, size_t capacity, char *message) {
  cpng_output output = {bytes, capacity, 0, message};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &output, cpng_refused, cpng_warned);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (info == NULL) {
    png_destroy_write_struct(&png, NULL);
    snprintf(message, 128, "out of memory");
    return 0;
  }
  if (setjmp(png_jmpbuf(png))) {
    png_destroy_write_struct(&png, &info);
    return 0;
  }
  png_set_write_fn(png, &output, cpng_write, cpng_flush);
  png_set_IHDR(png, info, width, height, depth, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  if (depth == 16) png_set_swap(png);
  size_t stride = (size_t)width * (size_t)depth / 8;
  for (uint32_t row = 0; row < height; row++) png_write_row(png, (png_const_bytep)(pixels + row * stride));
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return output.count;
}
