// One loop body, compiled for three instruction sets and chosen at run time.
//
// A kernel writes `struct Body { static inline void run(...) }` with FABRIC_INLINE and calls
// `by_cpu<Body>(cpu, ...)`. The body is inlined into a function of each target, so the compiler
// vectorises it for each; all of them run the same arithmetic and give the same bytes.
#pragma once
#include <cstdint>

#define FABRIC_INLINE __attribute__((always_inline)) inline
#define FABRIC_LAMBDA __attribute__((always_inline))

#if defined(__x86_64__)  // AVX-512 as of Ice Lake and Zen 4
#define FABRIC_AVX512_TARGET "arch=x86-64-v4,avx512vbmi2,avx512vpopcntdq"
#define FABRIC_AVX512 __attribute__((target(FABRIC_AVX512_TARGET)))
#define FABRIC_AVX512_INLINE FABRIC_AVX512 __attribute__((always_inline)) static inline
#endif

namespace fabric {

enum Cpu : int { CPU_SCALAR = 0, CPU_AVX2 = 1, CPU_AVX512 = 2 };

template <class Body, class... Arguments>
void run_scalar(Arguments... arguments) { Body::run(arguments...); }

#if defined(__x86_64__)
template <class Body, class... Arguments>
__attribute__((target("arch=x86-64-v3"))) void run_avx2(Arguments... arguments) {
  Body::run(arguments...);
}

template <class Body, class... Arguments>
__attribute__((target(FABRIC_AVX512_TARGET ",prefer-vector-width=512")))
void run_avx512(Arguments... arguments) {
  Body::run(arguments...);
}

inline int best_cpu() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vbmi2") &&
      __builtin_cpu_supports("avx512vpopcntdq")) {
    return CPU_AVX512;
  }
  return __builtin_cpu_supports("x86-64-v3") ? CPU_AVX2 : CPU_SCALAR;
}
#else
inline int best_cpu() { return CPU_SCALAR; }
#endif

template <class Body, class... Arguments>
inline void by_cpu(int cpu, Arguments... arguments) {
#if defined(__x86_64__)
  if (cpu == CPU_AVX512) return run_avx512<Body, Arguments...>(arguments...);
  if (cpu == CPU_AVX2) return run_avx2<Body, Arguments...>(arguments...);
#endif
  run_scalar<Body, Arguments...>(arguments...);
}

}  // namespace fabric
