#include <string.h>

#include "cpixels.h"

// Each function is compiled for several processor generations, and the loader selects one: rows take less than half the time with AVX2.
// Swift cannot do this for a single function. Without contraction, and with sums in one order, all variants give the same bytes.
// The loader selects before the thread sanitizer is ready, which its code in the selecting function would crash on.
#pragma STDC FP_CONTRACT OFF
#if defined(__x86_64__) && defined(__GLIBC__) && !__has_feature(thread_sanitizer)
#define VARIANTS __attribute__((target_clones("avx512bw,avx2,default")))
#else
#define VARIANTS
#endif

VARIANTS
void cpixels_blend_rows(const uint8_t *rows, size_t pitch, size_t count, const float *weights, size_t taps, float *line) {
  enum { block = 64 };  // sums that stay in registers
  size_t x = 0;
  for (; x + block <= count; x += block) {
    float sums[block];
    for (int i = 0; i < block; i++) sums[i] = weights[0] * rows[x + i];
    for (size_t tap = 1; tap < taps; tap++) {
      const uint8_t *row = rows + tap * pitch + x;
      float weight = weights[tap];
      for (int i = 0; i < block; i++) sums[i] += weight * row[i];
    }
    memcpy(line + x, sums, sizeof sums);
  }
  for (; x < count; x++) {
    float sum = weights[0] * rows[x];
    for (size_t tap = 1; tap < taps; tap++) sum += weights[tap] * rows[tap * pitch + x];
    line[x] = sum;
  }
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

VARIANTS
void cpixels_blend_planes(
    const float *luma, const float *cb, const float *cr, struct cpixels_taps luma_taps, struct cpixels_taps chroma_taps,
    struct cpixels_matrix matrix, size_t width, uint8_t *pixels) {
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
    quad colors = (sums[0] - matrix.black) * of_luma + (sums[1] - 128) * of_cb + (sums[2] - 128) * of_cr + 0.5f;
    colors = __builtin_elementwise_min(__builtin_elementwise_max(colors, least), most);
    bytes levels = __builtin_convertvector(__builtin_convertvector(colors, whole), bytes);
    pixels[0] = levels[0];
    pixels[1] = levels[1];
    pixels[2] = levels[2];
  }
}
