"""What goes over the wire: requests and responses."""
