/* SPDX-License-Identifier: MIT
 * The stand-in's objects and the work that it puts off. All is called with its lock held. */
#ifndef TG_TEST_STANDIN_WORK_H
#define TG_TEST_STANDIN_WORK_H
#include <stddef.h>
#include "../ptx/ptx.h"
#include "standin.h"

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, BAD_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, UNKNOWN = 999 };
typedef uint64_t address;

typedef struct { int device, uses, sees; } context;   /* sees: bit d: memory of device d */

typedef struct module module;
typedef struct { const ptx_kernel *kernel; module *of; int local; uint32_t buffers; } function;
struct module { ptx_module parsed; char *text; context *of; bool alive; function function[32]; uint32_t n; };

typedef enum { PIECE_DEVICE, PIECE_PINNED, PIECE_PAGES } piece_kind;
typedef struct piece { struct piece *next; char *data; size_t bytes; context *of; piece_kind kind; bool alive; } piece;

typedef struct stream stream;
typedef struct { context *of; stream *on; uint64_t at; bool alive, timed, recorded; double time; } event;   /* recorded as operation `at` of that stream */

enum { ARGUMENTS = 64, NODES = 512 };
typedef enum { OP_LAUNCH, OP_COPY, OP_RECORD, OP_WAIT, OP_GRAPH } op_kind;
typedef struct graph graph;
typedef struct op {
  struct op *next;
  op_kind kind;
  function *function;
  uint32_t groups[3], local;
  uint64_t argument[ARGUMENTS];
  address to, from;
  size_t bytes;
  event *event;                 /* of a record */
  stream *on;                   /* what a wait waits for */
  uint64_t at;
  graph *graph;                 /* its own copy */
} op;
struct graph { op *node[NODES]; uint64_t before[NODES]; uint32_t n; bool alive, made; graph *from; };   /* before: 1 + the node that must run first */
struct stream { stream *next; context *of; op *first, **last; uint64_t put, done; bool alive; };

/* As the driver's structures. */
typedef struct { void *function; unsigned groups[3], threads[3], local; void **arguments, **more; } shape;
typedef struct { size_t x, y, z, level; unsigned type; void *host; address device; void *array, *reserved; size_t pitch, height; } side;
typedef struct { side from, to; size_t width, height, depth; } copying;

standin *standin_lock(void);
standin *standin_lock_held(void);
void standin_unlock(void);
int fault(const char *text);            /* the context is lost, with a code of the interface's */
int most_local(int device);
void forget(void);

function *function_of(module *m, const char *name);
bool launches_pending(const module *m);
int new_piece(context *of, size_t n, piece_kind kind, void *host, address *out);
int drop_piece(address p, piece_kind kind);
piece *find_piece(address p, size_t n);   /* that is alive */
stream *new_stream(context *of);
bool is_stream(const stream *s);
int drop_stream(stream *s);
event *new_event(context *of, bool timed);
int drop_event(event *e);
int put(stream *s, const op *o);
int put_record(stream *s, event *e);
int put_wait(stream *s, event *e);
int run_stream(stream *s);
int query(event *e);
int synchronise(event *e);
int elapsed(const event *a, const event *b, float *ms);
int add_node(graph *g, const op *o, void *const *before, size_t n, void **out);
graph *instantiate(graph *g);
int set_node(graph *made, void *node, const op *o);
int put_graph(graph *made, stream *s);
int drop_graph(graph *g);
#endif
