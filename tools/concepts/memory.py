"""Lesson 09: what is kept from forward to backward when layers are recomputed in groups. Lesson 12: a save, and where it may be cut."""
from canvas import BLUE, GREEN, GREY, LINE, ORANGE, PALE, RED, Canvas, trivium


def square_root():
    layers, group = 16, 4
    c = Canvas("Keep one input per group, recompute the group: memory like the square root of the depth", "Sixteen layers in groups of four; and bars of the planned activations for groups of 1, 2, 4, 8 and 16 layers.", 452)
    c.text(16, 58, "forward keeps the input of each group", size=13)
    c.text(16, 148, "backward of the third group: its four layers run again, and only they are there", size=13)
    for layer in range(layers):
        x, kept, third = 16 + layer * 52, layer % group == 0, layer // group == 2
        c.box(x, 68, 46, 40, BLUE if kept else "none", f"{layer}", edge=LINE if kept else GREY)
        done = layer // group > 2
        c.box(x, 158, 46, 40, ORANGE if third and not kept else BLUE if kept and not done else "none", "" if done else f"{layer}",
              edge=LINE if (third or kept) and not done else GREY, dashed=done)
    c.arrow([(16 + 12 * 52 - 10, 210), (16 + 8 * 52 + 4, 210)])
    c.legend(500, 58, [(BLUE, "kept"), (ORANGE, "recomputed, in scratch"), ("none", "gone")])
    sizes = []
    for n in (1, 2, 4, 8, 16):
        kind = "full" if n == 1 else f"uniform:{n}"
        text = trivium(f"show memory --config configs/demo.ini --layers 64 --global-batch 16 --micro-batch 1 --pp 2 --schedule gpipe --recompute {kind}")
        sizes.append((n, int(next(line for line in text.splitlines() if line.split()[:2] == ["0", "0"]).split()[7])))
    c.text(16, 246, "planned bytes of activations, 32 layers with 16 microbatches in flight (lesson 09):", size=13)
    least = min(size for _, size in sizes)
    for i, (n, size) in enumerate(sizes):
        y = 258 + i * 24
        c.text(96, y + 14, f"groups of {n}", size=12, anchor="end")
        c.box(104, y, size / sizes[0][1] * 560, 18, GREEN if size == least else GREY)
        c.text(112 + size / sizes[0][1] * 560, y + 14, f"{size / 1e6:.1f} MB", size=12)
    c.note("Small groups keep many inputs, large groups recompute much at once. Best: N = sqrt(f L i / a) = sqrt(16 · 32 / 16) = 5.7.",
           "trivium show memory --layers 64 --global-batch 16 --micro-batch 1 --pp 2 --schedule gpipe --recompute uniform:4")
    return c


SAVE = [  # a step of a save, what a power cut right after it leaves, the checkpoint that a reader then gets
    ("every rank writes .step-120/rank-R and flushes it", "a folder with a dot", "step 60"),
    ("one all-reduce: all files are there", "a folder with a dot", "step 60"),
    ("rank 0 writes manifest.json and flushes it", "a folder with a dot", "step 60"),
    ("rank 0 renames .step-120 to step-120, flushes the folder", "step-120, which nothing names yet", "step 60"),
    ("rank 0 writes .latest and flushes it", "a file with a dot", "step 60"),
    ("rank 0 renames .latest to latest, flushes the folder", "latest names step-120", "step 120"),
]


def save():
    c = Canvas("A save of step 120, cut at any point: a reader finds a whole checkpoint", "Six steps of a save from top to bottom; after each, what a crash leaves and what a reader gets.", 358)
    c.text(44, 60, "what is done", bold=True)
    c.text(438, 60, "a crash here leaves", bold=True)
    c.text(702, 60, "a reader gets", bold=True)
    for i, (does, leaves, gets) in enumerate(SAVE):
        y = 74 + i * 36
        c.box(44, y, 366, 28, PALE, does, size=12)
        if i:
            c.arrow([(30, y - 16), (30, y + 8)], LINE)
        c.text(30, y + 19, str(i + 1), anchor="middle", size=12, bold=True)
        c.line([(414, y + 32), (434, y + 32)], RED, 2)
        c.text(424, y + 25, "✗", anchor="middle", colour=RED, bold=True)
        c.text(444, y + 19, leaves, size=12)
        c.box(702, y, 140, 28, GREEN if gets == "step 120" else BLUE, gets, size=12, bold=True)
    c.note("Step 60 is the checkpoint before. No reader opens a name with a dot, and latest changes last, in one rename. A flush stands before",
           "every name that leads to what was flushed, or a power cut could leave the name without the content.")
    return c


PICTURES = {"recompute-groups": square_root, "save-protocol": save}
