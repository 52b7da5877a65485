"""Keys and values of a batch of conversations, row by row, kept from one turn to the next.

A row holds one conversation at positions 0, 1, 2, ... of its own: rows are ragged and there is no padding inside them. Rows
that are being extended are always the first ones (a finished row changes places with the last active one), so that attention
reads plain views.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class KVCache:
    """One (rows, capacity, heads, head size) tensor for keys and one for values in each layer, made at first use and filled
    with zeros: what is masked out still enters a product with weight 0, so it must be finite.

    ``tokens[r]`` are the ids whose keys and values row ``r`` holds; ``conversations[r]`` is its key.
    """

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self.keys: list[torch.Tensor | None] = [None] * layers
        self.values: list[torch.Tensor | None] = [None] * layers
        self.conversations: list[int] = []
        self.tokens: list[list[int]] = []
        self.capacity = 0
        self._flat = torch.empty(0, dtype=torch.long)
        self._active = 0
        self._length = 0

    def arrange(self, conversations: Sequence[int], capacity: int) -> None:
        """Make the rows exactly these conversations, in this order, with room for ``capacity`` positions. Rows of others go."""
        # The last position of a row is never a real one: padding that would run over the end is written there.
        if list(conversations) == self.conversations and capacity < self.capacity:
            return
        rows = {conversation: row for row, conversation in enumerate(self.conversations)}
        old_tokens = self.tokens
        self.tokens = [old_tokens[rows[c]] if c in rows else [] for c in conversations]
        kept = [(new, rows[c]) for new, c in enumerate(conversations) if c in rows]
        used = max((len(old_tokens[old]) for _, old in kept), default=0)
        self.capacity = max(capacity + 64, self.capacity)
        for store in (self.keys, self.values):
            for layer, old in enumerate(store):
                if old is None:
                    continue
                new = old.new_zeros((len(conversations), self.capacity, *old.shape[2:]))
                if kept:
                    to, source = [n for n, _ in kept], [o for _, o in kept]
                    new[to, :used] = old[source, :used]
                store[layer] = new
        self.conversations = list(conversations)

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        if a == b:
            return
        used = max(len(self.tokens[a]), len(self.tokens[b]))
        for store in (self.keys, self.values):
            for tensor in store:
                if tensor is not None:
                    tensor[[a, b], :used] = tensor[[b, a], :used]
        self.conversations[a], self.conversations[b] = self.conversations[b], self.conversations[a]
        self.tokens[a], self.tokens[b] = self.tokens[b], self.tokens[a]

    def forget(self, conversations: Sequence[int]) -> None:
        """The rows of these may be reused by a conversation of the same key only after they are empty."""
        gone = set(conversations)
        for row, conversation in enumerate(self.conversations):
            if conversation in gone:
                self.tokens[row] = []

    def clear(self) -> None:
        """Every key and value is void (the weights changed)."""
        self.tokens = [[] for _ in self.tokens]

    def begin(self, positions: torch.Tensor, length: int) -> None:
        """The next forward pass writes at ``positions`` (active rows, new tokens) and attends over ``length`` positions."""
        rows = torch.arange(positions.shape[0]).unsqueeze(1)
        self._flat = (rows * self.capacity + positions).reshape(-1).to(positions.device)
        self._active = positions.shape[0]
        self._length = length

    def extend(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new keys and values, each (active rows, new tokens, heads, head size); views of what to attend over, each
        (active rows, length, heads, head size)."""
        stored = []
        for store, new in ((self.keys, keys), (self.values, values)):
            tensor = store[layer]
            if tensor is None:
                tensor = new.new_zeros((len(self.conversations), self.capacity, *new.shape[2:]))
                store[layer] = tensor
            tensor.view(-1, *new.shape[2:]).index_copy_(0, self._flat, new.reshape(-1, *new.shape[2:]))
            stored.append(tensor[: self._active, : self._length])
        return stored[0], stored[1]
