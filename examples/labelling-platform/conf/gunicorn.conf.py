workers = 4
worker_tmp_dir = "/dev/shm"
graceful_timeout = 20  # seconds; the pod is given longer
