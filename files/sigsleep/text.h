/* Texts, numbers, messages and the end of the program, without a C library. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_NO_RECORD = 1, EXIT_WRONG_USE = 2, EXIT_SIGNAL = 128 };

_Noreturn void leave(int status);

size_t length_of(const char *text);

/* Returns the rest of `text` after the prefix `head`, or NULL if `text` does not begin with it. */
const char *after(const char *text, const char *head);

bool same(const char *text, const char *other);

/* Returns the value of a variable of the environment, or NULL. */
const char *environment_text(char **environment, const char *name);

/* ---- numbers: unlike strtol and strtod, without signs, spaces, exponents, hexadecimal numbers, "inf" and "nan" ---- */

/* Parses a whole number from 0 to max (at least 9) and advances *text past it. */
bool scan_whole(const char **text, int64_t max, int64_t *value);

/* Parses numbers such as 12 or 12.345 as billionths, up to 9223372035.999999999; drops digits after the ninth decimal. */
bool scan_decimal(const char **text, int64_t *billionths);

/* ---- messages ---- */

/* `error` is -errno. */
const char *error_text(long error);

/* Prints an error as one line in one write. */
void complain(const char *kind, const char *what, const char *value, const char *why);

_Noreturn void wrong_use(const char *option, const char *value, const char *why);

#endif
