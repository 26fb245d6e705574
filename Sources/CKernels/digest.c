#include "cdigest.h"

#include <string.h>

void cdigest_count_pairs(const uint8_t *bytes, size_t pairs, unsigned place, uint32_t times, uint32_t *counters) {
  uint32_t *first = counters + place % 3 * cdigest_pairs, *second = counters + (place + 1) % 3 * cdigest_pairs,
           *third = counters + (place + 2) % 3 * cdigest_pairs;
  size_t pair = 0;
  for (; pair + 3 <= pairs; pair += 3, bytes += 6) {
    first[bytes[0] | bytes[1] << 8] += times;
    second[bytes[2] | bytes[3] << 8] += times;
    third[bytes[4] | bytes[5] << 8] += times;
  }
  if (pair < pairs) first[bytes[0] | bytes[1] << 8] += times;
  if (pair + 1 < pairs) second[bytes[2] | bytes[3] << 8] += times;
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

bool cdigest_has_lanes(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

// FIPS 180-4, 4.2.2.
static const uint32_t constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#define INLINED __attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline

// The state as the instructions want it, a b e f and c d g h from the highest word down, the 16 words of the message that are next, and the
// counters of the three pairs that are next.
struct reading {
  __m128i abef, cdgh, words[4];
  const uint8_t *next;
  uint32_t *counters[3];
};

INLINED struct reading load(const struct cdigest_lane *lane) {
  __m128i dcba = _mm_loadu_si128((const __m128i *)lane->state), hgfe = _mm_loadu_si128((const __m128i *)(lane->state + 4));
  __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  struct reading r = {.abef = _mm_alignr_epi8(cdab, efgh, 8), .cdgh = _mm_blend_epi16(efgh, cdab, 0xF0), .next = lane->next};
  for (unsigned i = 0; i < 3; i++) r.counters[i] = lane->counters ? lane->counters + (lane->place + i) % 3 * cdigest_pairs : NULL;
  return r;
}

INLINED void save(struct cdigest_lane *lane, struct reading r, size_t blocks) {
  __m128i feba = _mm_shuffle_epi32(r.abef, 0x1B), dchg = _mm_shuffle_epi32(r.cdgh, 0xB1);
  _mm_storeu_si128((__m128i *)lane->state, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128((__m128i *)(lane->state + 4), _mm_alignr_epi8(dchg, feba, 8));
  lane->next = r.next;
  lane->place = (unsigned)((lane->place + 32 % 3 * (blocks % 3)) % 3);
}

INLINED void begin(struct reading *r) {
  const __m128i reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (int i = 0; i < 4; i++) r->words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)r->next + i), reversed);
}

// Four rounds in two steps, so that those of two lanes alternate.
INLINED __m128i two_rounds(struct reading *r, int group) {
  __m128i sums = _mm_add_epi32(r->words[group % 4], _mm_load_si128((const __m128i *)constants + group));
  r->cdgh = _mm_sha256rnds2_epu32(r->cdgh, r->abef, sums);
  return _mm_shuffle_epi32(sums, 0x0E);
}

INLINED void two_more(struct reading *r, __m128i sums) { r->abef = _mm_sha256rnds2_epu32(r->abef, r->cdgh, sums); }

// The words that are 16 rounds later, in place of those of this group.
INLINED void schedule(struct reading *r, int group) {
  if (group >= 12) return;
  __m128i *w = r->words, last = w[(group + 3) % 4];
  __m128i sum = _mm_sha256msg1_epu32(w[group % 4], w[(group + 1) % 4]);
  w[group % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(sum, _mm_alignr_epi8(last, w[(group + 2) % 4], 4)), last);
}

// Counts four of the 64 bytes. Counting needs none of the units that the rounds wait for, so it takes hardly any time here.
INLINED void count(const struct reading *r, int group, uint32_t *const counters[3]) {
  for (int pair = 2 * group; pair < 2 * group + 2; pair++) {
    uint16_t value;
    memcpy(&value, r->next + 2 * pair, sizeof value);
    counters[pair % 3][value]++;
  }
}

INLINED void end(struct reading *r, __m128i abef, __m128i cdgh) {
  r->abef = _mm_add_epi32(r->abef, abef);
  r->cdgh = _mm_add_epi32(r->cdgh, cdgh);
  r->next += 64;
  uint32_t *first = r->counters[0];
  r->counters[0] = r->counters[32 % 3];
  r->counters[32 % 3] = r->counters[64 % 3];
  r->counters[64 % 3] = first;
}

INLINED void read_lanes(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks, bool counts_a, bool counts_b) {
  struct reading x = load(a), y = b ? load(b) : x;
  for (size_t block = 0; block < blocks; block++) {
    const struct reading before_x = x, before_y = y;
    begin(&x);
    if (b) begin(&y);
#pragma clang loop unroll(full)
    for (int group = 0; group < 16; group++) {
      __m128i sums_x = two_rounds(&x, group), sums_y = b ? two_rounds(&y, group) : sums_x;
      two_more(&x, sums_x);
      if (b) two_more(&y, sums_y);
      schedule(&x, group);
      if (b) schedule(&y, group);
      // Both by the counters of one, because there are no registers for those of two.
      if (counts_a) count(&x, group, x.counters);
      if (counts_b) count(&y, group, x.counters);
      // Keeps the order of the rounds, and the compiler from moving all counting to one place, where rounds would wait for it.
      __asm__ volatile("" : "+x"(x.abef), "+x"(y.abef) : : "memory");
    }
    end(&x, before_x.abef, before_x.cdgh);
    if (b) end(&y, before_y.abef, before_y.cdgh);
  }
  save(a, x, blocks);
  if (b) save(b, y, blocks);
}

#define COMPILED __attribute__((target("sha,sse4.1,ssse3"), noinline)) static void

COMPILED one(struct cdigest_lane *a, size_t blocks) { read_lanes(a, NULL, blocks, false, false); }
COMPILED one_counted(struct cdigest_lane *a, size_t blocks) { read_lanes(a, NULL, blocks, true, false); }
COMPILED two(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks) { read_lanes(a, b, blocks, false, false); }
COMPILED two_one_counted(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks) { read_lanes(a, b, blocks, true, false); }
COMPILED two_counted(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks) { read_lanes(a, b, blocks, true, true); }

void cdigest_read(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks) {
  if (!b) {
    (a->counters ? one_counted : one)(a, blocks);
  } else if (a->counters && a->counters == b->counters && a->place == b->place) {
    two_counted(a, b, blocks);
  } else if (a->counters && b->counters) {
    one_counted(a, blocks);
    one_counted(b, blocks);
  } else if (b->counters) {
    two_one_counted(b, a, blocks);
  } else {
    (a->counters ? two_one_counted : two)(a, b, blocks);
  }
}

#else

bool cdigest_has_lanes(void) { return false; }

void cdigest_read(struct cdigest_lane *a, struct cdigest_lane *b, size_t blocks) {
  (void)a, (void)b, (void)blocks;
  __builtin_trap();  // cdigest_has_lanes is asked first
}

#endif
