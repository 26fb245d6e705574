#ifndef CPIXELS_H
#define CPIXELS_H

#include <stddef.h>
#include <stdint.h>

// How positions along one axis are made of others: the one at x of `count` neighbours from first[x] on, with the weights from count * x on.
// Weights are not negative and add up to 1.
struct cpixels_taps {
  const int32_t *first;
  const float *weights;
  size_t count;
};

// A sum of `taps` rows of `count` bytes each, `pitch` bytes apart, with a weight for each row.
void cpixels_blend_rows(const uint8_t *rows, size_t pitch, size_t count, const float *weights, size_t taps, float *line);

// `width` RGB pixels from a line of such pixels.
void cpixels_blend_pixels(const float *line, struct cpixels_taps taps, size_t width, uint8_t *pixels);

// Luma less `black` times `contrast`, to which chroma less 128 is added times a factor for each colour; in levels of 0 to 255.
struct cpixels_matrix {
  float black, contrast, red_of_cr, green_of_cb, green_of_cr, blue_of_cb;
};

// `width` RGB pixels from a line of each plane. The counts of taps are multiples of 8, and so many floats can be read from each position on.
void cpixels_blend_planes(
    const float *luma, const float *cb, const float *cr, struct cpixels_taps luma_taps, struct cpixels_taps chroma_taps,
    struct cpixels_matrix matrix, size_t width, uint8_t *pixels);

#endif
