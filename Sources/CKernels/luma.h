#ifndef LUMA_H
#define LUMA_H

#include <stdint.h>

// The luma (299 R + 587 G + 114 B) / 1000 of a pixel, rounded half up.
static inline __attribute__((always_inline)) uint32_t luma_of(uint32_t r, uint32_t g, uint32_t b) {
  // Division by 1000: 134218 / 2^27 is 1 / 1000 with an error that no sum of these colors shows, and nothing exceeds 32 bits.
  return (((299 * r + 587 * g + 114 * b + 500) >> 3) * 134218u) >> 24;
}

#endif
