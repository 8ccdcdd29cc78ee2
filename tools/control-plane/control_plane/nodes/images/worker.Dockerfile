# A customer's image as docs/how-to describes it: the framework, or Ray and the framework, by hash, and the wheel of
# ebbtide-jobs; for sweeps Ebbtide's own. pip compiles what it installs, without which Ray's processes, which give each
# other 15 s, start too late. Debian's own packages for Python stay beside pip's newer ones.
ARG BASE
FROM ${BASE}
COPY locked.txt /tmp/
RUN pip install --no-cache-dir --break-system-packages --ignore-installed --require-hashes --requirement /tmp/locked.txt
COPY ebbtide*.whl /tmp/
RUN pip install --no-cache-dir --break-system-packages --no-deps /tmp/ebbtide*.whl
USER 1000:1000
