/* The template of all pages, as the build has made it (driver/report/join). */
#include "driver/report/report.h"

__asm__(".pushsection .rodata\n.globl report_template\nreport_template:\n.incbin \"" REPORT_PAGE "\"\n.byte 0\n"
        ".popsection\n");
