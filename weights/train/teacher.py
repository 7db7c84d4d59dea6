"""The teacher: a pretrained transformer with a layer on top of its mean."""

from __future__ import annotations

from pathlib import Path

import torch
from ragged import Array
from torch import Tensor, nn
from transformers import AutoModel

DROPOUT = 0.1


class Teacher(nn.Module):
    """Word pieces to logits, called like the student. `folder` holds the pretrained encoder."""

    def __init__(self, folder: Path, labels: int) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False)
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(self.encoder.config.hidden_size, labels)

    @property
    def pad(self) -> int:
        """The piece that fills up."""
        return int(self.encoder.config.pad_token_id)

    def pooled(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The mean over a text's own pieces."""
        own = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)
        with ids.device:  # what the encoder makes on the way it makes there, without waiting
            hidden = self.encoder(input_ids=ids.long(), attention_mask=own.long()).last_hidden_state
        return (hidden.float() * own.unsqueeze(2)).sum(dim=1) / lengths.unsqueeze(1)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Logits of a padded batch."""
        return self.head(self.dropout(self.pooled(ids, lengths)).to(self.head.weight.dtype))


def principal(vectors: Tensor, dimensions: int, scale: float = 0.3) -> Array:
    """Vectors in the axes in which they differ most, scaled to a standard deviation."""
    centred = vectors.double() - vectors.double().mean(dim=0)
    _, axes = torch.linalg.eigh(centred.T @ centred)
    moved = centred @ axes.flip(1)[:, :dimensions]
    return (moved * (scale / moved.std())).half().cpu().numpy()
