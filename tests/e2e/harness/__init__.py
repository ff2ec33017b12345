"""What the end-to-end tests stand on: namespaces, a running itifd, models."""
