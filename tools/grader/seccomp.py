"""A filter of system calls for bubblewrap: what namespaces do not separate is refused with EPERM.

Keyrings belong to a user's session and not to a namespace: what one submission leaves there, another could read.
io_uring does what other calls do past any filter of them. AF_VSOCK reaches the host of a virtual machine without the
network."""
import platform
import struct

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06       # BPF: a word of struct seccomp_data; jumps; the verdict
ALLOW, EPERM = 0x7fff0000, 0x00050001
NUMBER, ARCH, FIRST_ARGUMENT = 0, 4, 16
AF_VSOCK = 40
URING = (425, 426, 427)
# machine: AUDIT_ARCH; add_key, request_key, keyctl; socket; from here on the numbers are those of another ABI (x32)
MACHINES = {"x86_64": (0xC000003E, (248, 249, 250), 41, 1 << 30),
            "aarch64": (0xC00000B7, (217, 218, 219), 198, 1 << 30)}


def program():
    """The filter's instructions, or None on a machine whose numbers are not known here."""
    if platform.machine() not in MACHINES:
        return None
    arch, keys, socket, other = MACHINES[platform.machine()]
    lines = [(LOAD, ARCH), (EQUAL, arch, 0, "no"), (LOAD, NUMBER), (AT_LEAST, other, "no", 0)]
    lines += [(EQUAL, n, "no", 0) for n in (*keys, *URING)]
    lines += [(EQUAL, socket, 0, "yes"), (LOAD, FIRST_ARGUMENT), (EQUAL, AF_VSOCK, "no", "yes")]
    lines += [(RETURN, ALLOW), (RETURN, EPERM)]
    at = {"yes": len(lines) - 2, "no": len(lines) - 1, 0: 0}
    words = b""
    for i, (code, value, *jumps) in enumerate(lines):
        then, otherwise = (at[j] - i - 1 if j else 0 for j in (jumps or (0, 0)))
        words += struct.pack("=HBBI", code, then, otherwise, value)
    return words
