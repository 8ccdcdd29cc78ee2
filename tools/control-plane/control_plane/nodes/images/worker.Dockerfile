# A customer's image as docs/how-to describes it: the framework, or Ray and the framework, by hash, and the wheel of
# ebbtide-jobs. pip compiles what it installs, without which Ray's processes, which give each other 15 s, start too late.
# Debian's own packages for Python stay beside pip's newer ones.
ARG BASE
FROM ${BASE}
COPY locked.txt ebbtide_jobs-*.whl /tmp/
RUN pip install --no-cache-dir --break-system-packages --ignore-installed --require-hashes --requirement /tmp/locked.txt \
 && pip install --no-cache-dir --break-system-packages --no-deps /tmp/ebbtide_jobs-*.whl
USER 1000:1000
