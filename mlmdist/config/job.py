"""What goes on around the training: what the loop does between steps, waits, tracking."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, PositiveInt, model_validator

from mlmdist.config.loading import Section

FILE_SCHEMES = ("", "file", "sqlite")  # their paths may hold an @


class Every(Section):
    """What the loop does between steps."""

    log: PositiveInt = 10
    evaluate: PositiveInt = 500
    save: PositiveInt = 500
    keep: PositiveInt = 3
    """Checkpoints kept, newest first."""


class Limits(Section):
    """After how long a wait becomes an error (law T3)."""

    peer_seconds: Annotated[float, Field(gt=0)] = 60.0
    """A rank not heard of for so long is lost (exit code 11)."""

    hang_seconds: Annotated[float, Field(gt=0)] = 600.0
    """A rank that lives without progress for so long hangs (exit code 12)."""

    start_seconds: Annotated[float, Field(gt=0)] = 600.0
    """How long ranks wait for one another at the start; longer than a pod's restart back-off."""


class Tracking(Section):
    """Where the run is shown besides its own metrics.jsonl."""

    enabled: bool = True
    uri: str | None = None
    """MLflow tracking URI; default MLFLOW_TRACKING_URI, then sqlite:///mlruns.db."""

    experiment: str = "mlmdist"
    name: str | None = None
    """Name of the MLflow run; default the run folder's name."""

    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    """The longest that the end of training waits for the tracking server."""

    @model_validator(mode="after")
    def _uri_holds_no_password(self) -> "Tracking":
        """The config is printed, logged and stored. Said of the section: the URI is not shown."""
        try:
            parts = urlsplit(self.uri or "")
        except ValueError:
            raise ValueError("uri is none; must be like http://host:5000, sqlite:///f.db") from None
        if "@" in parts.netloc or ("@" in parts.geturl() and parts.scheme not in FILE_SCHEMES):
            raise ValueError(
                "uri must hold no user and no password: use MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_URI"
            )
        return self
