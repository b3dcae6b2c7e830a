"""PyTorch's settings within calls of its functions."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

GENERATORS_LOCK = threading.RLock()  # whoever sets or watches the process's global generators: one thread at a time


@contextmanager
def one_thread(torch: ModuleType) -> Iterator[None]:
    """Hold this thread's calls of PyTorch to one thread, with gradients: sums' bits depend on how many threads share them."""
    threads = torch.get_num_threads()  # this thread's own
    if threads != 1:
        torch.set_num_threads(1)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)
