# The service of one machine with its Redis (docs/how-to/run-in-docker.md): docker build -t cluster-serving .
# Workers in Python need more of Debian: --build-arg PACKAGES=python3-numpy
ARG NODE=node:24-bookworm-slim
ARG BASE=debian:12-slim

FROM ${NODE} AS build
WORKDIR /src
COPY . .
RUN npm ci && npm run build:packages
# To the package, which has onnxruntime, come the dependencies of the lock file that serving needs. What deploys to AWS, bundles code,
# runs on another processor or codes other pictures stays out.
RUN npm ci --workspace local --omit=dev --omit=optional \
  && mv dist/packages/cli /app && rm -r /app/functions/*/ && cd node_modules \
  && rm -r @cluster-serving cluster-serving onnxruntime-* esbuild && mv * /app/node_modules && cd /app/node_modules \
  && find onnxruntime-node/bin -mindepth 3 -maxdepth 3 -not -name "$(node -p process.arch)" -exec rm -r {} + \
  && find icodec/dist -name '*.wasm' -not -name webp-dec.wasm -delete \
  && find . -type f \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' \) -delete \
  && cd /app/bin && for script in cluster-serving*.mjs wkr-*.mjs; do ln -s "$script" "${script%.mjs}"; done

FROM ${BASE}
ARG PACKAGES=""
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server ${PACKAGES} \
  && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /etc/redis \
  && groupadd --gid 10001 serving && useradd --uid 10001 --gid 10001 --home-dir /data serving \
  && install -d -o 10001 -g 10001 -m 700 /data \
  && find / -xdev -perm /6000 -type f -exec chmod a-s {} +
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build /app /app
ENV PATH=/app/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
# SQS, S3 and Redis listen on the loopback of the container.
EXPOSE 10020
HEALTHCHECK --interval=30s --timeout=15s --start-period=2m CMD cluster-serving status >/dev/null
# The lock is for containers that share the volume, which see no process of each other.
ENTRYPOINT ["flock", "--no-fork", "--nonblock", "--verbose", "/data", "cluster-serving", "start", "--foreground", "--host", "0.0.0.0"]
CMD ["--make-token"]
