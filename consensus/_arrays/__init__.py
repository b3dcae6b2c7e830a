"""What the rest stands on: rows of arrays, threads, sparse rows, random streams, messages, files, progress bars."""
