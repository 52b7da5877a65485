"""Policies and what moves their weights: engines, the chat tokenizer, the noise and the fp32 master weights."""
