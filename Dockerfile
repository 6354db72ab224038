# lobgate with PostgreSQL's server programs: without LOBGATE_DATABASE_URL it runs a private server in /data.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --ignore-rust-version --bin lobgate

FROM debian:bookworm-slim
# The package would make a cluster of its own at installation: not wanted here.
RUN mkdir -p /etc/postgresql-common \
    && echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf \
    && apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --home-dir /data lobgate \
    && install -d -o lobgate -g lobgate -m 0700 /data
COPY --from=build /src/target/release/lobgate /usr/local/bin/lobgate
USER lobgate
WORKDIR /data
VOLUME /data
ENV LOBGATE_DATA_DIR=/data LOBGATE_LISTEN=0.0.0.0:9000 LOBGATE_ADMIN_LISTEN=0.0.0.0:9001
EXPOSE 9000 9001
# Longer than server.shutdown_grace and a last checkpoint: run with --stop-timeout 120.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD curl --fail --silent --output /dev/null http://127.0.0.1:9001/health/live
ENTRYPOINT ["lobgate"]
CMD ["serve"]
