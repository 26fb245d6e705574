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

// Computes `width` RGB pixels from a line of RGB pixels.
void cpixels_blend_pixels(const float *line, struct cpixels_taps taps, size_t width, uint8_t *pixels);

// YUV to RGB: (luma - `black`) * `contrast`, plus (chroma - 128) times a factor for each color; in levels of 0 to 255.
struct cpixels_matrix {
  float black, contrast, red_of_cr, green_of_cb, green_of_cr, blue_of_cb;
};

// Computes `width` RGB pixels from a line of each plane. Tap counts are multiples of 8, and that many floats must be readable from each
// position.
void cpixels_blend_planes(
    const float *luma, const float *cb, const float *cr, struct cpixels_taps luma_taps, struct cpixels_taps chroma_taps,
    struct cpixels_matrix matrix, size_t width, uint8_t *pixels);

#endif
