"""Helpers of the end-to-end tests: namespaces, a running itifd, clients."""
