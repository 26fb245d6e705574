#ifndef VARIANTS_H
#define VARIANTS_H

// Compiles a function for several processor generations, of which the loader selects one. Swift cannot do this for a single function.
// The loader selects before the thread sanitizer is ready, which its code in the selecting function would crash on.
#if defined(__x86_64__) && defined(__GLIBC__) && !__has_feature(thread_sanitizer)
#define VARIANTS __attribute__((target_clones("avx512bw,avx2,default")))
#else
#define VARIANTS
#endif

#endif
