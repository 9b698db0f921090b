/* page.c: see page.h. */
#include "page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const char page_style[] =
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 sans-serif;max-width:75rem;margin:0 auto;padding:1.5rem;color:#1f2328;"
    "background:#fff}"
    "h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid #d1d9e0}"
    "figure{margin:1rem 0;overflow-x:auto}figure svg{max-width:100%;height:auto}"
    "figcaption,summary{color:#59636e}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-size:.85rem}"
    "th,td{padding:.25rem .6rem;text-align:left;border-bottom:1px solid #d1d9e0;"
    "vertical-align:top}td.number{text-align:right;font-variant-numeric:tabular-nums}"
    "@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#15191e}"
    "h2,th,td{border-color:#3d444d}figcaption,summary{color:#9aa5b1}}"
    "@media print{body{color:#1f2328;background:#fff;max-width:none;font-size:11px}"
    "h2,th,td{border-color:#d1d9e0}figure,tr{break-inside:avoid}"
    "figure,.wide{overflow:visible}"
    "details::details-content{content-visibility:visible;display:block}}";

void page_start(FILE *file, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          file);
    svg_escape(file, title);
    fprintf(file, "</title>\n<style>%s\n%s</style>\n</head>\n<body>\n<h1>", page_style, svg_style);
    svg_escape(file, title);
    fputs("</h1>\n", file);
}

void page_end(FILE *file)
{
    fputs("</body>\n</html>\n", file);
}

void page_heading(FILE *file, const char *text)
{
    fputs("<h2>", file);
    svg_escape(file, text);
    fputs("</h2>\n", file);
}

void page_paragraph(FILE *file, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fputs("<p>", file);
    svg_escape(file, text);
    fputs("</p>\n", file);
}

void page_figure_start(FILE *file)
{
    fputs("<figure>\n", file);
}

void page_figure_end(FILE *file, const char *caption)
{
    fputs("<figcaption>", file);
    svg_escape(file, caption);
    fputs("</figcaption>\n</figure>\n", file);
}

static const json_value *find_member(const json_value *value, const char *path)
{
    char name[64];
    const char *point = strchr(path, '.');
    if (point == NULL)
        return json_member(value, path);
    snprintf(name, sizeof name, "%.*s", (int)(point - path), path);
    return find_member(json_member(value, name), point + 1);
}

static void write_cell(FILE *file, const json_value *value)
{
    if (value == NULL || value->kind == JSON_NULL)
        fputs("<td>-</td>", file);
    else if (value->kind == JSON_NUMBER)
        fprintf(file, "<td class=\"number\">%.*g</td>",
                value->number == rint(value->number) ? 15 : 5, value->number);
    else if (value->kind == JSON_BOOLEAN)
        fputs(value->number != 0 ? "<td>yes</td>" : "<td>no</td>", file);
    else {
        fputs("<td>", file);
        svg_escape(file, value->kind == JSON_TEXT ? value->text : "...");
        fputs("</td>", file);
    }
}

void page_table(FILE *file, const json_value *first, const page_column *columns, int count)
{
    fputs("<div class=\"wide\"><table>\n<thead><tr>", file);
    for (int i = 0; i < count; i++) {
        fputs("<th>", file);
        svg_escape(file, columns[i].heading);
        fputs("</th>", file);
    }
    fputs("</tr></thead>\n<tbody>\n", file);
    for (const json_value *row = first; row != NULL; row = row->next) {
        fputs("<tr>", file);
        for (int i = 0; i < count; i++)
            write_cell(file, find_member(row, columns[i].member));
        fputs("</tr>\n", file);
    }
    fputs("</tbody>\n</table></div>\n", file);
}

void page_folded_table(FILE *file, const char *summary, const json_value *first,
                       const page_column *columns, int count)
{
    fputs("<details><summary>", file);
    svg_escape(file, summary);
    fputs("</summary>\n", file);
    page_table(file, first, columns, count);
    fputs("</details>\n", file);
}
