# A customer's image for Ray's pods and the drivers of a queue pool, as docs/how-to/ray-jobs.md describes it: Ray and the
# framework by hash, and the wheel of ebbtide-jobs. pip compiles what it installs: Ray's processes give each other 15 s.
# Debian's own packages for Python stay beside pip's newer ones.
ARG BASE
FROM ${BASE}
COPY ray.txt ebbtide_jobs-*.whl /tmp/
RUN pip install --no-cache-dir --break-system-packages --ignore-installed --require-hashes --requirement /tmp/ray.txt \
 && pip install --no-cache-dir --break-system-packages --no-deps /tmp/ebbtide_jobs-*.whl
USER 1000:1000
