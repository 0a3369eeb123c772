"""The sender against receivers that mean harm, on real sockets."""
