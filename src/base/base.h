/* SPDX-License-Identifier: MIT
 * Foundation of all other folders: the environment of a job (memory, first error, trap), strings, arrays, hashing.
 *
 * A job owns one tg_env. Its memory is an arena: nothing is freed before the job ends. A failure anywhere
 * below an entry point calls tg_fail, which records the first error and unwinds to the tg_protect around
 * the entry point; so code below never tests for NULL. No C++ frame may lie between the two.
 */
#ifndef TG_BASE_H
#define TG_BASE_H
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "tg/tg.h"

#define TG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TG_NORETURN __attribute__((noreturn))
#define TG_COUNT(a) (sizeof(a) / sizeof *(a))

typedef __int128 tg_i128;

/* malloc and free as a tg_allocator. (In an env no member of the allocator is NULL.) */
tg_allocator tg_allocator_default(void);

typedef struct tg_arena_block tg_arena_block;
typedef struct { tg_arena_block *blocks; char *at, *end; size_t total; } tg_arena;

/* A free list of arena blocks: blocks of finished arenas are kept for later ones, since fresh memory costs a page fault
 * for every 4 KiB. Shared by threads. */
enum { TG_BLOCK_SIZES = 9 };
typedef struct {
  tg_allocator allocator;
  pthread_mutex_t lock;
  tg_arena_block *kept[TG_BLOCK_SIZES];
  size_t bytes;               /* total size of the blocks in kept; bounded */
} tg_blocks;
void tg_blocks_init(tg_blocks *b, const tg_allocator *a);   /* a NULL: malloc */
void tg_blocks_drop(tg_blocks *b);                          /* drop the environments that use it first */

typedef struct tg_env {
  tg_allocator allocator;
  tg_blocks *blocks;        /* free list, of the same allocator; set after tg_env_init. NULL: none */
  tg_arena arena;
  jmp_buf *trap;            /* innermost tg_protect; NULL only outside of one */
  tg_status status;         /* the first error, kept */
  struct tg_errand *errand; /* the call of tg_on_own_stack that this thread is for; NULL: none */
  char message[4096];       /* its text, "file:line:col: error: ..." with source line and caret where known */
} tg_env;

void tg_env_init(tg_env *e, const tg_allocator *a);   /* a NULL: malloc */
void tg_env_drop(tg_env *e);                          /* frees the arena; status and message stay readable */

/* Runs fn(arg); false if it failed (status and message are set). Nests. */
bool tg_protect(tg_env *e, void (*fn)(void *), void *arg);
/* Runs fn(arg) on a new thread with a stack of 8 MiB and waits for it; if it fails, unwinds the caller. */
void tg_on_own_stack(tg_env *e, void (*fn)(void *), void *arg);
void tg_run_on_own_stack(void (*fn)(void *), void *arg);   /* likewise, for an fn that never calls tg_fail */
/* Runs fn(arg), which never calls tg_fail, on the thread that called tg: the one that waits in the outermost
 * tg_on_own_stack of the env. It may be inside dlopen, and hold the system loader's lock, for which a library that
 * another thread opens would wait for ever. */
void tg_on_callers_stack(tg_env *e, void (*fn)(void *), void *arg);
/* The library `file` from the folder of the library or program that has the address in it, else from where the system
 * looks; NULL: dlerror says why not. */
void *tg_open_beside(const void *address, const char *file);
/* Records the error if it is the first, and unwinds. */
TG_NORETURN void tg_fail(tg_env *e, tg_status s, const char *format, ...) TG_PRINTF(3, 4);
TG_NORETURN void tg_failv(tg_env *e, tg_status s, const char *format, va_list);
/* Reports a bug of tg itself, as "internal error: ...". Never for mistakes in the author's program. */
#define tg_bug(e, ...) tg_fail((e), TG_INTERNAL, __VA_ARGS__)
#define tg_assert(e, c) ((c) ? (void)0 : tg_bug((e), "%s:%d: %s", __FILE__, __LINE__, #c))

/* Zeroed, 16-aligned memory of the job. Never NULL. */
void *tg_alloc(tg_env *e, size_t bytes);
#define tg_new(e, T, n) ((T *)tg_alloc((e), sizeof(T) * (size_t)(n)))
char *tg_strdup(tg_env *e, const char *s);
char *tg_strndup(tg_env *e, const char *s, size_t n);
char *tg_format(tg_env *e, const char *format, ...) TG_PRINTF(2, 3);

/* A position in the arena: releasing it frees everything allocated since. For scratch memory of a pass. */
typedef struct { tg_arena_block *block; char *at; } tg_mark;
tg_mark tg_mark_get(tg_env *e);
void tg_mark_release(tg_env *e, tg_mark m);

/* Growable array: struct { T *data; uint32_t n, cap; }, doubled in the arena. */
#define TG_VEC(T) struct { T *data; uint32_t n, cap; }
#define tg_push(e, v, x)                                                                              \
  do {                                                                                                \
    if ((v)->n == (v)->cap) (v)->data = tg_grow_((e), (v)->data, (v)->n, &(v)->cap, sizeof *(v)->data); \
    (v)->data[(v)->n++] = (x);                                                                        \
  } while (0)
void *tg_grow_(tg_env *e, void *data, uint32_t n, uint32_t *cap, size_t size);

/* Growable text in the arena; always NUL-terminated. */
typedef struct { tg_env *env; char *data; size_t n, cap; } tg_str;
tg_str tg_str_new(tg_env *e);
void tg_str_put(tg_str *s, const char *bytes, size_t n);
void tg_str_puts(tg_str *s, const char *text);
void tg_str_printf(tg_str *s, const char *format, ...) TG_PRINTF(2, 3);

/* number.c: numbers in the C locale, for text that tg reads back. printf and strtod would obey the locale of the
 * process, which may have a decimal comma. */
double tg_read_double(const char *text, char **end);                        /* as strtod */
int tg_print_double(char *out, size_t bytes, int digits, double v);         /* as "%.*g" */
void tg_str_vprintf(tg_str *s, const char *format, va_list);

/* xxHash, XXH3. The 128-bit form is for keys that are stored in files. */
uint64_t tg_hash(const void *data, size_t n, uint64_t seed);
typedef struct { uint64_t lo, hi; } tg_hash128;
tg_hash128 tg_hash_wide(const void *data, size_t n);
static inline uint64_t tg_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

/* sized.c. Reads a struct of a public header that has `bytes` bytes in the program; fields that are missing are 0, and
 * given NULL is all 0. Returns NULL, or an error text (written to out): a field is set that this library does not
 * know. Write: what the program knows of it, and zeros behind. */
const char *tg_sized_read(const char *type, void *own, size_t own_bytes, const void *given, size_t bytes, char *out,
                          size_t n);
void tg_sized_write(void *to, size_t bytes, const void *own, size_t own_bytes);

/* A flag of the caller's that another thread may set (tg_compile_options.cancel); NULL: it is not set. */
static inline bool tg_flag_is_set(const int *flag) { return flag && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }

/* Seconds of a monotonic clock. */
double tg_now(void);

/* Files. tg_read_file: the contents, in the arena, followed by a NUL; NULL if unreadable (errno says why). */
char *tg_read_file(tg_env *e, const char *path, size_t *bytes);
/* Likewise for a file in a folder, but only if no other user can write to either (root: root may own them). */
char *tg_read_private(tg_env *e, const char *folder, const char *name, bool root, size_t *bytes);
/* Creates the folder if needed; it must belong to this user alone. Writes a temporary file, syncs and renames it, so
 * readers see all or nothing. Returns 0 or an errno. */
int tg_write_private(const char *folder, const char *name, const void *data, size_t bytes);
int tg_write_all(int fd, const void *data, size_t bytes);   /* raises no SIGXFSZ; returns 0 or an errno */
/* Can no other user write to this open file or folder (root: root may own it)? bytes, unless NULL: its size. */
bool tg_is_private(int fd, bool root, size_t *bytes);
#endif
