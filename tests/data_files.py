"""Files that people give to --data, made here: what each is read as, or why it is refused; and that data inspect, data
tokenize and train say the same of it. Prints "ok NAME" and "not ok NAME why", as a script test does.

    python3 tests/data_files.py TRIVIUM FOLDER

A case is a row: name of the file, --data-format, its bytes, and what is right. That is (format, tokens, the first two)
of a file that is read, and a text that the refusal has otherwise."""
import bz2
import gzip
import io
import lzma
import random
import struct
import subprocess
import sys
import zipfile

trivium, folder = sys.argv[1:]
chance = random.Random(1)
N = 4000
noise = bytes(chance.randrange(256) for _ in range(3000))
text = b"The quick brown fox jumps over the lazy dog. " * 200
tokens = [8805, 37303] + [chance.randrange(50257) for _ in range(N - 2)]
wide = [16935, 122554] + [chance.randrange(128256) for _ in range(N - 2)]
letters = [33, 51] + [chance.randrange(65) for _ in range(N - 2)]
u16, u32, chars = struct.pack(f"<{N}H", *tokens), struct.pack(f"<{N}I", *wide), struct.pack(f"<{N}H", *letters)


def npy(descr, shape, body, version=1, order="False"):
    header = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    width = 2 if version == 1 else 4
    header += b" " * (63 - (8 + width + len(header)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(width, "little") + header + body


def llmc(magic, version, n, body, order="<"):
    return struct.pack(order + "256i", magic, version, n, *[0] * 253) + body


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", text)
    return out.getvalue()


def tar():
    import tarfile
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return out.getvalue()


def index(code, n, size, magic=b"MMIDIDX\0\0"):
    return magic + struct.pack("<QBQQiqqq", 1, code, 1, 2, n, 0, 0, 1)


READ_TEXT = ("text, one token a byte", len(text), [84, 104])
BESIDE = {"meg.idx": index(8, N, 2), "fairseq.idx": b"TNTIDX\0\0" + bytes(200)}      # with the .bin of that name
CASES = [
    # text
    ("plain.txt", "auto", text, READ_TEXT),
    ("mark.txt", "auto", b"\xef\xbb\xbf" + text, ("text, one token a byte", len(text) + 3, [239, 187])),
    ("docs.jsonl", "auto", b'{"text": "hello"}\n' * 99, ("text, one token a byte", 18 * 99, [123, 34])),
    ("crawled.txt", "auto", text + b"\xff" * 90, ("text, one token a byte", len(text) + 90, [84, 104])),
    ("latin1.txt", "auto", "Grüße aus Köln. ".encode("latin-1") * 200, "iconv -f LATIN1 -t UTF-8 latin1.txt"),
    ("zero.txt", "auto", text + b"\0" + text, "byte 9000 is 0"),
    ("zero.txt", "text", text + b"\0" + text, ("text, one token a byte", 2 * len(text) + 1, [84, 104])),
    ("utf16le.txt", "auto", b"\xff\xfe" + text.decode().encode("utf-16-le"), "iconv -f UTF-16 -t UTF-8"),
    ("utf16be.txt", "auto", b"\xfe\xff" + text.decode().encode("utf-16-be"), "iconv -f UTF-16 -t UTF-8"),
    ("utf16-without-mark.txt", "auto", text.decode().encode("utf-16-le"), "iconv -f UTF-16LE"),
    ("utf32.txt", "auto", text.decode().encode("utf-32"), "iconv -f UTF-32"),
    ("late.txt", "auto", b"a" * (40 << 20) + bytes(9), "is no text"),
    # tokens without a header
    ("nanogpt.bin", "auto", u16, "u16 tokens without a header, to 50"),
    ("nanogpt.bin", "u16", u16, ("no header, u16 tokens", N, tokens[:2])),
    ("nanogpt-char.bin", "auto", chars, "--data-format u16"),
    ("nanogpt-char.bin", "u16", chars, ("no header, u16 tokens", N, letters[:2])),
    ("llama3.bin", "auto", u32, "--data-format u32"),
    ("llama3.bin", "u32", u32, ("no header, u32 tokens", N, wide[:2])),
    ("llama3.bin", "u16", u32, "give --data-format u32"),
    ("odd.bin", "u16", u16 + b"\1", "8001 bytes"),
    ("plain.txt", "u16", text, "is text"),
    ("text.gz", "u16", gzip.compress(text), "zcat text.gz"),
    ("tokens.npy", "u16", npy("<u2", f"({N},)", u16), "has a header"),
    # NumPy's
    ("tokens.npy", "auto", npy("<u2", f"({N},)", u16), ("npy, u16 tokens", N, tokens[:2])),
    ("tokens.npy", "npy", npy("<u2", f"({N},)", u16), ("npy, u16 tokens", N, tokens[:2])),
    ("version2.npy", "auto", npy("<i8", f"({N},)", struct.pack(f"<{N}q", *wide), 2), ("npy, i64 tokens", N, wide[:2])),
    ("float.npy", "auto", npy("<f4", f"({N},)", u32), "type '<f4'"),
    ("big.npy", "auto", npy(">u2", f"({N},)", u16), "type '>u2'"),
    ("table.npy", "auto", npy("<u2", f"({N // 2}, 2)", u16), f"shape ({N // 2}, 2)"),
    ("cut.npy", "auto", npy("<u2", f"({N},)", u16[:-2]), f"says {N} elements"),
    ("long.npy", "auto", npy("<u2", f"({N},)", u16 + b"\0\0"), f"says {N} elements"),
    ("header.npy", "auto", npy("<u2", f"({N},)", b"")[:40], "copy it again"),
    ("plain.txt", "npy", text, "does not begin as NumPy's"),
    # llm.c's
    ("v1.bin", "auto", llmc(20240520, 1, N, u16), ("llm.c, u16 tokens", N, tokens[:2])),
    ("v7.bin", "llmc", llmc(20240801, 7, N, u32), ("llm.c, u32 tokens", N, wide[:2])),
    ("v1.bin", "u16", llmc(20240520, 1, N, u16), "has a header (llm.c, u16 tokens)"),
    ("v2.bin", "auto", llmc(20240520, 2, N, u16), "version 2"),
    ("big.bin", "auto", llmc(20240520, 1, N, u16, ">"), "big-endian"),
    ("model.bin", "auto", llmc(20240326, 3, 1024, u16), "with a model"),
    ("tokenizer.bin", "auto", llmc(20240328, 2, 50257, b"\1!" * 99), "with a tokenizer"),
    ("hellaswag.bin", "auto", llmc(20240522, 1, 10, u16), "HellaSwag"),
    ("state.bin", "auto", llmc(20240527, 1, 0, u16), "state of an optimizer"),
    ("nanogpt.bin", "llmc", u16, "does not begin as llm.c's"),
    # Megatron's
    ("meg.bin", "auto", u16, ("Megatron, u16 tokens", N, tokens[:2])),
    ("meg.bin", "megatron", u16, ("Megatron, u16 tokens", N, tokens[:2])),
    ("alone.bin", "auto", u16, "needs its .idx next to it"),
    ("alone.bin", "megatron", u16, "does not lie next to Megatron's index"),
    ("meg.idx", "auto", BESIDE["meg.idx"], "give the .bin next to it"),
    ("fairseq.bin", "auto", u16, "no Megatron index"),
    ("fairseq.idx", "auto", BESIDE["fairseq.idx"], "fairseq's index"),
    # compressed, archives, tables
    ("text.gz", "auto", gzip.compress(text), "zcat text.gz > OUT"),
    ("text.gz", "text", gzip.compress(text, mtime=0),
     ("text, one token a byte", len(gzip.compress(text, mtime=0)), [31, 139])),
    ("text.xz", "auto", lzma.compress(text), "xzcat text.xz > OUT"),
    ("text.bz2", "auto", bz2.compress(text), "bzcat text.bz2 > OUT"),
    ("text.zst", "auto", b"\x28\xb5\x2f\xfd" + noise, "zstdcat text.zst > OUT"),
    ("text.lz4", "auto", b"\x04\x22\x4d\x18" + noise, "lz4cat text.lz4 > OUT"),
    ("text.zip", "auto", zipped(), "unzip text.zip"),
    ("text.tar", "auto", tar(), "tar xf text.tar"),
    ("part.parquet", "auto", b"PAR1" + noise + b"PAR1", "Parquet"),
    ("data.arrow", "auto", b"ARROW1\0\0" + noise, "Arrow file"),
    ("stream.arrow", "auto", struct.pack("<iI", -1, 120) + noise, "Arrow stream"),
    ("page.pdf", "auto", b"%PDF-1.7\n" + noise, "pdftotext page.pdf"),
    ("model.safetensors", "auto", struct.pack("<Q", 64) + b'{"a":{}}'.ljust(64) + noise, "safetensors"),
    ("noise", "auto", noise, "is no text"),
]


def run(*words):
    done = subprocess.run([trivium, *words], cwd=folder, capture_output=True, check=False)
    return done.returncode, *(said.decode("utf-8", "replace").strip() for said in (done.stdout, done.stderr))


def refusal(said):
    """The sentence of an error line: what follows the place in the source."""
    return said.partition("E_")[2].partition(": ")[2]


def read_as(name, how):
    """What data inspect makes of it: (format, tokens, the first two), or the sentence."""
    code, said, error = run("data", "inspect", name, "--data-format", how, "--tokens", "2")
    if code:
        return refusal(error) if "\n" not in error else error
    lines = dict(line.split(": ", 1) for line in said.splitlines())
    return lines["format"].strip(), int(lines["tokens"]), [int(t) for t in lines["first tokens"].split()]


def others(name, how, right):
    """What the other two commands say of the same file, where it is not what inspect says; None: they agree."""
    code, said, error = run("data", "tokenize", name, "--data-format", how, "--to", "out.bin")
    if isinstance(right, str) and refusal(error) != right:
        return "tokenize: " + (error or said)
    if not isinstance(right, str) and (code == 0) != right[0].startswith("text"):
        return "tokenize: " + (error or said)
    train = ["--device", "cpu", "--threads", "1", "--layers", "1", "--hidden", "8", "--heads", "1", "--seq", "16",
             "--global-batch", "2", "--steps", "1",
             "--val-fraction", "0", "--vocab", "131072", "--metrics", "", "--log", "warn"]
    code, said, error = run("train", "--data", name, "--data-format", how, *train)
    if (refusal(error) != right) if isinstance(right, str) else code != 0:
        return "train: " + (error or said)
    return None


def check(name, how, content, right):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(content)
    got = read_as(name, how)
    title = f"{name} as {how}".replace(" ", "_")
    if right not in got if isinstance(right, str) and isinstance(got, str) else got != right:
        print(f"not ok {title} right is {right}, and it is {got}")
    elif others(name, how, got):
        print(f"not ok {title} data inspect: {got}; {others(name, how, got)}")
    else:
        print(f"ok {title}")


for case in CASES:
    for name, content in BESIDE.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(content)
    check(*case)
