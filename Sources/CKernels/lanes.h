#ifndef LANES_H
#define LANES_H

#include <stdint.h>
#include <string.h>

// Eight numbers at a time. Sums are of eight lanes in one order, so that all variants of a function give the same bits.
typedef float lanes __attribute__((vector_size(32)));
typedef int32_t flags __attribute__((vector_size(32)));

// Macros, because functions that take such vectors are called in other ways where processors have registers for them.
#define all(value) ((lanes){} + (value))
#define load(from) ({ lanes loaded; memcpy(&loaded, (from), sizeof loaded); loaded; })
#define store(to, value) ({ lanes stored = (value); memcpy((to), &stored, sizeof stored); })
#define sum(value) ({ lanes added = (value); ((added[0] + added[4]) + (added[2] + added[6])) + ((added[1] + added[5]) + (added[3] + added[7])); })
#define chosen(which, value) ((lanes)((which) & (flags)(value)))
#define magnitude(value) ((lanes)((flags)(value) & 0x7fffffff))

#endif
