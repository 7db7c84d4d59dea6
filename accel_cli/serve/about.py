"""What a server says of itself."""

from __future__ import annotations

from accel_cli import __version__
from accel_cli.serve import v2
from accel_cli.serve.metrics import MEDIA_TYPE
from accel_cli.serve.openapi import description
from accel_cli.serve.replies import Reply, json_reply
from accel_cli.serve.shared import Shared
from accel_cli.serve.visit import Visit


class About:
    """Health, readiness, metadata and metrics."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def health(self, visit: Visit) -> Reply:
        """200 while the process is worth keeping."""
        if not self._shared.status.healthy:
            raise self._shared.status.refusal()
        return json_reply({"live": True})

    async def ready(self, visit: Visit) -> Reply:
        """200 while requests are taken. `ready` is what KServe's client reads, `live` what the text says."""
        if not self._shared.status.ready:
            raise self._shared.status.refusal()
        return json_reply({"live": True, "ready": True})

    async def model_ready(self, visit: Visit) -> Reply:
        """The same for the one model."""
        if not self._shared.status.ready:
            raise self._shared.status.refusal()
        return json_reply({"name": self._shared.config.name, "ready": True})

    async def server_metadata(self, visit: Visit) -> Reply:
        """Name, version, extensions."""
        return json_reply(v2.server_metadata())

    async def model_metadata(self, visit: Visit) -> Reply:
        """Inputs and outputs."""
        config = self._shared.config
        return json_reply(
            v2.model_metadata(config.name, f"accel_{self._shared.device}", len(config.model.labels))
        )

    async def info(self, visit: Visit) -> Reply:
        """What is served and how, in the words of Text Embeddings Inference, and the plan."""
        plan, labels = self._shared.batcher.plan, self._shared.config.model.labels
        ids = {str(place): label for place, label in enumerate(labels)}
        return json_reply(
            {
                "model_id": self._shared.config.name,
                "model_dtype": plan.precision if plan else None,
                "model_type": {
                    "classifier": {"id2label": ids, "label2id": {name: int(i) for i, name in ids.items()}}
                },
                "max_input_length": self._shared.config.model.max_tokens,
                "max_concurrent_requests": self._shared.limits.max_inflight,
                "max_batch_tokens": self._shared.limits.max_batch_tokens,
                "max_batch_requests": plan.batch if plan else None,
                "max_client_batch_size": self._shared.limits.max_client_batch,
                "auto_truncate": True,
                "version": __version__,
                "status": self._shared.status.phase,
                "plan": plan.keys() if plan else None,
            }
        )

    async def metrics(self, visit: Visit) -> Reply:
        """For Prometheus."""
        return Reply(self._shared.metrics.page(), media_type=MEDIA_TYPE)

    async def openapi(self, visit: Visit) -> Reply:
        """This interface, for machines."""
        return json_reply(
            description(self._shared.config.name, self._shared.limits, guarded=self._shared.token is not None)
        )
