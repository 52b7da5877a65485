"""The WebShop suite: catalogue, search, goals, reward, pages, server and environment."""
