# A customer's worker image as docs/how-to describes it: the framework by hash, and the wheel of ebbtide-jobs.
ARG BASE
FROM ${BASE}
COPY backend-rq.txt ebbtide_jobs-*.whl /tmp/
RUN pip install --no-cache-dir --break-system-packages --require-hashes --requirement /tmp/backend-rq.txt \
 && pip install --no-cache-dir --break-system-packages --no-deps /tmp/ebbtide_jobs-*.whl
USER 1000:1000
