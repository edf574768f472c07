/* SPDX-License-Identifier: MIT
 * tg: kernels written in C. The library's surface: context, kernel, launch, errors.
 *
 * No call prints, exits or aborts. A context owns all state; two contexts never touch each other.
 */
#ifndef TG_TG_H
#define TG_TG_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

typedef enum tg_status {
  TG_OK = 0,
  TG_EINVAL,    /* a kernel, a schedule or an argument is wrong: the message says where and why */
  TG_ENOMEM,    /* out of memory */
  TG_EIO,       /* a file or a device could not be used */
  TG_ELIMIT,    /* a stated limit of tg or of the target was passed */
  TG_EBACKEND,  /* LLVM reported an error */
  TG_INTERNAL   /* a bug in tg */
} tg_status;

/* Element types. TG_INDEX is the unbounded integer of subscripts and extents; it has no storage. */
typedef enum tg_type {
  TG_VOID = 0, TG_BOOL,
  TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64,
  TG_F16, TG_BF16, TG_F32, TG_F64,
  TG_E4M3, TG_E5M2,   /* 8-bit floats: storage only */
  TG_INDEX,
  TG_TYPE__COUNT
} tg_type;

/* Memory for everything the library keeps. alloc returns 16-aligned memory or NULL; free gets the size back. */
typedef struct tg_allocator {
  void *(*alloc)(void *user, size_t bytes);
  void (*free)(void *user, void *p, size_t bytes);
  void *user;
} tg_allocator;

#ifdef __cplusplus
}
#endif
#endif
