# An image with the command, without Swift: docker build -t takeset . && docker run --rm -v "$PWD:/data" takeset run sessions --output dataset
#
# The default image has the archive of `make tarball` in it, which brings its own small FFmpeg. `--target debian` makes an image of the
# Debian package, which is 200 MB larger and can simulate videos too, with the encoders of Debian's FFmpeg.

FROM swift:6.1-bookworm AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends build-essential git python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Installs what else is missing. The package lists go stale in a layer of their own, so they are read again.
RUN apt-get update && make tarball deb && rm -rf /var/lib/apt/lists/*

FROM debian:bookworm-slim AS debian
COPY --from=build /src/build/packages/takeset_*_amd64.deb /tmp/
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /tmp/takeset_*_amd64.deb \
 && rm -rf /var/lib/apt/lists/* /tmp/takeset_*_amd64.deb
WORKDIR /data
ENTRYPOINT ["takeset"]
CMD ["--help"]

# The capture server: docker build --target server -t takeset-server . && docker run -p 8080:8080 -v takeset:/data takeset-server
FROM build AS build-server
RUN apt-get update && make server-deb && rm -rf /var/lib/apt/lists/*

FROM debian AS server
COPY --from=build-server /src/build/packages/takeset-server_*_amd64.deb /tmp/
# The small program that makes the package's user, in place of all of systemd.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends systemd-standalone-sysusers ca-certificates /tmp/takeset-server_*_amd64.deb \
 && rm -rf /var/lib/apt/lists/* /tmp/takeset-server_*_amd64.deb \
 && install -d -m 750 -o takeset-server -g takeset-server /data
USER takeset-server
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["takeset-server", "serve", "--data", "/data", "--listen", "0.0.0.0:8080"]
CMD []

# The archive is unpacked in the build stage, so that its compressed form is in no layer.
FROM build AS unpacked
RUN mkdir /takeset && tar -xzf build/packages/takeset-*-x86_64-linux.tar.gz -C /takeset --strip-components=1

FROM debian:bookworm-slim
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libstdc++6 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=unpacked /takeset /opt/takeset
RUN ln -s /opt/takeset/bin/takeset /usr/local/bin/takeset
WORKDIR /data
ENTRYPOINT ["takeset"]
CMD ["--help"]
