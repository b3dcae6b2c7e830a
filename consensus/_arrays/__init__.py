"""Foundations of the other rooms: rows of arrays, threads, sparse rows, random streams, messages, files, progress bars."""
