"""Worker processes of this machine: how they start, share memory, wait for one another and end."""
