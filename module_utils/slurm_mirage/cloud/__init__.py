"""The servers and other resources of a cluster in an OpenStack cloud. Nothing here changes a cloud."""
