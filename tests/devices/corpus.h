/* SPDX-License-Identifier: MIT
 * Programs on a device through tg/device.h: each is compiled for it, launched there on memory of its own, and compared with the interpreter at stage linear. */
#ifndef TG_TEST_DEVICES_CORPUS_H
#define TG_TEST_DEVICES_CORPUS_H
#include "../library/kit.h"
#include "tg/device.h"

typedef struct corpus {
  tg_context *context;
  tg_device *device;
  kit_path path;
  bool beside;                 /* launched once more, on buffers an element beside what allocation aligns */
  bool rounds;                 /* programs that say "// rounds" are held to a bound: a chip's matrix instructions add as no document says */
  bool whole;                  /* the device has all that its row of targets says: no program is refused */
  void (*begin)(const struct corpus *);   /* before a program; NULL: nothing */
  const char *(*fault)(void);  /* what the stand-in below the driver found wrong; "": nothing; NULL: there is none */
  int launched, lacking;       /* launches that were compared; programs that ask for what the target lacks */
  /* of the program at hand */
  const kit_program *program;
  int number;                  /* in its folder */
  tg_job job;
  int64_t params[32];
  kit_memory start, want, got;
} corpus;

/* As a context lowers for the device, whose target has the numbers of its chip. */
void corpus_lower(const tg_device *, const kit_path *, tg_job *, tg_stage_fn *seen, void *user);
/* Fills job, params, start and want; false: job.env says why. The job is to be dropped in either case. */
bool corpus_interpret(corpus *, const kit_program *);
/* On copies of start, whose results are got. */
tg_status corpus_launch(corpus *, tg_kernel *, bool beside);
void corpus_compare(const corpus *);
/* True: it was launched. */
bool corpus_one(corpus *, const kit_program *);
/* The programs of the folders that are named, or, where none is, every so many of them. Returns how many. */
int corpus_run(corpus *, int folders, const char *const *folder, int every, int named, char **name);
void corpus_close(corpus *);
#endif
