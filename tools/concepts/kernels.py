"""Lesson 11: which sectors of memory a warp touches, and which banks of shared memory. Lesson 23: tiles of a product,
and of attention."""
import math

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, PINK, RED, SOFT, Canvas

LANES, SECTOR, BANKS, WORD = 32, 32, 32, 4


def sectors_of(address):
    """The sectors of 32 bytes that a request touches: lane -> byte address of its float."""
    return {address(lane) // SECTOR for lane in range(LANES)}


def wavefronts_of(word):
    """The number of different words that the busiest bank has to give."""
    words = {word(lane) for lane in range(LANES)}
    return max(sum(1 for w in words if w % BANKS == bank) for bank in range(BANKS))


READS = [("x[i + lane]", "neighbors, aligned", lambda lane: WORD * lane),
         ("x[i + 3 + lane]", "neighbors, from the middle of a sector", lambda lane: WORD * (lane + 3)),
         ("x[2 * lane]", "every second float", lambda lane: 2 * WORD * lane),
         ("x[768 * lane]", "a column: floats a row apart", lambda lane: 768 * WORD * lane)]
SHARED = [("t[lane]", lambda lane: lane), ("t[2 * lane]", lambda lane: 2 * lane),
          ("t[32 * lane]", lambda lane: 32 * lane), ("t[33 * lane]", lambda lane: 33 * lane)]


def traffic():
    c = Canvas("One load of a warp: sectors of memory, banks of shared memory", "Four patterns of 32 lanes with the "
               "sectors of 32 bytes that they touch; four with the banks of shared memory.", 520)
    c.text(16, 56, "Memory: a square is a float, a frame a sector of 8 floats; what lanes read is blue", bold=True)
    for row, (code, words, address) in enumerate(READS):
        y, touched = 70 + row * 48, sectors_of(address)
        c.text(16, y + 16, code, mono=True, size=13)
        c.text(16, y + 33, words, size=12, colour=SOFT)
        shown = sorted(touched)[:8]
        for place, sector in enumerate(shown):
            if code == "x[768 * lane]" and place > 6:
                break
            x = 262 + place * 54
            read = {address(lane) // WORD for lane in range(LANES)}
            for i in range(8):
                c.box(x + i * 6, y + 4, 6, 22, BLUE if sector * 8 + i in read else "none", edge=GREY, thick=0.6)
            c.box(x, y + 4, 48, 22, "none", edge=LINE, thick=1.6)
        if len(touched) > 8:
            c.text(262 + 7 * 54 + 12, y + 20, "...", bold=True)
        c.text(706, y + 14, f"{len(touched)} sectors", bold=True)
        c.text(706, y + 31, f"128 bytes of {len(touched) * SECTOR} used", size=12, colour=SOFT)
    c.text(16, 284, "Shared memory: 32 banks, word w in bank w mod 32; a colour says how many words one bank has to "
           "give", bold=True)
    for row, (code, word) in enumerate(SHARED):
        y, words = 298 + row * 36, {word(lane) for lane in range(LANES)}
        c.text(16, y + 20, code, mono=True, size=13)
        for bank in range(BANKS):
            wanted = sum(1 for w in words if w % BANKS == bank)
            c.box(262 + bank * 13.4, y + 4, 13.4, 24, "none" if wanted == 0 else BLUE if wanted == 1 else ORANGE
                  if wanted < 32 else RED, edge=LINE if wanted else GREY, thick=0.8)
        c.text(706, y + 20, f"{wavefronts_of(word)} wavefront" + ("s" if wavefronts_of(word) > 1 else ""), bold=True)
    c.legend(262, 458, [(BLUE, "one word"), (ORANGE, "2 words"), (RED, "32 words")])
    c.note("A tile of 32 x 32 is read by columns with a stride of 32: one bank for all. A padding column makes it 33, "
           "and each lane has its own.")
    return c


# ---- lesson 23 ----
FP32, TENSOR, MEMORY = 67.0, 989.0, 3.35                     # TFLOP/s and TB/s of an H100 (SXM), as it is sold


def per_byte(rows, columns, size):
    """Flops per byte that a block of rows x columns loads, for each k: 2 rows columns / ((rows + columns) size)."""
    return 2 * rows * columns / ((rows + columns) * size)


# A warp of version 1 asks for a sector of A and four of B, for 32 products.
VERSIONS = [("1", 2 * LANES / (5 * SECTOR), FP32), ("2", per_byte(32, 32, 4), FP32), ("3", per_byte(64, 64, 4), FP32),
            ("4", per_byte(16, 16, 2), TENSOR),
            ("64 x 64", per_byte(64, 64, 2), TENSOR), ("128 x 256", per_byte(128, 256, 2), TENSOR)]


def product():
    c = Canvas("C = A B: tiles of a block and of a warp, and the roof over them", "Left: a block's tile of C with its "
               "strips of A and B, a warp's quarter, its four fragments. Right: a roofline with six kernels.", 490)
    side, gap = 128, 18
    x0, y0 = 20, 60
    xb, yc = x0 + side + gap, y0 + side + gap
    c.text(xb + side / 2, y0 - 8, "B (K,N)", anchor="middle")
    c.text(x0, yc - 5, "A (M,K)")
    c.box(xb, y0, side, side, PALE)
    c.box(x0, yc, side, side, PALE)
    c.box(xb, yc, side, side, PALE)
    tile = 32
    c.box(xb + 2 * tile, y0, tile, side, "none", edge=LINE, dashed=True)
    c.box(x0, yc + tile, side, tile, "none", edge=LINE, dashed=True)
    c.box(xb + 2 * tile, y0 + 48, tile, 16, ORANGE)
    c.box(x0 + 48, yc + tile, 16, tile, BLUE)
    c.box(xb + 2 * tile, yc + tile, tile, tile, GREEN)
    c.text(xb + 4, yc + side - 6, "C (M,N)")
    for k, words in enumerate(["A block loads a blue and an orange tile,", "multiplies them, and goes on along K. Its",
                               "green tile stays in registers."]):
        c.text(x0, yc + side + 22 + 16 * k, words, size=12)
    xz, yz, big = xb + side + 30, yc - 20, 112
    c.line([(xb + 3 * tile, yc + tile), (xz, yz)], dashed=True)
    c.line([(xb + 3 * tile, yc + 2 * tile), (xz, yz + big)], dashed=True)
    for i in range(2):
        for j in range(2):
            mine = i == 0 and j == 1
            c.box(xz + j * big / 2, yz + i * big / 2, big / 2, big / 2, GREEN if mine else PALE, thick=1.6)
            for r in range(2):
                for q in range(2):
                    c.box(xz + j * big / 2 + q * big / 4, yz + i * big / 2 + r * big / 4, big / 4, big / 4, "none",
                          edge=INK if mine else GREY, thick=0.8)
    for r in range(2):
        c.box(xz - 22, yz + r * big / 4 + 4, 16, big / 4 - 8, BLUE)
        c.box(xz + big / 2 + r * big / 4 + 4, yz - 22, big / 4 - 8, 16, ORANGE)
    c.text(xz, yz + big + 18, "Four warps. One has", size=12)
    c.text(xz, yz + big + 34, "2 x 2 fragments: it", size=12)
    c.text(xz, yz + big + 50, "loads 4, for 4 products.", size=12)

    left, right, top, bottom, first, last, low, high = 500, 836, 60, 390, -2, 10, -1, 11
    def x_of(v):
        return left + (math.log2(v) - first) / (last - first) * (right - left)
    def y_of(v):
        return bottom - (math.log2(v) - low) / (high - low) * (bottom - top)
    for power in range(first, last + 1, 2):
        c.line([(x_of(2 ** power), top), (x_of(2 ** power), bottom)], GREY, 0.6)
        c.text(x_of(2 ** power), bottom + 16, f"{2.0 ** power:g}", size=12, anchor="middle")
    for power in range(low + 1, high + 1, 2):
        c.line([(left, y_of(2 ** power)), (right, y_of(2 ** power))], GREY, 0.6)
        c.text(left - 6, y_of(2 ** power) + 4, f"{2 ** power}", size=12, anchor="end")
    c.text((left + right) / 2, bottom + 34, "flops per byte loaded", size=12, anchor="middle")
    c.text(left - 30, top - 12, "TFLOP/s at most", size=12)
    c.line([(x_of(2 ** low / MEMORY if 2 ** low / MEMORY > 2 ** first else 2 ** first),
             y_of(max(2 ** low, MEMORY * 2 ** first))), (x_of(TENSOR / MEMORY), y_of(TENSOR)), (right, y_of(TENSOR))],
           INK, 2)
    c.line([(x_of(FP32 / MEMORY), y_of(FP32)), (right, y_of(FP32))], INK, 2)
    c.text(right, y_of(TENSOR) - 7, "tensor cores, bf16: 989", size=12, anchor="end")
    c.text(right, y_of(FP32) - 7, "fp32: 67", size=12, anchor="end")
    for name, intensity, roof in VERSIONS:
        x, y = x_of(intensity), y_of(min(roof, MEMORY * intensity))
        c.dot(x, y, 5, BLUE if roof == FP32 else ORANGE, INK)
        above = name in ("4", "64 x 64", "128 x 256")
        c.text(x - 8 if above else x + 9, y - 6 if above else y + 14, name, size=12,
               anchor="end" if above else "start", bold=True)
    c.legend(560, 446, [(BLUE, "fp32"), (ORANGE, "bf16, tensor cores")])
    c.note("1 to 4: versions of products.cu; 64 x 64: the exercise. Bytes are those that blocks ask for, and no cache "
           "helps.")
    return c


def attention():
    tiles, size, x0, y0 = 8, 34, 60, 62
    c = Canvas("FlashAttention: a block of queries goes over the tiles of keys that it sees",
               "A square of 8 x 8 tiles below the diagonal; row 5 is in work. Its running maximum, sum and output; "
               "bytes of both ways.", 400)
    c.text(x0 + tiles * size / 2, y0 - 10, "keys and values", size=12, anchor="middle")
    c.text(x0 - 46, y0 + 14, "queries", size=12)
    row, now = 5, 3
    for i in range(tiles):
        for j in range(tiles):
            fill = "none" if j > i else PALE
            if i == row and j <= i:
                fill = BLUE if j < now else ORANGE if j == now else PALE
            c.box(x0 + j * size, y0 + i * size, size, size, fill, edge=GREY if j > i else LINE, dashed=j > i)
    c.box(x0, y0 + row * size, (row + 1) * size, size, "none", edge=INK, thick=2)
    c.text(x0 + tiles * size - 8, y0 + 22, "never read", size=12, anchor="end", colour=SOFT)
    c.text(x0, y0 + tiles * size + 20, "blue: seen; orange: in shared memory now; rows are blocks, in any order",
           size=12)
    xr, yr = 400, 62
    c.text(xr, yr, "What a query keeps, in registers", bold=True)
    for k, (name, words, step) in enumerate([("ẑ", "largest score", "ẑ' = max(ẑ, scores of the tile)"),
                                             ("Z", "sum of exponentials", "Z' = Z e^(ẑ - ẑ') + sum of e^(z - ẑ')"),
                                             ("y", "weighted values, D numbers",
                                              "y' = y e^(ẑ - ẑ') + sum of e^(z - ẑ') v")]):
        c.box(xr, yr + 14 + 40 * k, 30, 30, GREEN, name, bold=True)
        c.text(xr + 40, yr + 27 + 40 * k, words, size=12)
        c.text(xr + 40, yr + 43 + 40 * k, step, size=12, mono=True, colour=SOFT)
    positions, channels, size_of = 4096, 64, 2
    scores = 4 * positions * positions * size_of
    vectors = 4 * positions * channels * size_of
    yb = yr + 166
    c.text(xr, yb, f"Bytes of a head, T = {positions}, D = {channels}, bf16", bold=True)
    for k, (words, n, fill) in enumerate([("scores and probabilities, written and read", scores, PINK),
                                          ("q, k, v and y, once", vectors, BLUE)]):
        c.text(xr, yb + 22 + 46 * k, words, size=12)
        c.box(xr, yb + 28 + 46 * k, max(2, 340 * n / scores), 16, fill)
        c.text(xr + max(2, 340 * n / scores) + 8, yb + 41 + 46 * k, f"{n / 1e6:.1f} MB", size=12, bold=True)
    c.note("A tile with a larger score scales both sums down. At the end y / Z is the result, and ẑ + log Z is lse.")
    return c


PICTURES = {"sectors-and-banks": traffic, "product-tiles": product, "flash-tiles": attention}
