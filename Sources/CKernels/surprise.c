#include "cmotion.h"

#include "lanes.h"
#include "variants.h"

#pragma STDC FP_CONTRACT OFF

// The natural logarithm of numbers of at least 1, by a series of the atanh of the fraction: within a millionth.
#define logarithm(value) ({ \
  flags bits = (flags)(value), exponent = (bits >> 23) - 127; \
  lanes part = (lanes)((bits & 0x7fffff) | 0x3f800000); \
  flags high = part > 1.41421356f; \
  part = (lanes)((high & (flags)(part * 0.5f)) | (~high & (flags)part)); \
  exponent -= high; \
  lanes t = (part - 1) / (part + 1), s = t * t; \
  2 * t * (1 + s * (1 / 3.0f + s * (1 / 5.0f + s * (1 / 7.0f + s * (1 / 9.0f))))) \
      + __builtin_convertvector(exponent, lanes) * 0.69314718f; \
})

VARIANTS
void cmotion_surprise(
    const struct cmotion_step *steps, size_t pairs, size_t apart, const float *shifts, const float *x, const float *y, size_t blocks, float focal,
    float trust, float *costs, float *innovations) {
  // Of the inverse distance in 1/m: what is expected, its variance, and by how much that grows in a second.
  const float expected = 0.4f, widest = 0.25f, growth = 0.1225f;
  // Degrees of freedom of Student's t.
  const float freedom = 3;
  enum { most = cmotion_blocks / 8 };
  lanes mean[most], variance[most];
  for (size_t g = 0; g < most; g++) {
    mean[g] = all(expected);
    variance[g] = all(widest);
  }
  for (size_t pair = 0; pair < pairs; pair++) {
    for (size_t g = 0; g < blocks / 8 && g < most; g++) {
      struct cmotion_step step = steps[pair + g * apart];
      lanes cx = load(x + 8 * g), cy = load(y + 8 * g), rx = cx / focal, ry = cy / focal;
      // The direction of the center in the axes of the second image. From it follows what turning shifts; moving shifts in proportion to
      // the inverse distance.
      lanes w = step.ahead[0] * rx + step.ahead[1] * ry + step.ahead[2];
      lanes fx = (step.right[0] * rx + step.right[1] * ry + step.right[2]) / w;
      lanes fy = (step.below[0] * rx + step.below[1] * ry + step.below[2]) / w;
      lanes mx = focal * (fx * step.moved[2] - step.moved[0]) / w, my = focal * (fy * step.moved[2] - step.moved[1]) / w;
      const float *from = shifts + pair * 5 * blocks + 8 * g;
      lanes xx = load(from + 2 * blocks) * trust, xy = load(from + 3 * blocks) * trust, yy = load(from + 4 * blocks) * trust;
      lanes known = __builtin_elementwise_min(variance[g] + growth * step.seconds, all(widest));
      lanes ex = load(from) - (focal * fx - cx) - mean[g] * mx, ey = load(from + blocks) - (focal * fy - cy) - mean[g] * my;
      lanes gx = xx * mx + xy * my, gy = xy * mx + yy * my;
      lanes gain = gx * ex + gy * ey, seen = gx * mx + gy * my, spread = 1 + known * seen;
      lanes squared = xx * ex * ex + 2 * xy * ex * ey + yy * ey * ey - known * gain * gain / spread;
      squared = __builtin_elementwise_max(squared, all(0));
      lanes cost = (freedom + 2) / 2 * logarithm(1 + squared / freedom) + 0.5f * logarithm(spread);
      float *to = costs + step.chunk * blocks + 8 * g;
      store(to, load(to) + cost);
      if (innovations) store(innovations + pair * blocks + 8 * g, squared);
      lanes weight = (freedom + 2) / (freedom + squared), narrowed = known / (1 + known * weight * seen);
      mean[g] += narrowed * weight * gain;
      variance[g] = narrowed;
    }
  }
}
