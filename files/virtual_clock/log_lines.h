/* Which lines slurmctld writes to its log; log_lines.c describes the variable that names them. */
#ifndef LOG_LINES_H
#define LOG_LINES_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Reads the variable, if this program is slurmctld. */
void set_up_log_lines(bool is_controller);

#pragma GCC visibility pop

#endif
