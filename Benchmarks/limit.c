// The minimal cost of sessions: their codecs, and the digests of a Takeset dataset, in a tight loop over bytes in memory.
//
//     cc -O3 -march=native -o limit limit.c -lturbojpeg -ldeflate -lcrypto -lpthread -lm
//     ./limit THREADS LEVEL IMAGE-LEVEL WIDTH HEIGHT SESSION...
//
// A session has rgb/*.jpg and may have depth/*.bin of 256x192 float32. Images are decoded to WIDTH x HEIGHT as Takeset does, with the
// smallest reduced size that covers it and a triangle filter, and deflated when IMAGE-LEVEL is not 0. Depth maps are shuffled and
// deflated once each, with their masks. There is one digest of each input file, each image, each depth map and each mask. Prints JSON:
// CPU and wall seconds of the codecs alone, and of codecs and digests; maps deflated, and bytes that would be stored. Writes no files.

#include <dirent.h>
#include <libdeflate.h>
#include <math.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <turbojpeg.h>

enum { DEPTH_WIDTH = 256, DEPTH_HEIGHT = 192, PIXELS = DEPTH_WIDTH * DEPTH_HEIGHT };

typedef struct {
  unsigned char *bytes;
  size_t count;
} Blob;

static Blob *images, *maps;
static int *map_of;  // map of each image, -1 for none
static int image_count, map_count, level, image_level, with_digests, width, height;
static atomic_int next_frame, packed_maps;
static atomic_long stored_bytes;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

// Appends the files of a folder, in the order of their names.
static void load(const char *session, const char *kind, Blob **blobs, int *total) {
  char folder[2048];
  snprintf(folder, sizeof folder, "%s/%s", session, kind);
  DIR *directory = opendir(folder);
  if (!directory) return;
  char **names = NULL;
  int count = 0;
  struct dirent *entry;
  while ((entry = readdir(directory))) {
    if (entry->d_name[0] == '.') continue;
    names = realloc(names, sizeof(char *) * (count + 1));
    names[count++] = strdup(entry->d_name);
  }
  closedir(directory);
  qsort(names, count, sizeof(char *), by_name);
  *blobs = realloc(*blobs, sizeof(Blob) * (*total + count));
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    Blob *blob = &(*blobs)[(*total)++];
    FILE *file = fopen(path, "rb");
    if (!file) exit(1);
    fseek(file, 0, SEEK_END);
    blob->count = ftell(file);
    rewind(file);
    blob->bytes = malloc(blob->count);
    if (fread(blob->bytes, 1, blob->count, file) != blob->count) exit(1);
    fclose(file);
  }
}

static void load_session(const char *session) {
  int first_image = image_count, first_map = map_count;
  load(session, "rgb", &images, &image_count);
  load(session, "depth", &maps, &map_count);
  int fresh = map_count - first_map;
  for (int i = first_map; i < map_count; i++)
    if (maps[i].count != PIXELS * 4) exit(1);
  map_of = realloc(map_of, sizeof(int) * image_count);
  // Maps are spread evenly over the images.
  for (int i = first_image; i < image_count; i++)
    map_of[i] = fresh ? first_map + (int)((long)(i - first_image) * fresh / (image_count - first_image)) : -1;
}

typedef struct {
  int count, *first;
  float *weights;
} Taps;

static Taps taps_for(int from, int to) {
  double scale = (double)from / to, support = scale > 1 ? scale : 1;
  Taps taps = {.count = (int)ceil(2 * support) + 1};
  taps.first = malloc(sizeof(int) * to);
  taps.weights = calloc(to * taps.count, sizeof(float));
  for (int i = 0; i < to; i++) {
    double center = (i + 0.5) * scale, sum = 0;
    int low = (int)floor(center - support + 0.5);
    if (low < 0) low = 0;
    if (low > from - taps.count) low = from - taps.count;
    taps.first[i] = low;
    for (int k = 0; k < taps.count; k++) {
      double weight = 1 - fabs(low + k + 0.5 - center) / support;
      taps.weights[i * taps.count + k] = weight > 0 ? weight : 0;
      sum += weight > 0 ? weight : 0;
    }
    for (int k = 0; k < taps.count; k++) taps.weights[i * taps.count + k] /= sum;
  }
  return taps;
}

static void resize(const unsigned char *in, int in_width, Taps rows, Taps columns, float *line, unsigned char *out) {
  enum { BLOCK = 64 };  // sums that stay in registers
  int stride = in_width * 3;
  for (int y = 0; y < height; y++) {
    const unsigned char *first = in + (size_t)rows.first[y] * stride;
    const float *weights = rows.weights + y * rows.count;
    for (int x = 0; x < stride; x += BLOCK) {
      float sums[BLOCK] = {0};
      int count = stride - x < BLOCK ? stride - x : BLOCK;
      for (int k = 0; k < rows.count; k++) {
        const unsigned char *row = first + (size_t)k * stride + x;
        if (count == BLOCK)
          for (int i = 0; i < BLOCK; i++) sums[i] += weights[k] * row[i];
        else
          for (int i = 0; i < count; i++) sums[i] += weights[k] * row[i];
      }
      memcpy(line + x, sums, sizeof(float) * count);
    }
    for (int x = 0; x < width; x++) {
      float r = 0.5f, g = 0.5f, b = 0.5f;
      const float *pixel = line + columns.first[x] * 3, *weight = columns.weights + x * columns.count;
      for (int k = 0; k < columns.count; k++, pixel += 3) r += weight[k] * pixel[0], g += weight[k] * pixel[1], b += weight[k] * pixel[2];
      unsigned char *target = out + (y * width + x) * 3;
      target[0] = r, target[1] = g, target[2] = b;
    }
  }
}

// Deflates unless the level is 0; returns the bytes to store, in `out` or unchanged.
static Blob pack(struct libdeflate_compressor *compressor, unsigned char *in, size_t count, unsigned char *out, size_t space) {
  if (!compressor) return (Blob){in, count};
  return (Blob){out, libdeflate_zlib_compress(compressor, in, count, out, space)};
}

static void digest(EVP_MD_CTX *context, const void *bytes, size_t count) {
  unsigned char result[EVP_MAX_MD_SIZE];
  if (!with_digests) return;
  if (!EVP_DigestInit_ex(context, NULL, NULL) || !EVP_DigestUpdate(context, bytes, count) || !EVP_DigestFinal_ex(context, result, NULL)) exit(1);
}

// First image of a block of adjacent images, so that images that share a map are in one thread.
static int start_of_block(int image) {
  while (image > 0 && image < image_count && map_of[image] >= 0 && map_of[image] == map_of[image - 1]) image++;
  return image < image_count ? image : image_count;
}

static void *work(void *argument) {
  (void)argument;
  tjhandle decoder = tjInitDecompress();
  struct libdeflate_compressor *compressor = level ? libdeflate_alloc_compressor(level) : NULL;
  struct libdeflate_compressor *image_compressor = image_level ? libdeflate_alloc_compressor(image_level) : NULL;
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, EVP_sha256(), NULL);
  size_t image_bytes = (size_t)width * height * 3;
  unsigned char *full = malloc(8192 * 8192), *image = malloc(image_bytes), *shuffled = malloc(PIXELS * 4), *mask = malloc(PIXELS);
  unsigned char *packed_space = malloc(PIXELS * 5), *mask_space = malloc(PIXELS * 2), *image_space = malloc(image_bytes * 2);
  float *line = malloc(sizeof(float) * 8192 * 3);
  Blob packed = {0}, packed_mask = {0};
  int last_width = 0, last_map = -1, frame;
  Taps rows = {0}, columns = {0};
  while ((frame = atomic_fetch_add(&next_frame, 5)) < image_count) {
    for (int i = start_of_block(frame), end = start_of_block(frame + 5); i < end; i++) {
      int w, h, subsampling, colors, reduction = 8;
      if (tjDecompressHeader3(decoder, images[i].bytes, images[i].count, &w, &h, &subsampling, &colors)) exit(1);
      while (reduction > 1 && ((w + reduction - 1) / reduction < width || (h + reduction - 1) / reduction < height)) reduction /= 2;
      int small_width = (w + reduction - 1) / reduction, small_height = (h + reduction - 1) / reduction, is_whole = small_width == width;
      unsigned char *target = is_whole ? image : full;
      if (tjDecompress2(decoder, images[i].bytes, images[i].count, target, small_width, 0, small_height, TJPF_RGB, 0)) exit(1);
      if (!is_whole) {
        if (last_width != small_width) rows = taps_for(small_height, height), columns = taps_for(last_width = small_width, width);
        resize(full, small_width, rows, columns, line, image);
      }
      Blob packed_image = pack(image_compressor, image, image_bytes, image_space, image_bytes * 2);
      stored_bytes += packed_image.count;
      digest(context, images[i].bytes, images[i].count);
      digest(context, image, image_bytes);
      if (map_of[i] < 0) continue;
      Blob map = maps[map_of[i]];
      if (map_of[i] != last_map) {
        last_map = map_of[i];
        packed_maps++;
        const float *meters = (const float *)map.bytes;
        for (int k = 0; k < PIXELS; k++) mask[k] = meters[k] > 0;
        for (int plane = 0; plane < 4; plane++)
          for (int k = 0; k < PIXELS; k++) shuffled[plane * PIXELS + k] = map.bytes[k * 4 + plane];
        packed = pack(compressor, shuffled, PIXELS * 4, packed_space, PIXELS * 5);
        packed_mask = pack(compressor, mask, PIXELS, mask_space, PIXELS * 2);
        digest(context, map.bytes, map.count);  // of the input,
        digest(context, map.bytes, map.count);  // and of the row that it becomes
        digest(context, mask, PIXELS);
      }
      stored_bytes += packed.count + packed_mask.count;
    }
  }
  return NULL;
}

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec * 1e-6; }

static void measure(const char *name, int threads, int digests) {
  struct rusage before, after;
  struct timespec start, end;
  with_digests = digests;
  next_frame = packed_maps = 0;
  stored_bytes = 0;
  getrusage(RUSAGE_SELF, &before);
  clock_gettime(CLOCK_MONOTONIC, &start);
  pthread_t workers[64];
  for (int i = 0; i < threads; i++) pthread_create(&workers[i], NULL, work, NULL);
  for (int i = 0; i < threads; i++) pthread_join(workers[i], NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  getrusage(RUSAGE_SELF, &after);
  double cpu = seconds(after.ru_utime) - seconds(before.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_stime);
  double wall = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) * 1e-9;
  printf("\"%s_cpu_seconds\": %.4f, \"%s_wall_seconds\": %.4f", name, cpu, name, wall);
}

int main(int count, char **arguments) {
  if (count < 7) return 64;
  int threads = atoi(arguments[1]);
  level = atoi(arguments[2]);
  image_level = atoi(arguments[3]);
  width = atoi(arguments[4]);
  height = atoi(arguments[5]);
  for (int i = 6; i < count; i++) load_session(arguments[i]);
  if (threads < 1 || threads > 64 || width < 1 || height < 1 || image_count == 0) return 64;
  printf("{\"frames\": %d, ", image_count);
  measure("codec", threads, 0);
  printf(", ");
  measure("floor", threads, 1);
  printf(", \"maps\": %d, \"stored_bytes\": %ld}\n", (int)packed_maps, (long)stored_bytes);
  return 0;
}
