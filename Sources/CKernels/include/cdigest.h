#ifndef CDIGEST_H
#define CDIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Numbers of counters for the pairs of bytes of an RGB image: 65536 for each of the three pairs of every two pixels.
enum { cdigest_pairs = 1 << 16, cdigest_counters = 3 * cdigest_pairs };

// A message that SHA-256 has read up to `next`, a whole number of blocks from its start.
struct cdigest_lane {
  uint32_t state[8];
  const uint8_t *next;
  // If not null, every two bytes are counted: counters[place * 65536 + first byte + 256 * second byte].
  uint32_t *counters;
  // Which of the three pairs of two pixels is next, 0 to 2.
  unsigned place;
};

// Whether this processor has the instructions that the next function needs.
bool cdigest_has_lanes(void);

// Reads `blocks` blocks of 64 bytes of one message, or of each of two if `b` is not null. The two are independent, so the processor works on
// one while it waits for the other.
void cdigest_read(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks);

// Adds `times` to the counter of each of `pairs` pairs of bytes. `place` is that of the first.
void cdigest_count_pairs(const uint8_t *bytes, size_t pairs, unsigned place, uint32_t times, uint32_t *counters);

#endif
