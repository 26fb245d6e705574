#include "cpixels.h"
#include "luma.h"
#include "variants.h"

VARIANTS
void cpixels_luma(const uint8_t *rgb, size_t width, uint8_t bright, uint8_t *luma, struct cpixels_light *light) {
  // 255 times a line's length fits into the sums of 32 bits of a line of 2^24 pixels.
  uint32_t sum = 0, count = 0;
  for (size_t x = 0; x < width; x++) {
    uint32_t r = rgb[3 * x], g = rgb[3 * x + 1], b = rgb[3 * x + 2];
    uint32_t y = luma_of(r, g, b);
    luma[x] = (uint8_t)y;
    sum += y;
    count += (r >= bright) & (g >= bright) & (b >= bright);
  }
  light->luma += sum;
  light->bright += count;
}

VARIANTS
void cpixels_laplacian(const uint8_t *above, const uint8_t *line, const uint8_t *below, size_t width, struct cpixels_edges *edges) {
  // A square is below 2^20, so that those of this many pixels fit into 32 bits.
  enum { block = 2048 };
  for (size_t start = 0; start < width; start += block) {
    size_t end = start + block < width ? start + block : width;
    int32_t sum = 0;
    uint32_t squares = 0;
    for (size_t x = start; x < end; x++) {
      int32_t value = above[x] + below[x] + line[(ptrdiff_t)x - 1] + line[x + 1] - 4 * line[x];
      sum += value;
      squares += (uint32_t)(value * value);
    }
    edges->sum += sum;
    edges->squares += squares;
  }
}
