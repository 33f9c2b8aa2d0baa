"""In place of a resource plugin that this machine lacks: takes every input as it is. Enough for a preview.

The engine starts it as `pulumi-resource-NAME`, a link to this file's launcher, and reads its port from stdout.
"""

import threading
from concurrent import futures
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """Its method names are the protocol's."""

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Newer than any that is asked for."""
        return plugin_pb2.PluginInfo(version="999.0.0")

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The provider's own inputs."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Nothing to set up."""
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=True)

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """A resource's inputs."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Its inputs are its outputs."""
        if not request.preview:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "a stand-in makes nothing: put the real plugin on PATH")
        return provider_pb2.CreateResponse(properties=request.properties)

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Nothing runs."""
        return empty_pb2.Empty()


def main() -> None:
    """Serve until the engine ends this process."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(StandIn(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
