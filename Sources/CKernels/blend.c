#include <string.h>

#include "cpixels.h"
#include "variants.h"

// Rows take less than half the time with AVX2. Without contraction, and with sums in one order, all variants give the same bytes.
#pragma STDC FP_CONTRACT OFF

// Sums that stay in registers, of a block of columns at a time.
#define BLEND_ROWS(type)                                                                 \
  enum { block = 64 };                                                                   \
  size_t x = 0;                                                                          \
  for (; x + block <= count; x += block) {                                               \
    float sums[block];                                                                   \
    const type *row = rows + x;                                                          \
    for (int i = 0; i < block; i++) sums[i] = weights[0] * row[i];                       \
    for (size_t tap = 1; tap < taps; tap++) {                                            \
      row = (const type *)((const char *)row + pitch);                                   \
      float weight = weights[tap];                                                       \
      for (int i = 0; i < block; i++) sums[i] += weight * row[i];                        \
    }                                                                                    \
    memcpy(line + x, sums, sizeof sums);                                                 \
  }                                                                                      \
  for (; x < count; x++) {                                                               \
    const type *row = rows + x;                                                          \
    float sum = weights[0] * *row;                                                       \
    for (size_t tap = 1; tap < taps; tap++) {                                            \
      row = (const type *)((const char *)row + pitch);                                   \
      sum += weights[tap] * *row;                                                        \
    }                                                                                    \
    line[x] = sum;                                                                       \
  }

VARIANTS
void cpixels_blend_rows(const uint8_t *rows, size_t pitch, size_t count, const float *weights, size_t taps, float *line) {
  BLEND_ROWS(uint8_t)
}

VARIANTS
void cpixels_blend_wide_rows(const uint16_t *rows, size_t pitch, size_t count, const float *weights, size_t taps, float *line) {
  BLEND_ROWS(uint16_t)
}

VARIANTS
void cpixels_blend_pixels(const float *line, struct cpixels_taps taps, size_t width, uint8_t *pixels) {
  const float *weights = taps.weights;
  for (size_t x = 0; x < width; x++, weights += taps.count, pixels += 3) {
    float red = 0.5f, green = 0.5f, blue = 0.5f;
    const float *pixel = line + 3 * (size_t)taps.first[x];
    for (size_t tap = 0; tap < taps.count; tap++, pixel += 3) {
      red += weights[tap] * pixel[0];
      green += weights[tap] * pixel[1];
      blue += weights[tap] * pixel[2];
    }
    pixels[0] = (uint8_t)red;
    pixels[1] = (uint8_t)green;
    pixels[2] = (uint8_t)blue;
  }
}

typedef float octet __attribute__((vector_size(32)));
typedef float quad __attribute__((vector_size(16)));
typedef int32_t whole __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(4)));

// Products at position x, in four partial sums.
static inline __attribute__((always_inline)) quad products(const float *line, struct cpixels_taps taps, size_t x) {
  const float *values = line + taps.first[x], *weights = taps.weights + taps.count * x;
  octet sums = {0};
  for (size_t tap = 0; tap < taps.count; tap += 8) {
    octet value, weight;
    memcpy(&value, values + tap, sizeof value);
    memcpy(&weight, weights + tap, sizeof weight);
    sums += value * weight;
  }
  return __builtin_shufflevector(sums, sums, 0, 1, 2, 3) + __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
}

typedef uint16_t corner __attribute__((vector_size(8)));

// Levels 0 to 255 replaced by those of the table. Between corners, the three parts of the position in a cell order the way from its first corner to
// its last: gray stays gray, because the way leads along the diagonal.
static inline __attribute__((always_inline)) whole looked_up(quad colors, const uint16_t *table) {
  enum { edge = CPIXELS_EDGE, fine = 256 };
  const quad scale = {(edge - 1) * fine / 255.0f, (edge - 1) * fine / 255.0f, (edge - 1) * fine / 255.0f, 0};
  whole at = __builtin_convertvector(colors * scale + 0.5f, whole);
  whole cell = at / fine;
  for (int i = 0; i < 3; i++)
    if (cell[i] == edge - 1) cell[i]--;
  whole part = at - cell * fine;
  int r = part[0], g = part[1], b = part[2];
  int red = edge * edge, green = edge, blue = 1;
  int first, second, most, middle, least;
  if (r >= g) {
    if (g >= b) first = red, second = green, most = r, middle = g, least = b;
    else if (r >= b) first = red, second = blue, most = r, middle = b, least = g;
    else first = blue, second = red, most = b, middle = r, least = g;
  } else {
    if (r >= b) first = green, second = red, most = g, middle = r, least = b;
    else if (g >= b) first = green, second = blue, most = g, middle = b, least = r;
    else first = blue, second = green, most = b, middle = g, least = r;
  }
  const uint16_t *start = table + 4 * (size_t)(cell[0] * red + cell[1] * green + cell[2] * blue);
  corner corners[4];
  memcpy(&corners[0], start, sizeof(corner));
  memcpy(&corners[1], start + 4 * first, sizeof(corner));
  memcpy(&corners[2], start + 4 * (first + second), sizeof(corner));
  memcpy(&corners[3], start + 4 * (red + green + blue), sizeof(corner));
  whole sum = __builtin_convertvector(corners[0], whole) * (fine - most) + __builtin_convertvector(corners[1], whole) * (most - middle)
      + __builtin_convertvector(corners[2], whole) * (middle - least) + __builtin_convertvector(corners[3], whole) * least;
  return (sum + (1 << 14)) >> 15;
}

VARIANTS
void cpixels_blend_planes(
    const float *luma, const float *cb, const float *cr, struct cpixels_taps luma_taps, struct cpixels_taps chroma_taps,
    struct cpixels_matrix matrix, const uint16_t *table, size_t width, uint8_t *pixels) {
  // Lanes: red, green, blue, unused.
  const quad of_luma = {matrix.contrast, matrix.contrast, matrix.contrast, 0};
  const quad of_cb = {0, matrix.green_of_cb, matrix.blue_of_cb, 0}, of_cr = {matrix.red_of_cr, matrix.green_of_cr, 0, 0};
  const quad least = {0}, most = {255, 255, 255, 255};
  for (size_t x = 0; x < width; x++, pixels += 3) {
    quad y = products(luma, luma_taps, x), b = products(cb, chroma_taps, x), r = products(cr, chroma_taps, x);
    // Adds the four partial sums of each plane.
    quad yb = __builtin_shufflevector(y, b, 0, 1, 4, 5) + __builtin_shufflevector(y, b, 2, 3, 6, 7);
    quad rr = __builtin_shufflevector(r, r, 0, 1, 0, 1) + __builtin_shufflevector(r, r, 2, 3, 2, 3);
    quad sums = __builtin_shufflevector(yb, rr, 0, 2, 4, 4) + __builtin_shufflevector(yb, rr, 1, 3, 5, 5);
    quad colors = (sums[0] - matrix.black) * of_luma + (sums[1] - 128) * of_cb + (sums[2] - 128) * of_cr;
    whole found;
    if (table) {
      found = looked_up(__builtin_elementwise_min(__builtin_elementwise_max(colors, least), most), table);
    } else {
      colors = __builtin_elementwise_min(__builtin_elementwise_max(colors + 0.5f, least), most);
      found = __builtin_convertvector(colors, whole);
    }
    bytes levels = __builtin_convertvector(found, bytes);
    pixels[0] = levels[0];
    pixels[1] = levels[1];
    pixels[2] = levels[2];
  }
}
