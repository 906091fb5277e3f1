#include "tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store.h"

static bool is_token(const char *word)
{
    for (const char *c = word; *c; c++)
        if (*c <= ' ' || *c > '~') return false;
    return true;
}

static bool add(tokens *t, const char *word)
{
    char **items = realloc(t->items, (t->count + 1) * sizeof *items);
    if (!items) return false;
    t->items = items;
    items[t->count] = strdup(word);
    return items[t->count] && ++t->count;
}

hyp_status tokens_read(const char *path, tokens *out, hyp_diag *diag)
{
    tokens t = {0};
    char *line = NULL;
    size_t room = 0, number = 0;
    FILE *file = fopen(path, "re");
    if (!file) return refuse(diag, HYP_ERR_IO, "%s: cannot be read: %s", show(path).text, strerror(errno));
    hyp_status status = HYP_OK;
    for (ssize_t len; status == HYP_OK && (len = getline(&line, &room, file)) >= 0;) {
        number++;
        line[strcspn(line, "\r\n")] = 0;
        if (!*line || *line == '#') continue;
        if (!is_token(line))
            status =
                refuse(diag, HYP_ERR_MALFORMED, "%s: line %zu is no token; wanted visible characters without spaces",
                       show(path).text, number);
        else if (!add(&t, line))
            status = refuse_memory(diag);
    }
    if (status == HYP_OK && ferror(file))
        status = refuse(diag, HYP_ERR_IO, "%s: cannot be read: %s", show(path).text, strerror(errno));
    fclose(file);
    free(line);
    if (status == HYP_OK && !t.count)
        status = refuse(diag, HYP_ERR_MALFORMED, "%s: has no token; wanted one in a line", show(path).text);
    if (status == HYP_OK)
        *out = t;
    else
        tokens_free(&t);
    return status;
}

void tokens_free(tokens *t)
{
    for (size_t i = 0; i < t->count; i++) free(t->items[i]);
    free(t->items);
    *t = (tokens){0};
}

static bool equal(const char *a, const char *b)
{
    size_t len = strlen(a);
    if (len != strlen(b)) return false;
    unsigned char differ = 0;
    for (size_t i = 0; i < len; i++) differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

bool tokens_allow(const tokens *t, const char *authorization)
{
    if (!t->count) return true;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0) return false;
    const char *token = authorization + 7;
    while (*token == ' ') token++;
    bool found = false;
    for (size_t i = 0; i < t->count; i++) found |= equal(t->items[i], token);
    return found;
}
