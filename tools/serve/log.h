/* log.h - lines on standard error of what happens: for people, or a JSON object each. Any thread. */
#ifndef HYPATIA_SERVE_LOG_H
#define HYPATIA_SERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum log_form { LOG_TEXT = 0, LOG_JSON = 1, LOG_OFF = 2 } log_form;

/* One field of an event. */
typedef struct log_field {
    const char *name, *text; /* text: NULL where it is a number */
    double number;
} log_field;
#define LOG_TEXT_FIELD(key, value) ((log_field){.name = (key), .text = (value)})
#define LOG_NUMBER_FIELD(key, value) ((log_field){.name = (key), .number = (double)(value)})

/* "time", "event" and the fields, in one write, so that lines of threads do not mix. A text longer than some KB is cut.
 */
void log_event(log_form form, const char *event, const log_field *fields, size_t count);
#define LOG(form, event, ...)                                                                                          \
    log_event(form, event, (const log_field[]){__VA_ARGS__},                                                           \
              sizeof((const log_field[]){__VA_ARGS__}) / sizeof(log_field))

#endif
