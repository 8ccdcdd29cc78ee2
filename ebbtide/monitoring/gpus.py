"""PromQL for the use of GPUs and of MIG instances, as NVIDIA's dcgm-exporter reports it.

The trap: `DCGM_FI_DEV_GPU_UTIL` does not support MIG. The exporter reports 0 or no series for an instance, which is
distinguished by the labels `GPU_I_ID` and `GPU_I_PROFILE`. The use of instances is in the profiling metric
`DCGM_FI_PROF_GR_ENGINE_ACTIVE`, which needs a GPU since Volta and an exporter that collects it. Without it the use of
an instance is not known: the expressions have no result for it.
Sources: NVIDIA/dcgm-exporter, issues 216, 395 and 430; NVIDIA/DCGM, issue 80.
"""

EACH_GPU = "namespace, pod, gpu, UUID, GPU_I_ID"
"""Labels of one GPU, or of one MIG instance of it, in one pod. An instance has the `gpu` and the `UUID` of its GPU."""


def gpu_use(matchers: str, over: str = "{}") -> str:
    """Return an expression for the use in percent, by GPU and by MIG instance.

    `over` is a function over time with a place for the series, such as "max_over_time({}[15m])".
    """
    gpus = over.format(f'DCGM_FI_DEV_GPU_UTIL{{GPU_I_ID="",{matchers}}}')
    instances = over.format(f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{GPU_I_ID!="",{matchers}}}')
    return f"({gpus} or 100 * {instances})"
