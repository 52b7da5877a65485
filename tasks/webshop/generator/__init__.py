"""A generated catalogue in the original's file formats: a pure function of its size and seed. Only ``tasks.webshop`` imports it."""
