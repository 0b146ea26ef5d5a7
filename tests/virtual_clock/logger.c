/*
 * A program that logs as Slurm's daemons do (log_var of a library of its own), for test_log_lines.py: the library with -DLIBRARY,
 * else the program. Its lines are LEVEL FORMAT of standard input; each is logged with values of all kinds.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void log_var(int level, const char *format, ...);
void slurm_log_var(int level, const char *format, ...);

#ifdef LIBRARY
static void write_line(int level, const char *format, va_list values)
{
    char values_of[] = " %s %d %s %d %s %d %s %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %Lf\n";
    printf("%d %s", level, format);
    vprintf(values_of, values);
}

void log_var(int level, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_line(level, format, values);
    va_end(values);
}

void slurm_log_var(int level, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_line(level, format, values);
    va_end(values);
}
#else
int main(void)
{
    char line[256];
    for (int number = 0; fgets(line, sizeof line, stdin); number++) {
        char *format;
        int level = (int)strtol(line, &format, 10);
        format = strdup(format + 1); /* each has an address of its own, as constants have */
        format[strcspn(format, "\n")] = 0;
        (number % 2 ? log_var : slurm_log_var)(level, format, "a", 1, "b", 2, "c", 3, "d", 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0,
                                               9.0, 10.0, (long double)11);
    }
}
#endif
