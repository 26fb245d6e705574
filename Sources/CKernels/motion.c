#include "cmotion.h"

#include <math.h>

#include "lanes.h"
#include "luma.h"
#include "variants.h"

#pragma STDC FP_CONTRACT OFF

enum { margin = 8, pitch = cmotion_side + 2 * margin };

struct cmotion_image {
  uint32_t width, height;
  // With a margin, of which nothing is used, so that a shifted line of a block may reach into it.
  float full[pitch * pitch];
  // Gradients.
  float across[cmotion_side * cmotion_side], down[cmotion_side * cmotion_side];
  float half[cmotion_side * cmotion_side / 4], quarter[cmotion_side * cmotion_side / 16];
};

size_t cmotion_image_size(void) { return sizeof(struct cmotion_image); }

VARIANTS
void cmotion_add_line(const uint8_t *rgb, size_t width, uint16_t *sums) {
  for (size_t x = 0; x < width; x++) sums[x] += (uint16_t)luma_of(rgb[3 * x], rgb[3 * x + 1], rgb[3 * x + 2]);
}

void cmotion_means(const uint16_t *sums, const uint32_t *edges, size_t cells, size_t lines, float *means) {
  for (size_t cell = 0; cell < cells; cell++) {
    uint32_t total = 0;
    for (uint32_t x = edges[cell]; x < edges[cell + 1]; x++) total += sums[x];
    means[cell] = (float)total / (float)((edges[cell + 1] - edges[cell]) * lines);
  }
}

static float *cell(struct cmotion_image *image, int x, int y) {
  return image->full + (y + margin) * pitch + x + margin;
}

VARIANTS
void cmotion_prepare(const float *cells, uint32_t width, uint32_t height, void *prepared) {
  struct cmotion_image *image = prepared;
  int w = (int)width, h = (int)height;
  image->width = width;
  image->height = height;
  memset(image->full, 0, sizeof image->full);
  // Lanes reach beyond the end of what is written here, and nothing times no number is no number.
  memset(image->half, 0, sizeof image->half);
  memset(image->quarter, 0, sizeof image->quarter);
  float rows[cmotion_side * cmotion_side];
  for (int y = 0; y < h; y++) {
    const float *line = cells + y * w;
    for (int x = 0; x < w; x++) {
      float left = line[x > 0 ? x - 1 : 0], right = line[x < w - 1 ? x + 1 : w - 1];
      rows[y * w + x] = (left + 2 * line[x] + right) / 4;
    }
  }
  for (int y = 0; y < h; y++) {
    const float *above = rows + (y > 0 ? y - 1 : 0) * w, *line = rows + y * w, *below = rows + (y < h - 1 ? y + 1 : h - 1) * w;
    float *to = cell(image, 0, y);
    for (int x = 0; x < w; x++) to[x] = (above[x] + 2 * line[x] + below[x]) / 4;
  }
  for (int y = 0; y < h; y++) {
    const float *line = cell(image, 0, y);
    for (int x = 0; x < w; x++) {
      image->across[y * w + x] = x > 0 && x < w - 1 ? (line[x + 1] - line[x - 1]) / 2 : 0;
      image->down[y * w + x] = y > 0 && y < h - 1 ? (line[x + pitch] - line[x - pitch]) / 2 : 0;
    }
  }
  for (int y = 0; y < h / 2; y++) {
    const float *line = cell(image, 0, 2 * y);
    for (int x = 0; x < w / 2; x++)
      image->half[y * (w / 2) + x] = (line[2 * x] + line[2 * x + pitch] + line[2 * x + 1] + line[2 * x + 1 + pitch]) / 4;
  }
  for (int y = 0; y < h / 4; y++) {
    const float *line = image->half + 2 * y * (w / 2);
    for (int x = 0; x < w / 4; x++)
      image->quarter[y * (w / 4) + x] = (line[2 * x] + line[2 * x + w / 2] + line[2 * x + 1] + line[2 * x + 1 + w / 2]) / 4;
  }
}

// What maps the first image to the second: a rotation (radians, about x, y, z), and a change of light.
struct global {
  double rotation[3];
  double gain, bias;
};

// Solves five equations with a symmetric positive matrix, of which the lower half is given.
static void solve(double a[5][5], double b[5]) {
  for (int i = 0; i < 5; i++)
    for (int j = 0; j <= i; j++) {
      double rest = a[i][j];
      for (int k = 0; k < j; k++) rest -= a[i][k] * a[j][k];
      a[i][j] = i == j ? sqrt(rest > 1e-12 ? rest : 1e-12) : rest / a[j][j];
    }
  for (int i = 0; i < 5; i++) {
    for (int k = 0; k < i; k++) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (int i = 4; i >= 0; i--) {
    for (int k = i + 1; k < 5; k++) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
}

static double within(double value, double low, double high) { return value < low ? low : value > high ? high : value; }

static const lanes steps = {0, 1, 2, 3, 4, 5, 6, 7};

// Pixels of the half or quarter size that are used, eight at a time, and what does not change from iteration to iteration.
struct pixels {
  lanes x, y, basis[3][2], slopes[3], first, weight;
};

// Refines the rotation at one size by some iterations.
static inline __attribute__((always_inline)) void refine(const float *first, const float *second, int w, int h, int size, int iterations, const struct cmotion_lens *lens, struct global *found) {
  enum { most = cmotion_side * cmotion_side / 4 / 8 + cmotion_side };
  struct pixels groups[most];
  int count = 0;
  float fx = lens->across / size, fy = lens->down / size, cx = (w - 1) / 2.0f + lens->x / size, cy = (h - 1) / 2.0f + lens->y / size;
  for (int y = 1; y < h - 1; y++)
    for (int start = 0; start < w; start += 8) {
      struct pixels *group = groups + count++;
      const float *at = first + y * w + start;
      lanes x = steps + (float)start, across = (load(at + 1) - load(at - 1)) / 2, down = (load(at + w) - load(at - w)) / 2;
      lanes right = (x - cx) / fx, below = all((y - cy) / fy);
      lanes change = load(second + y * w + start) - load(at), still = change * change + 0.25f, edges = across * across + down * down;
      group->x = x;
      group->y = all((float)y);
      group->basis[0][0] = fx * right * below;
      group->basis[0][1] = fy * (1 + below * below);
      group->basis[1][0] = -fx * (1 + right * right);
      group->basis[1][1] = -fy * right * below;
      group->basis[2][0] = fx * below;
      group->basis[2][1] = -fy * right;
      for (int k = 0; k < 3; k++) group->slopes[k] = across * group->basis[k][0] + down * group->basis[k][1];
      group->first = load(at);
      // Pixels that do not move (parts of a robot, marks) and strong edges count less.
      group->weight = chosen((x >= 1) & (x <= (float)(w - 2)), still / (still + 0.04f * edges) / (1 + edges / 25));
    }
  float scale = -1;
  for (int iteration = 0; iteration < iterations; iteration++) {
    lanes a[5][5], b[5];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    // All residuals are needed for the first scale.
    lanes warped[most], inside[most];
    lanes total = all(0), counted = all(0);
    float q0 = (float)found->rotation[0], q1 = (float)found->rotation[1], q2 = (float)found->rotation[2];
    float gain = (float)found->gain, bias = (float)found->bias;
    for (int n = 0; n < count; n++) {
      struct pixels *group = groups + n;
      lanes u = group->x + q0 * group->basis[0][0] + q1 * group->basis[1][0] + q2 * group->basis[2][0];
      lanes v = group->y + q0 * group->basis[0][1] + q1 * group->basis[1][1] + q2 * group->basis[2][1];
      flags ok = (u >= 0) & (u <= (float)(w - 1)) & (v >= 0) & (v <= (float)(h - 1)) & (group->weight > 0);
      u = chosen(ok, u);
      v = chosen(ok, v);
      flags left = __builtin_convertvector(u, flags), top = __builtin_convertvector(v, flags);
      left = __builtin_elementwise_min(left, (flags){} + (w - 2));
      top = __builtin_elementwise_min(top, (flags){} + (h - 2));
      lanes fx = u - __builtin_convertvector(left, lanes), fy = v - __builtin_convertvector(top, lanes);
      lanes p00, p01, p10, p11;
      for (int i = 0; i < 8; i++) {
        const float *from = second + top[i] * w + left[i];
        p00[i] = from[0];
        p01[i] = from[1];
        p10[i] = from[w];
        p11[i] = from[w + 1];
      }
      warped[n] = (p00 * (1 - fx) + p01 * fx) * (1 - fy) + (p10 * (1 - fx) + p11 * fx) * fy;
      inside[n] = chosen(ok, all(1));
      if (scale < 0) {
        total += chosen(ok, magnitude(group->first - gain * warped[n] - bias));
        counted += inside[n];
      }
    }
    if (scale < 0) {
      float pixels = sum(counted);
      scale = sum(total) / (pixels > 1 ? pixels : 1) + 0.5f;
    }
    lanes weights = all(0), spread = all(0);
    for (int n = 0; n < count; n++) {
      struct pixels *group = groups + n;
      lanes rest = group->first - gain * warped[n] - bias, far = rest / (1.5f * scale), near = 1 + far * far;
      lanes weight = group->weight * inside[n] / (near * near);
      weights += weight;
      spread += weight * magnitude(rest);
      lanes terms[5] = {group->slopes[0], group->slopes[1], group->slopes[2], warped[n], all(1)};
      for (int i = 0; i < 5; i++) {
        lanes weighted = weight * terms[i];
        b[i] += weighted * rest;
        for (int j = 0; j <= i; j++) a[i][j] += weighted * terms[j];
      }
    }
    float heavy = sum(weights);
    scale = sum(spread) / (heavy > 1e-9f ? heavy : 1e-9f) + 0.5f;
    double matrix[5][5], right[5];
    static const double ridge[5] = {1e-4 * 48 * 48, 1e-4 * 48 * 48, 1e-4 * 48 * 48, 10, 1e-3};
    for (int i = 0; i < 5; i++) {
      right[i] = sum(b[i]);
      for (int j = 0; j <= i; j++) matrix[i][j] = sum(a[i][j]) + (i == j ? ridge[i] : 0);
    }
    solve(matrix, right);
    for (int k = 0; k < 3; k++) found->rotation[k] = within(found->rotation[k] + right[k], -0.3, 0.3);
    found->gain = within(found->gain + right[3], 0.3, 3);
    found->bias += right[4];
  }
}

VARIANTS
void cmotion_pair(const void *first, const void *second, struct cmotion_lens lens, float *shifts) {
  const struct cmotion_image *a = first, *b = second;
  int w = (int)a->width, h = (int)a->height, blocks = w / cmotion_block * (h / cmotion_block);
  struct global found = {.gain = 1};
  refine(a->quarter, b->quarter, w / 4, h / 4, 4, 4, &lens, &found);
  refine(a->half, b->half, w / 2, h / 2, 2, 2, &lens, &found);
  float gain = (float)found.gain, bias = (float)found.bias;
  for (int row = 0; row < h / cmotion_block; row++)
    for (int column = 0; column < w / cmotion_block; column++) {
      int left = column * cmotion_block, top = row * cmotion_block;
      float right = (left + 3.5f - (w - 1) / 2.0f - lens.x) / lens.across, below = (top + 3.5f - (h - 1) / 2.0f - lens.y) / lens.down;
      float q0 = (float)found.rotation[0], q1 = (float)found.rotation[1], q2 = (float)found.rotation[2];
      float flow_x = lens.across * (q0 * right * below - q1 * (1 + right * right) + q2 * below);
      float flow_y = lens.down * (q0 * (1 + below * below) - q1 * right * below - q2 * right);
      float dx = flow_x, dy = flow_y, ux = 0, uy = 0;
      float count = 0, xx = 0, xy = 0, yy = 0, xr = 0, yr = 0, rr = 0;
      for (int iteration = 0; iteration < 2; iteration++) {
        int ix = (int)floorf(dx), iy = (int)floorf(dy);
        float fx = dx - ix, fy = dy - iy;
        lanes s1 = all(0), sx = s1, sy = s1, sr = s1, sxx = s1, sxy = s1, syy = s1, sxr = s1, syr = s1, srr = s1;
        if (left + ix > -margin && left + ix < w && top + iy > -margin && top + iy < h) {
          lanes x = steps + (float)left, u = x + dx;
          flags used = (x >= 1) & (x <= (float)(w - 2)) & (u >= 0) & (u <= (float)(w - 1));
          for (int y = top; y < top + cmotion_block; y++) {
            float v = y + dy;
            if (y < 1 || y > h - 2 || v < 0 || v > h - 1) continue;
            const float *to = b->full + (y + iy + margin) * pitch + left + ix + margin;
            lanes warped = (load(to) * (1 - fx) + load(to + 1) * fx) * (1 - fy)
                + (load(to + pitch) * (1 - fx) + load(to + pitch + 1) * fx) * fy;
            const float *from = a->full + (y + margin) * pitch + left + margin;
            lanes rest = chosen(used, load(from) - gain * warped - bias);
            lanes gx = chosen(used, load(a->across + y * w + left)), gy = chosen(used, load(a->down + y * w + left));
            s1 += chosen(used, all(1));
            sx += gx;
            sy += gy;
            sr += rest;
            sxx += gx * gx;
            sxy += gx * gy;
            syy += gy * gy;
            sxr += gx * rest;
            syr += gy * rest;
            srr += rest * rest;
          }
        }
        count = sum(s1);
        if (count < 1) count = 1;
        float mx = sum(sx) / count, my = sum(sy) / count, mr = sum(sr) / count;
        xx = sum(sxx) - count * mx * mx;
        xy = sum(sxy) - count * mx * my;
        yy = sum(syy) - count * my * my;
        xr = sum(sxr) - count * mx * mr;
        yr = sum(syr) - count * my * mr;
        rr = sum(srr) - count * mr * mr;
        float ridge = 4 + 0.01f * (xx + yy), det = (xx + ridge) * (yy + ridge) - xy * xy;
        ux = ((yy + ridge) * xr - xy * yr) / det;
        uy = ((xx + ridge) * yr - xy * xr) / det;
        float length = sqrtf(ux * ux + uy * uy) / 1.5f;
        if (length > 1) {
          ux /= length;
          uy /= length;
        }
        dx += ux;
        dy += uy;
      }
      float rest = rr - (ux * xr + uy * yr), freedom = count - 3 > 1 ? count - 3 : 1;
      float variance = 0.4f + (rest > 0 ? rest : 0) / freedom, own = 0.03f * 0.03f;
      float p = variance + own * xx, q = own * xy, r = variance + own * yy, det = p * r - q * q;
      float known = count >= 0.6f * cmotion_block * cmotion_block;
      float *to = shifts + row * (w / cmotion_block) + column;
      to[0] = dx;
      to[blocks] = dy;
      to[2 * blocks] = known * (r * xx - q * xy) / det;
      to[3 * blocks] = known * (r * xy - q * yy) / det;
      to[4 * blocks] = known * (p * yy - q * xy) / det;
    }
}
