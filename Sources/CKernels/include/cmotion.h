#ifndef CMOTION_H
#define CMOTION_H

#include <stddef.h>
#include <stdint.h>

// A small luma: means of square cells of an image, at most 64 along either side, both sides whole numbers of blocks of 8.
enum { cmotion_side = 64, cmotion_block = 8, cmotion_blocks = 64 };

// Adds the luma of a line of RGB pixels to the sums of its columns.
void cmotion_add_line(const uint8_t *rgb, size_t width, uint16_t *sums);

// Writes the means of `cells` cells, whose first columns and the end are in `edges`, of sums of `lines` lines.
void cmotion_means(const uint16_t *sums, const uint32_t *edges, size_t cells, size_t lines, float *means);

// The bytes of an image that is prepared for pairs, which has the alignment of a float.
size_t cmotion_image_size(void);

// Prepares an image of `width` x `height` cells.
void cmotion_prepare(const float *cells, uint32_t width, uint32_t height, void *prepared);

// The focal lengths of images, and their principal point from the middle, in cells.
struct cmotion_lens {
  float across, down, x, y;
};

// Measures the motion from one image to another. Writes for each block, row by row, its shift in cells (all x, then all y) and the information
// of it, the inverse of its covariance (all xx, then all xy, then all yy).
void cmotion_pair(const void *first, const void *second, struct cmotion_lens lens, float *shifts);

// The motion of the camera from the first image of a pair to the second: the columns of the rotation, the translation in the axes of the second,
// the seconds since the pair before, and the number of the chunk of time that the pair is in.
struct cmotion_step {
  float right[3], below[3], ahead[3], moved[3], seconds;
  uint32_t chunk;
};

// Adds up how much the shifts of pairs surprise filters of the distance of each block's content, where the camera moves by `steps`: minus the
// logarithm of Student's t of the innovations, by chunk and block. `x` and `y` are the centers of the blocks, from the middle of the image.
// The squared innovations by pair and block are written to `innovations`, unless it is null. `blocks` is a multiple of 8, at most 64. The steps
// of each eight blocks are `apart` after those of the eight before: 0 for an image whose blocks were all read at once.
void cmotion_surprise(
    const struct cmotion_step *steps, size_t pairs, size_t apart, const float *shifts, const float *x, const float *y, size_t blocks, float focal,
    float trust, float *costs, float *innovations);

#endif
