"""A Llama of the shape of Llama 3.2 3B: prefill and decode, by how its weights are stored."""
