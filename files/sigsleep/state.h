/* The state of a filler: the file of its last save. It is the record of that save. */
#ifndef STATE_H
#define STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

enum { FILLER_VERSION = 3 };

/*
 * Reads the file that `option` names. Returns false if there is none. A state that is torn, newer than this program, or of a filler
 * with another number or amount of work (ns) is wrong use.
 */
bool read_state(const char *option, const char *path, int64_t id, int64_t work, struct filler_data *state);

/*
 * Writes PATH.new and moves it to PATH, so that PATH is a complete state at any instant, the one before or this one. Returns 0 or
 * -errno.
 */
long write_state(const char *path, struct filler_data *state);

#endif
