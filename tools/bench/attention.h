/* SPDX-License-Identifier: MIT
 * tg bench attention: its cases with their data, and the peers. */
#ifndef TG_BENCH_ATTENTION_H
#define TG_BENCH_ATTENTION_H
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include "tg/attention.h"

/* Everything is dense, [batch][heads][tokens][head], of one type. Causal: the last query sees the last key. */
typedef struct attention_shape {
  char class_of[16];
  int batch, heads, kv_heads, head;
  int64_t queries, keys;
  bool causal, alibi, sinks;
  tg_type type;
  int64_t window;              /* 0: none */
  float soft_cap;              /* 0: none */
  float dropout;               /* 0: none; results are not compared, but that they are numbers */
  /* K and V are integers of 8 or 4 bits with a scale for each `group` elements (their rounded values are attended to);
   * 0: they are of `type` */
  int bits, group;
  int page;                    /* K and V lie in pages of so many keys, in any order. 0: in one piece. Not with masks */
  bool blocks;                 /* documents are a mask of blocks of 64, whose multiple they are, not a mask_mod */
  int documents;               /* of equal length; a token sees its own. 0: all are one */
} attention_shape;

/* Lines `class batch heads kv_heads queries keys head full|causal f32|f16|bf16`. The number of shapes, *out malloc'd;
 * -1, and a line on stderr: the file cannot be read, or is no such list. */
int attention_read_shapes(const char *path, attention_shape **out);
void attention_shape_name(const attention_shape *, char *out, size_t n);
double attention_flops(const attention_shape *);   /* 4 head for each query and key that it sees */

enum { ATTENTION_ROWS_CHECKED = 48 };
typedef struct attention_case {
  attention_shape of;
  int threads, copies;         /* of K and V, one behind the other: those that one run reads in turn */
  size_t q_bytes, kv_bytes;    /* of Q (O has as many), of one copy of K or of V */
  void *q, *k, *v, *o;
  float *slopes, *sinks;
  float *scales;               /* of integers: as many as K or V have, all alike */
  uint8_t *integers;           /* K, then V */
  size_t integer_bytes;        /* of each */
  int32_t *pages;              /* table of a sequence's pages */
  int32_t *document;           /* of a token */
  uint8_t *blocks;             /* which blocks of 64 by 64 are of one document */
  float *result;               /* of a peer, as O; or as gradients */
  size_t q_elements, results;  /* of Q; of what is computed: O, or gradients */
  /* of gradients, else NULL: dO, the LSE of the forward run, and dQ, dK, dV one behind the other */
  void *d_o, *gradients;
  float *lse;
  double *want;                /* rows that are checked */
} attention_case;
/* copies 0: as many as make K and V four times the last level of cache. False, and a line on stderr: no memory. */
bool attention_case_open(const attention_shape *, int threads, int copies, attention_case *);
void attention_case_gradients(attention_case *);    /* the case is of gradients */
void attention_case_close(attention_case *);
double attention_element(tg_type, const void *x, size_t i);
void attention_poison(const attention_case *);      /* O */
/* Is this O, of that type, right? Rows here and there are compared with plain C in f64, and none of O may be NaN. */
bool attention_right(const attention_case *, const void *o, tg_type type);
/* Are these dQ, dK, dV, one behind the other? c->o and c->lse hold a result that is right. */
bool attention_gradients_right(const attention_case *c, const void *all, tg_type type);
typedef struct attention_row { int64_t b, h, i; } attention_row;
attention_row attention_row_checked(const attention_shape *, int n);   /* n below ATTENTION_ROWS_CHECKED */

enum { ATTENTION_PEERS = 5, ATTENTION_ENTRIES = 6 };
typedef struct attention_peer attention_peer;
struct attention_peer {
  const char *name;
  bool here, gradients;        /* gradients: it computes them, too */
  char about[512];             /* its version; why it is not here, or why it does not compute a case */
  char entry[ATTENTION_ENTRIES][96];
  int entries;
  bool (*open)(attention_peer *, const attention_case *);   /* fills entries; false: none computes the case */
  bool (*use)(attention_peer *, int entry);
  double (*run)(attention_peer *, int repeat);              /* seconds of so many runs over all copies; -1: failed */
  bool (*result)(attention_peer *);                         /* the case's result, of a run */
  void (*close)(attention_peer *);                          /* the case */
  const attention_case *of;
  int used;
  void *library, *other;       /* a library's handles */
  void *state[16];
  char *memory;                /* shared with the process: Q, K, V, of gradients dO, and results in f32 */
  size_t memory_bytes;
  int shared;                  /* its descriptor */
  pid_t process;               /* of a peer in a process of its own, and pipes to and from it */
  FILE *to, *from;
};
/* One thread: the time of all threads of this process, as a library may run on one of its own. More: the clock. */
double attention_clock(int threads);
/* vs: "torch=/usr/bin/python3,ggml=/opt/lib"; NULL: all that are found. Fills all peers, those missing with why; their
 * number, or -1, and a line on stderr: a name is none of them. */
int attention_peers_open(attention_peer *, const char *vs);
void attention_peers_leave(attention_peer *, int n);
/* Each fills a peer. file NULL: where it usually is. */
void attention_blas(attention_peer *, const char *file), attention_onednn(attention_peer *, const char *file),
    attention_ggml(attention_peer *, const char *file), attention_python(attention_peer *, const char *file);
#endif
