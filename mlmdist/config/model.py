"""What a run trains: the encoder's shape, and the weights that it begins from."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt, model_validator

from mlmdist.config.loading import Section


class Model(Section):
    """The encoder's shape; defaults are BERT-base's (Devlin et al. 2019, section 3)."""

    num_layers: PositiveInt = 12
    width: PositiveInt = 768
    num_heads: PositiveInt = 12
    intermediate: PositiveInt | None = None
    """Width of the feed-forward layer; default 4 * width."""

    max_positions: PositiveInt = 512
    """Longest row, [CLS] and [SEP] counted."""

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the normal distribution new weights are drawn from."""

    layer_norm_eps: Annotated[float, Field(gt=0)] = 1e-12

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "Model":
        if self.width % self.num_heads:
            raise ValueError(
                f"num_heads={self.num_heads} must divide width={self.width}; "
                f"width {self.width // self.num_heads * self.num_heads} or "
                f"{(self.width // self.num_heads + 1) * self.num_heads} would do"
            )
        return self

    @property
    def feed_forward_width(self) -> int:
        """Width between the two matrices of a feed-forward layer."""
        return self.intermediate or 4 * self.width


class InitFrom(Section):
    """The weights that a run begins from, instead of new ones; a path alone is enough."""

    path: Path
    """A Hugging Face BERT directory, with or without heads. The encoder's shape comes from there;
    a larger `model.max_positions` lets its position embeddings grow."""

    embeddings_only_steps: Annotated[int, Field(ge=0)] = 0
    """Steps at the beginning in which only the embeddings and the decoder's bias move, to get used
    to another vocabulary (Artetxe et al. 2020, section 2.2)."""

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str | Path) else value
