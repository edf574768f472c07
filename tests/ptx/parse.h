/* SPDX-License-Identifier: MIT
 * What lex.c, words.c and parse.c share. */
#ifndef TG_TEST_PTX_PARSE_H
#define TG_TEST_PTX_PARSE_H
#include <setjmp.h>
#include "ptx.h"

/* One token: a word with its dots ("ld.global.b32", "%r12", "0f3F800000", "-6"), one character, or nothing at the end. */
typedef struct {
  const char *at, *token;
  uint32_t n, line;                     /* of the token: characters, and its line */
  uint32_t here;                        /* the line of `at` */
  char *message;                        /* PTX_MESSAGE characters */
  jmp_buf trap;
} ptx_lexer;

void ptx_next(ptx_lexer *x);            /* to the next token; n is 0 at the end */
bool ptx_is(const ptx_lexer *x, const char *text);
bool ptx_take(ptx_lexer *x, const char *text);
void ptx_expect(ptx_lexer *x, const char *text);
_Noreturn void ptx_refuse(ptx_lexer *x, const char *format, ...);
void ptx_copy(const ptx_lexer *x, char *to, size_t room);   /* the token */
bool ptx_number(ptx_lexer *x, uint64_t *bits);              /* an immediate: the token read, or false */

/* words.c: the mnemonic in the token to op, fields and types. */
void ptx_mnemonic(ptx_lexer *x, ptx_instruction *i);
bool ptx_type_named(const char *name, size_t n, uint8_t *type);
#endif
