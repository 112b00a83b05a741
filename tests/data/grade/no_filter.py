"""A command where seccomp(2) is refused, as in some containers: python3 tests/data/grade/no_filter.py COMMAND..."""
import ctypes
import errno
import os
import platform
import struct
import sys

SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
LOAD, EQUAL, RETURN, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000
LINES = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, SECCOMP), (RETURN, 0, 0, ERRNO | errno.EPERM), (RETURN, 0, 0, ALLOW)]


class Program(ctypes.Structure):
    """struct sock_fprog"""
    _fields_ = [("n", ctypes.c_ushort), ("lines", ctypes.c_char_p)]


prctl = ctypes.CDLL(None, use_errno=True).prctl
program = Program(len(LINES), b"".join(struct.pack("=HBBI", *line) for line in LINES))
if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, ctypes.byref(program), 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
