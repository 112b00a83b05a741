/* inih's ini_parse_stream, for the page. lib/base/option_file.c trims and checks the lines before. Like inih, this
 * function skips comments and sections, and continues after an error. */
#include <ini.h>

#include <string.h>

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r\n", text[n - 1])) n--;
    text[n] = 0;
    return text;
}

int ini_parse_stream(ini_reader reader, void *stream, ini_handler handler, void *user) {
    char line[INI_MAX_LINE];
    int number = 0, first_error = 0;
    while (reader(line, sizeof line, stream)) {
        char *text = trim(line), *equals = strpbrk(text, "=:");
        number++;
        if (!*text || strchr(";#[", *text)) continue;
        if (equals) *equals = 0;
        if ((!equals || !handler(user, "", trim(text), trim(equals + 1))) && !first_error) first_error = number;
    }
    return first_error;
}
