/* The template of all pages, which the build makes (driver/report/join). */

__asm__(".pushsection .rodata\n.globl report_template\nreport_template:\n.incbin \"" REPORT_PAGE "\"\n.byte 0\n"
        ".popsection\n");
