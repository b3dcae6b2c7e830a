"""Ways in which a file may be broken."""

import gzip


def halves(path):
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def spoiled(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 : 2 * len(whole) // 3] = bytes(len(whole) // 3)
    path.write_bytes(whole)


def zipped(path):
    path.write_bytes(gzip.compress(path.read_bytes()))


def emptied(path):
    path.write_bytes(b"")


WAYS = (halves, spoiled, zipped, emptied)
