"""Lesson 11: which sectors of memory a warp touches, and which banks of shared memory."""
from canvas import BLUE, GREY, LINE, ORANGE, RED, SOFT, Canvas

LANES, SECTOR, BANKS, WORD = 32, 32, 32, 4


def sectors_of(address):
    """The sectors of 32 bytes that a request touches: lane -> byte address of its float."""
    return {address(lane) // SECTOR for lane in range(LANES)}


def wavefronts_of(word):
    """The number of different words that the busiest bank has to give."""
    words = {word(lane) for lane in range(LANES)}
    return max(sum(1 for w in words if w % BANKS == bank) for bank in range(BANKS))


READS = [("x[i + lane]", "neighbors, aligned", lambda lane: WORD * lane), ("x[i + 3 + lane]", "neighbors, from the middle of a sector", lambda lane: WORD * (lane + 3)),
         ("x[2 * lane]", "every second float", lambda lane: 2 * WORD * lane), ("x[768 * lane]", "a column: floats a row apart", lambda lane: 768 * WORD * lane)]
SHARED = [("t[lane]", lambda lane: lane), ("t[2 * lane]", lambda lane: 2 * lane), ("t[32 * lane]", lambda lane: 32 * lane), ("t[33 * lane]", lambda lane: 33 * lane)]


def traffic():
    c = Canvas("One load of a warp: sectors of memory, banks of shared memory", "Four patterns of 32 lanes with the sectors of 32 bytes that they touch; four with the banks of shared memory.", 520)
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
    c.text(16, 284, "Shared memory: 32 banks, word w in bank w mod 32; a colour says how many words one bank has to give", bold=True)
    for row, (code, word) in enumerate(SHARED):
        y, words = 298 + row * 36, {word(lane) for lane in range(LANES)}
        c.text(16, y + 20, code, mono=True, size=13)
        for bank in range(BANKS):
            wanted = sum(1 for w in words if w % BANKS == bank)
            c.box(262 + bank * 13.4, y + 4, 13.4, 24, "none" if wanted == 0 else BLUE if wanted == 1 else ORANGE if wanted < 32 else RED, edge=LINE if wanted else GREY, thick=0.8)
        c.text(706, y + 20, f"{wavefronts_of(word)} wavefront" + ("s" if wavefronts_of(word) > 1 else ""), bold=True)
    c.legend(262, 458, [(BLUE, "one word"), (ORANGE, "2 words"), (RED, "32 words")])
    c.note("A tile of 32 x 32 is read by columns with a stride of 32: one bank for all. A padding column makes it 33, and each lane has its own.")
    return c


PICTURES = {"sectors-and-banks": traffic}
