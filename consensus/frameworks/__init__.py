"""Models, losses, schedules and an engine of PyTorch, and models of JAX.

They are ``consensus.models.Torch`` and ``JAX``, ``consensus.losses.TorchLoss``, ``consensus.step_sizes.TorchSchedule`` and
``consensus.engines.Torch``.
"""
