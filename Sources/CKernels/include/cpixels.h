#ifndef CPIXELS_H
#define CPIXELS_H

#include <stddef.h>
#include <stdint.h>

// Filter taps along one axis: position x is a weighted sum of `count` neighbors from first[x] on, with the weights from count * x on.
// Weights are nonnegative and add up to 1.
struct cpixels_taps {
  const int32_t *first;
  const float *weights;
  size_t count;
};

// Writes to `line` the weighted sum of `taps` rows of `count` bytes each, `pitch` bytes apart.
void cpixels_blend_rows(const uint8_t *rows, size_t pitch, size_t count, const float *weights, size_t taps, float *line);

// The same for rows of 16-bit numbers, of which `pitch` is bytes, too.
void cpixels_blend_wide_rows(const uint16_t *rows, size_t pitch, size_t count, const float *weights, size_t taps, float *line);

// Computes `width` RGB pixels from a line of RGB pixels.
void cpixels_blend_pixels(const float *line, struct cpixels_taps taps, size_t width, uint8_t *pixels);

// YUV to RGB: (luma - `black`) * `contrast`, plus (chroma - 128) times a factor for each color; in levels of 0 to 255.
struct cpixels_matrix {
  float black, contrast, red_of_cr, green_of_cb, green_of_cr, blue_of_cb;
};

// Entries along one side of a table of colors.
#define CPIXELS_EDGE 33

// Computes `width` RGB pixels from a line of each plane. Tap counts are multiples of 8, and that many floats must be readable from each
// position. With a table, these colors are replaced by its own, interpolated between the corners of a tetrahedron: entries of red, green, blue and
// an unused number in 128ths of a level, by red, green and blue, blue fastest.
void cpixels_blend_planes(
    const float *luma, const float *cb, const float *cr, struct cpixels_taps luma_taps, struct cpixels_taps chroma_taps,
    struct cpixels_matrix matrix, const uint16_t *table, size_t width, uint8_t *pixels);

// Sums over pixels.
struct cpixels_light {
  uint64_t luma, bright;
};
struct cpixels_edges {
  int64_t sum;
  uint64_t squares;
};

// Writes the luma (299 R + 587 G + 114 B) / 1000, rounded half up, of `width` RGB pixels. Adds it up, and counts the pixels whose colors are
// all `bright` or more.
void cpixels_luma(const uint8_t *rgb, size_t width, uint8_t bright, uint8_t *luma, struct cpixels_light *light);

// Adds up the Laplacian of a line of luma, the sum of a pixel's four neighbors minus four times itself, and its squares. The pixels before and
// after the line are read, too.
void cpixels_laplacian(const uint8_t *above, const uint8_t *line, const uint8_t *below, size_t width, struct cpixels_edges *edges);

#endif
